//! Load of one trial.

use super::flows::{FLOWS_MAX, shortest_frame};
use super::schedule::{Schedule, Shape};
use super::sizes::Sizes;
use std::time::Duration;

/// Load of one trial.
#[derive(Debug, Clone, PartialEq)]
pub struct Load {
    /// Mean packets per second of all queues together; infinite for full speed.
    pub rate_pps: f64,
    /// Duration.
    pub duration: Duration,
    /// Distribution of packets over time.
    pub shape: Shape,
    /// Number of packets of a single burst at full speed.
    pub burst: Option<u64>,
    /// Lengths of frames.
    pub sizes: Sizes,
    /// Flows of all queues together, each with its own source port.
    pub flows: u32,
    /// Time without a packet, after the last one was sent, at which the trial is over (RFC 2544,
    /// section 23: at least two seconds).
    pub drain: Duration,
}

impl Default for Load {
    fn default() -> Self {
        Self {
            rate_pps: 100_000.0,
            duration: Duration::from_secs(10),
            shape: Shape::Constant,
            burst: None,
            sizes: Sizes::imix(),
            flows: 64,
            drain: Duration::from_millis(200),
        }
    }
}

/// Largest number of packets of an account, which has a bit for each.
const PACKETS_MAX: u64 = 1 << 36;
/// Upper bound of a generator's rate, for the account of a trial without a rate.
const FASTEST_PPS: f64 = 50e6;

impl Load {
    /// Checks the load.
    ///
    /// # Errors
    /// Returns all errors, one per line.
    pub fn check(&self, ipv6: bool, queues: u32) -> Result<(), String> {
        let mut problems = Vec::new();
        if self.rate_pps.is_nan() || self.rate_pps <= 0.0 {
            problems.push(format!("rate {}: expected packets a second above 0", self.rate_pps));
        }
        if !(queues..=FLOWS_MAX).contains(&self.flows) {
            problems.push(format!(
                "{} flows: expected {queues} (one a queue) to {FLOWS_MAX}",
                self.flows
            ));
        }
        let shortest = shortest_frame(ipv6);
        if self.sizes.shortest() < shortest {
            problems.push(format!(
                "frames of {} bytes: those of IPv6 have at least {shortest}, so that time and \
                 number fit in",
                self.sizes.shortest()
            ));
        }
        let day = Duration::from_secs(10 * 86_400);
        if self.duration < Duration::from_millis(1) || self.duration > day {
            problems.push(format!("duration {:?}: expected 1 ms to 10 days", self.duration));
        }
        match self.shape {
            Shape::Bursts { packets, peak_pps } => {
                if packets == 0 || peak_pps.is_nan() || peak_pps < self.rate_pps {
                    problems.push(format!(
                        "bursts of {packets} packets at {peak_pps}/s: expected at least one, and \
                         a peak above the mean rate"
                    ));
                }
            }
            Shape::Day { depth } if !(0.0..=1.0).contains(&depth) => {
                problems.push(format!("depth {depth} of a day: expected 0 to 1"));
            }
            Shape::Day { .. } | Shape::Constant => {}
        }
        if self.shape != Shape::Constant && (self.rate_pps.is_infinite() || self.burst.is_some()) {
            problems.push("bursts and days need a rate".to_owned());
        }
        if self.capacity() > PACKETS_MAX {
            problems.push(format!("{} packets are more than can be told apart", self.capacity()));
        }
        if problems.is_empty() { Ok(()) } else { Err(problems.join("\n")) }
    }

    pub(super) fn schedule(&self) -> Schedule {
        match self.burst {
            Some(packets) => Schedule::burst(packets, self.duration),
            None => Schedule::new(self.rate_pps, self.duration, self.shape),
        }
    }

    /// Returns the number of packets that an account of all queues must have room for.
    pub(super) fn capacity(&self) -> u64 {
        match self.schedule().packets() {
            // `as` saturates.
            u64::MAX => (FASTEST_PPS * self.duration.as_secs_f64()) as u64,
            packets => packets,
        }
    }
}
