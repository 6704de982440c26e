//! Predicted energy of a constant operating point: exact for timed sleep, a lower bound for
//! interrupts.

use crate::case::Case;
use crate::error::LeagueError;
use crate::point::FixedPoint;
use wattline_policy::Wait;
use wattline_server::{PacketCost, ServerModel};
use wattline_units::Span;

/// Ratio of a state's target residency to its exit latency in the model of a core.
const RESIDENCY_PER_EXIT_LATENCY: f64 = 3.0;

/// The model of a server under one kind of packets.
#[derive(Debug, Clone, Copy)]
pub struct Prediction<'a> {
    server: &'a ServerModel,
    cost: PacketCost,
    cores: usize,
    /// Interrupt wake-ups that the prediction counts, relative to Poisson arrivals.
    wake_share: f64,
}

impl<'a> Prediction<'a> {
    /// Creates the model for frames of `bytes` bytes.
    ///
    /// # Errors
    /// When the server has no cost of the application.
    pub fn of(case: &Case<'a>, bytes: u32) -> Result<Self, LeagueError> {
        Ok(Self {
            server: case.server,
            cost: case.cost(bytes)?,
            cores: case.cores(),
            wake_share: 0.0,
        })
    }

    /// Also counts interrupt wake-ups, as this share of the wake-ups of Poisson arrivals.
    #[must_use]
    pub fn with_wake_share(self, share: f64) -> Self {
        Self { wake_share: share, ..self }
    }

    /// Returns the service time of a packet, in seconds.
    pub fn service(&self, point: &FixedPoint) -> f64 {
        let frequency = self.server.processor.frequencies[point.frequency];
        self.server.service_seconds(self.cost, frequency, point.cores)
    }

    /// Returns the packets per second that all active cores can serve.
    pub fn capacity(&self, point: &FixedPoint) -> f64 {
        point.cores as f64 / self.service(point)
    }

    /// Returns the seconds from the end of a nap until the first packet is served.
    pub fn wake_up(&self, point: &FixedPoint) -> f64 {
        self.server.wake_up_seconds(self.server.processor.frequencies[point.frequency])
    }

    /// Returns the energy of serving `packets` within `seconds`, in joules above a server without
    /// traffic whose cores are all parked. Unless interrupt wake-ups are counted, no run at this
    /// point takes less.
    pub fn energy(&self, point: &FixedPoint, packets: f64, seconds: f64) -> f64 {
        let server = self.server;
        let frequency = server.processor.frequencies[point.frequency];
        let whole = point.cores as f64 * seconds;
        let serving = (packets * self.service(point)).min(whole);
        let awake = match point.wait {
            Wait::Poll | Wait::Pause => whole,
            // Naps last until the timer expires; each ends with the work of waking.
            Wait::Sleep(span) => {
                let wake = self.wake_up(point);
                let cycle = span.as_seconds() + wake;
                let naps = ((whole - serving) / cycle - point.cores as f64).max(0.0);
                serving + naps * wake
            }
            Wait::Interrupt if point.moderation == Span::ZERO && packets > 0.0 => {
                let each = packets / whole;
                let wake = self.wake_up(point);
                let cycle = 1.0 / each + self.server.wake_up.delivery_seconds + wake;
                let naps = self.wake_share * (whole - serving) / cycle;
                (serving + naps * wake).min(whole)
            }
            Wait::Interrupt => serving,
        };
        let nap = match point.wait {
            Wait::Sleep(span) => self.depth(point.nap, span.as_seconds()),
            _ => point.nap,
        };
        let parked = (self.cores.saturating_sub(point.cores)) as f64 * seconds;
        server.awake_core_power(frequency).0 * awake
            + server.idle_core_power(nap).0 * (whole - awake)
            + server.idle_core_power(server.deepest_idle_state()).0 * parked
            // Some core is awake at least as long as the average core.
            + server.power.uncore(frequency).0 * awake / point.cores as f64
    }

    /// Returns the deepest state that a nap of this length reaches.
    fn depth(&self, limit: usize, seconds: f64) -> usize {
        let states = &self.server.idle_states;
        let reached = |state: &usize| {
            states[*state].exit_latency.as_seconds() * RESIDENCY_PER_EXIT_LATENCY <= seconds
        };
        (1..=limit.min(states.len() - 1)).take_while(reached).last().unwrap_or(0)
    }
}
