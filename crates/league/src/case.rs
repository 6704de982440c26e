//! Cases to play, and the deadline of their packets.

use crate::error::LeagueError;
use wattline_policy::PolicySpec;
use wattline_server::{Application, PacketCost, ServerModel, ServiceDistribution};
use wattline_sim::{Scenario, Setting};
use wattline_traffic::Spec;
use wattline_units::{Hertz, Span};

/// The allowed latency.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Budget {
    /// Packets that take longer are late.
    pub p99: Span,
    /// Share of the packets that may be late. Dropped packets count as late, and a run with any
    /// fails the budget.
    pub late: f64,
}

impl Budget {
    /// Allows at most 1 % of the packets to take longer than this, and no drops.
    pub fn p99(p99: Span) -> Self {
        Self { p99, late: 0.01 }
    }
}

/// A server with its traffic over a span of time.
#[derive(Debug, Clone, Copy)]
pub struct Case<'a> {
    /// The server.
    pub server: &'a ServerModel,
    /// Application that processes each packet.
    pub application: Application,
    /// The packets.
    pub traffic: &'a Spec,
    /// Simulated time that counts.
    pub duration: Span,
    /// Simulated time before that.
    pub warmup: Span,
    /// Seed of traffic, policy and service times.
    pub seed: u64,
}

impl Case<'_> {
    /// Describes the simulation of this case under a policy; it counts packets later than each of
    /// these times.
    pub(crate) fn scenario(&self, policy: PolicySpec, late_after: &[Span]) -> Scenario<'_> {
        let setting = Setting {
            application: self.application,
            warmup: self.warmup,
            seed: self.seed,
            late_after: late_after.to_vec(),
            ..Setting::new(self.server, policy, self.duration)
        };
        Scenario { setting, traffic: self.traffic }
    }

    /// Returns the cost of a packet of `bytes` bytes.
    pub(crate) fn cost(&self, bytes: u32) -> Result<PacketCost, LeagueError> {
        let cost = self.server.packet_cost(self.application, bytes);
        cost.ok_or_else(|| LeagueError::Application {
            server: self.server.name.clone(),
            application: self.application.to_string(),
        })
    }

    /// Returns the number of cores that take part: each needs a queue.
    pub fn cores(&self) -> usize {
        wattline_cores::platform_of(self.server).cores
    }

    /// Returns the time that a packet may spend in queue and core, in seconds: the budget less its
    /// time elsewhere.
    ///
    /// # Errors
    /// When this is too short for a single packet on an idle core, or service times are random.
    pub fn slack_seconds(&self, budget: Budget, shortest: u32) -> Result<f64, LeagueError> {
        let server = self.server;
        if server.capacity.service != ServiceDistribution::Fixed {
            return Err(LeagueError::RandomService(server.name.clone()));
        }
        let fastest: Hertz = server.processor.highest_frequency();
        let service = server.service_seconds(self.cost(shortest)?, fastest, 1);
        let least = server.nic.pass_through + Span::from_seconds(service);
        if budget.p99 <= least {
            return Err(LeagueError::Budget {
                budget: format!("{:.2} us", budget.p99.as_seconds() * 1e6),
                server: server.name.clone(),
                least: format!("{:.2} us", least.as_seconds() * 1e6),
            });
        }
        Ok((budget.p99 - server.nic.pass_through).as_seconds())
    }
}
