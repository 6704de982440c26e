//! Simulations of the paper's router.

use crate::error::ReproduceError;
use crate::inputs::Inputs;
use crate::runner::side_by_side;
use wattline_policies::POLICIES;
use wattline_server::{Application, PacketCost, ServerModel};
use wattline_sim::{Report, Setting, run};
use wattline_traffic::source::{Constant, Content, Poisson, Rate};
use wattline_traffic::{Popularity, Sizes, Source, Spread};
use wattline_units::{Hertz, Span};

/// Seed of every run, fixed so that the page is reproducible.
pub(super) const SEED: u64 = 2012;
/// Number of flows, large enough that no single flow matters.
const FLOWS: u32 = 8192;
const PORTS: u8 = 4;

pub(super) fn server(inputs: &Inputs) -> Result<ServerModel, ReproduceError> {
    Ok(inputs.server("westmere-2010")?.model()?.clone())
}

pub(super) fn content(bytes: u16, popularity: Popularity) -> Content {
    Content::new(Sizes::fixed(bytes), FLOWS, PORTS, popularity, Spread::Even, SEED)
}

/// Arrival process of the packets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Arrivals {
    /// Equally spaced packets.
    Even,
    /// Poisson arrivals.
    Poisson,
}

/// A run at a constant mean rate.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Steady {
    pub(super) policy: String,
    pub(super) arrivals: Arrivals,
    pub(super) packets_per_second: f64,
    pub(super) bytes: u16,
    pub(super) duration: Span,
    pub(super) warmup: Span,
    pub(super) interval: Option<Span>,
}

impl Steady {
    /// Creates Poisson arrivals of 64-byte packets for 20 ms, after a warm-up of 2 ms.
    pub(super) fn new(policy: impl Into<String>, mpps: f64) -> Self {
        Self {
            policy: policy.into(),
            arrivals: Arrivals::Poisson,
            // A rate of zero becomes one packet in a hundred seconds.
            packets_per_second: (mpps * 1e6).max(0.01),
            bytes: 64,
            duration: Span::from_millis(20),
            warmup: Span::from_millis(2),
            interval: None,
        }
    }

    pub(super) fn run(&self, server: &ServerModel) -> Result<Report, ReproduceError> {
        let rate = Rate::Packets(self.packets_per_second);
        let mut source: Box<dyn Source> = match self.arrivals {
            Arrivals::Even => Box::new(Constant::new(rate, content(self.bytes, Popularity::Turns))),
            Arrivals::Poisson => {
                Box::new(Poisson::new(rate, content(self.bytes, Popularity::Uniform), SEED))
            }
        };
        simulate(
            server,
            &Job {
                policy: &self.policy,
                application: Application::Ipv4,
                bytes: self.bytes,
                duration: self.duration,
                warmup: self.warmup,
                interval: self.interval,
                output_links: false,
            },
            source.as_mut(),
        )
    }
}

/// Parameters of a simulation other than server and packets.
pub(super) struct Job<'a> {
    pub(super) policy: &'a str,
    pub(super) application: Application,
    pub(super) bytes: u16,
    pub(super) duration: Span,
    pub(super) warmup: Span,
    pub(super) interval: Option<Span>,
    pub(super) output_links: bool,
}

pub(super) fn simulate(
    server: &ServerModel,
    job: &Job<'_>,
    source: &mut dyn Source,
) -> Result<Report, ReproduceError> {
    let setting = Setting {
        application: job.application,
        mean_bytes: job.bytes.into(),
        warmup: job.warmup,
        interval: job.interval,
        output_links: job.output_links,
        seed: SEED,
        ..Setting::new(server, POLICIES.parse(job.policy)?, job.duration)
    };
    Ok(run(&setting, source)?)
}

/// Runs all simulations in parallel on all cores; results are in the order of `runs`.
pub(super) fn all(server: &ServerModel, runs: &[Steady]) -> Result<Vec<Report>, ReproduceError> {
    side_by_side(runs, |steady| steady.run(server))
}

/// Returns the policy in which `cores` cores sleep in the C-state `idle` between packets.
pub(super) fn napping(cores: usize, frequency: Hertz, idle: &str) -> String {
    format!("napi:cores={cores},frequency_ghz={:.6},idle={idle}", frequency.gigahertz())
}

/// Returns the policy in which `cores` cores never sleep.
pub(super) fn polling(cores: usize, frequency: Hertz) -> String {
    format!("poll:cores={cores},frequency_ghz={:.6}", frequency.gigahertz())
}

/// Returns the cost of an IPv4 packet of 64 bytes.
pub(super) fn ipv4(server: &ServerModel) -> Result<PacketCost, ReproduceError> {
    cost(server, Application::Ipv4, 64)
}

pub(super) fn cost(
    server: &ServerModel,
    application: Application,
    bytes: u16,
) -> Result<PacketCost, ReproduceError> {
    server.packet_cost(application, bytes.into()).ok_or_else(|| {
        ReproduceError::Model(format!("{} has no cost of {application}", server.name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paper::Paper;
    use crate::planned;

    /// A server file may refuse a change, such as an idle state with more power than an awake core.
    #[test]
    fn flips_leave_a_server_that_can_be_simulated() {
        let shipped = server(&Inputs::default()).unwrap();
        for flip in planned::made_for(Paper::Powersave).unwrap().flips() {
            let inputs = Inputs::changed(flip).unwrap();
            let policy = inputs.policy("queue-length").unwrap();
            let changed = server(&inputs).unwrap() != shipped || policy != "queue-length";
            assert!(changed, "{flip}");
        }
    }
}
