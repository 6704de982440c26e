//! Real time that the parts of the simulator take.

use schemars::JsonSchema;
use serde::Serialize;
use std::time::Instant;

/// A part of the simulator's work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Generation of packets.
    Traffic,
    /// Pacing of links and distribution of packets to rings.
    Links,
    /// Cores: rings, batches, service, latencies.
    Forward,
    /// The policy and its observations.
    Decide,
    /// Accounting: time awake, intervals, reordering.
    Account,
}

/// Seconds of real time by part; zero unless requested.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, JsonSchema)]
pub struct Profile {
    /// Time of [`Phase::Traffic`].
    pub traffic_seconds: f64,
    /// Time of [`Phase::Links`].
    pub links_seconds: f64,
    /// Time of [`Phase::Forward`].
    pub forward_seconds: f64,
    /// Time of [`Phase::Decide`].
    pub decide_seconds: f64,
    /// Time of [`Phase::Account`].
    pub account_seconds: f64,
}

impl Profile {
    /// Times by name of the part.
    pub fn parts(&self) -> [(&'static str, f64); 5] {
        [
            ("traffic", self.traffic_seconds),
            ("links", self.links_seconds),
            ("forward", self.forward_seconds),
            ("decide", self.decide_seconds),
            ("account", self.account_seconds),
        ]
    }
}

/// Attributes the time between two calls to a phase.
#[derive(Debug)]
pub(crate) struct Stopwatch {
    last: Option<Instant>,
    pub profile: Profile,
}

impl Stopwatch {
    /// Creates a stopwatch that runs, or one that costs nothing.
    pub fn new(running: bool) -> Self {
        Self { last: running.then(Instant::now), profile: Profile::default() }
    }

    #[inline]
    pub fn lap(&mut self, phase: Phase) {
        let Some(last) = &mut self.last else { return };
        let now = Instant::now();
        let seconds = now.duration_since(*last).as_secs_f64();
        *last = now;
        *match phase {
            Phase::Traffic => &mut self.profile.traffic_seconds,
            Phase::Links => &mut self.profile.links_seconds,
            Phase::Forward => &mut self.profile.forward_seconds,
            Phase::Decide => &mut self.profile.decide_seconds,
            Phase::Account => &mut self.profile.account_seconds,
        } += seconds;
    }
}
