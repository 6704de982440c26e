//! Options of the benchmark.

use super::search::Goal;
use crate::device::Device;
use std::time::Duration;
use wattline_testbed::packets::Sizes;

/// Options of the benchmark.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// The device.
    pub device: Device,
    /// Frame lengths or mixes of lengths.
    pub sizes: Vec<Sizes>,
    /// Number of flows.
    pub flows: u32,
    /// Definition of throughput.
    pub goal: Goal,
    /// Duration of the latency test (section 26.2: at least 120 s).
    pub latency: Duration,
    /// Time without a frame after which a trial is over (section 23: two seconds).
    pub drain: Duration,
    /// Repetitions of the search for the longest burst (RFC 9004; section 26.4: at least 50).
    pub bursts: u32,
}

/// The seven frame lengths for Ethernet (section 9.1), and a mix.
pub fn standard_sizes() -> Vec<Sizes> {
    let mut sizes: Vec<_> = [64, 128, 256, 512, 1024, 1280, 1518].map(Sizes::fixed).into();
    sizes.push(Sizes::imix());
    sizes
}

impl Options {
    /// Options for a quick overview in minutes; its short trials are not compliant.
    pub fn quick(device: Device, sizes: Vec<Sizes>) -> Self {
        let trial = Duration::from_secs(1);
        Self {
            device,
            sizes,
            flows: 64,
            goal: Goal::short(trial),
            latency: trial,
            drain: Duration::from_millis(100),
            bursts: 3,
        }
    }

    /// Options with the durations of RFC 2544; takes hours.
    pub fn compliant(device: Device, sizes: Vec<Sizes>) -> Self {
        Self {
            goal: Goal::compliant(),
            latency: Duration::from_secs(120),
            drain: Duration::from_secs(2),
            bursts: 50,
            ..Self::quick(device, sizes)
        }
    }

    /// Lists the reasons why the result does not comply with RFC 2544, apart from the links.
    pub(super) fn deviations(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut note = |is: bool, text: String| {
            if is {
                found.push(text);
            }
        };
        let seconds = |span: Duration| span.as_secs_f64();
        note(
            !self.goal.is_compliant(),
            format!(
                "throughput: trials of {} s, loss ratio {}; 60 s and 0 are compliant",
                seconds(self.goal.final_trial),
                self.goal.loss_ratio
            ),
        );
        note(
            self.latency < Duration::from_secs(120),
            format!("latency: measured for {} s; 120 s are compliant", seconds(self.latency)),
        );
        note(
            self.drain < Duration::from_secs(2),
            format!("the wait for the last frames is {} s; 2 s are compliant", seconds(self.drain)),
        );
        note(self.bursts < 50, format!("back-to-back: {} trials; 50 are compliant", self.bursts));
        note(
            true,
            "latency is that of all packets from sending to reading, not of one tagged frame in \
             20 trials"
                .to_owned(),
        );
        note(true, "one direction; no line rate on links without one".to_owned());
        found
    }
}
