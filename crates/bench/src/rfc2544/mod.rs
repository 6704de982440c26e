//! Benchmarks of a forwarding device by RFC 2544: throughput, latency, frame loss rate and
//! back-to-back frames, for each frame length.
//!
//! The throughput is searched for by MLRsearch ([`Goal`]). The generator measures its own limits
//! first, on the same kind of link without a device; no load above them is offered, and a
//! throughput that they bound is said to be at least so much. One direction is measured, and
//! latency is that of every packet on one clock, not of one tagged frame in 20 trials (section
//! 26.2).

mod back_to_back;
mod device;
mod measure;
mod page;
mod report;
mod search;
mod show;

pub use back_to_back::BackToBack;
pub use device::{Conditions, Device, Ports};
pub use page::html;
pub use report::{LatencyAt, LossAt, OfLength, Report};
pub use search::{Found, Goal, Trial};
pub use show::table;

use crate::machine::Machine;
use device::Bed;
use measure::Measure;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use wattline_testbed::Error;
use wattline_testbed::packets::Sizes;

/// What is measured, and how.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// The device.
    pub device: Device,
    /// Lengths of frames, or mixes of them.
    pub sizes: Vec<Sizes>,
    /// Flows.
    pub flows: u32,
    /// What counts as throughput.
    pub goal: Goal,
    /// How long latency is measured (section 26.2: at least 120 s).
    pub latency: Duration,
    /// A trial is over when nothing came for so long (section 23: two seconds).
    pub drain: Duration,
    /// How often the longest burst is looked for (RFC 9004; section 26.4: at least 50 times).
    pub bursts: u32,
}

/// The seven frame lengths for Ethernet (section 9.1), and a mix.
pub fn standard_sizes() -> Vec<Sizes> {
    let mut sizes: Vec<_> = [64, 128, 256, 512, 1024, 1280, 1518].map(Sizes::fixed).into();
    sizes.push(Sizes::imix());
    sizes
}

impl Options {
    /// A look in minutes: short trials, which make no result compliant.
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

    /// With the durations of RFC 2544: hours.
    pub fn compliant(device: Device, sizes: Vec<Sizes>) -> Self {
        Self {
            goal: Goal::compliant(),
            latency: Duration::from_secs(120),
            drain: Duration::from_secs(2),
            bursts: 50,
            ..Self::quick(device, sizes)
        }
    }

    /// What keeps the result from being one of RFC 2544, apart from the links.
    fn deviations(&self) -> Vec<String> {
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
            format!("the last frames are waited for {} s; 2 s are compliant", seconds(self.drain)),
        );
        note(self.bursts < 50, format!("back-to-back: {} trials; 50 are compliant", self.bursts));
        note(
            true,
            "latency is that of all packets from sending to reading, not of one tagged frame in \
             20 trials"
                .to_owned(),
        );
        note(true, "one direction; no line rate where links have none".to_owned());
        found
    }
}

/// Runs all of it. `tell` is called with a line for people before each step.
///
/// # Errors
/// Without root, on a machine with one processor, without such interfaces; when the generator
/// cannot send without losing packets by itself.
pub fn run(
    options: &Options,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(&str),
) -> Result<Report, Error> {
    let began = Instant::now();
    let mut bed = Bed::build(&options.device)?;
    let mut lengths = Vec::new();
    for sizes in &options.sizes {
        if stop.load(std::sync::atomic::Ordering::Relaxed) {
            break;
        }
        lengths.push(Measure { bed: &mut bed, options, sizes, stop }.all(tell)?);
    }
    Ok(Report {
        conditions: bed.conditions.clone(),
        machine: Machine::here(),
        version: env!("CARGO_PKG_VERSION"),
        flows: options.flows,
        is_compliant: options.goal.is_compliant(),
        deviations: options.deviations(),
        final_trial_seconds: options.goal.final_trial.as_secs_f64(),
        width: options.goal.width,
        loss_ratio_goal: options.goal.loss_ratio,
        run_seconds: began.elapsed().as_secs_f64(),
        lengths,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattline_testbed::leftovers::can_build_namespaces;

    fn quickest(device: Device) -> Options {
        let mut options = Options::quick(device, vec![Sizes::fixed(64)]);
        options.goal = Goal { width: 0.2, ..Goal::short(Duration::from_millis(200)) };
        options.latency = Duration::from_millis(200);
        options.bursts = 1;
        options
    }

    #[test]
    fn every_device_is_measured_and_its_page_is_whole() {
        if !can_build_namespaces("every_device_is_measured_and_its_page_is_whole")
            || std::thread::available_parallelism().map_or(1, usize::from) < 2
        {
            return println!("skipped: needs root and two processors");
        }
        for device in [Device::Kernel, Device::Workers, Device::Xdp] {
            let never = AtomicBool::new(false);
            let mut lines = Vec::new();
            let options = quickest(device.clone());
            let tell = &mut |line: &str| lines.push(line.to_owned());
            // A machine that others keep busy may not let the generator send at all.
            let report = match run(&options, &never, tell) {
                Ok(report) => report,
                Err(Error::Router { what, .. }) if what.contains("generator") => continue,
                Err(error) => panic!("{device:?}: {error}"),
            };
            assert!(!report.is_compliant && !report.deviations.is_empty());
            let of = &report.lengths[0];
            assert!(of.limits.lossless_rate_pps > 0.0);
            if let Some(throughput) = of.throughput.conditional_throughput_pps {
                assert!(throughput <= of.limits.lossless_rate_pps * 1.01, "{of:?}");
            }
            for trial in &of.throughput.trials {
                assert!(trial.load_pps <= of.limits.lossless_rate_pps * 1.01, "{trial:?}");
            }
            assert!(lines.iter().any(|line| line.contains("limits")), "{lines:?}");
            let page = html(&report);
            assert!(page.ends_with("</html>\n") && page.contains("not compliant"));
            for elsewhere in ["src=", "href=\"http", "url(", "@import"] {
                assert!(!page.contains(elsewhere), "a page needs nothing from elsewhere");
            }
            let mut text = Vec::new();
            table(&mut text, &report).unwrap();
            assert!(String::from_utf8(text).unwrap().contains("64"));
        }
    }
}
