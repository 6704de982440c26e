//! Benchmarks of a forwarding device by RFC 2544: throughput, latency, frame loss rate and
//! back-to-back frames, for each frame length.
//!
//! The throughput is found by MLRsearch ([`Goal`]). The generator first measures its own limits, on
//! the same kind of link without a device. No load above them is offered, and a throughput at the
//! limit is reported as "at least". One direction is measured. Latency covers every packet, on one
//! clock, not one tagged frame in 20 trials (section 26.2).

mod back_to_back;
mod measure;
mod options;
mod page;
mod report;
mod search;

pub use crate::device::{Conditions, Device, Ports};
pub use back_to_back::BackToBack;
pub use options::{Options, standard_sizes};
pub use page::page;
pub use report::{LatencyAt, LengthResults, LossAt, Report};
pub use search::{Found, Goal, Trial};

use crate::device::Bed;
use crate::machine::Machine;
use measure::Measure;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use wattline_testbed::Error;
use wattline_testbed::namespace::check_rights;

/// Runs the benchmark. `progress` is called with a line for people before each step.
///
/// # Errors
/// Fails without root, on a machine with one processor, if an interface is missing, or if the
/// generator itself loses packets at any rate.
pub fn run(
    options: &Options,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(&str),
) -> Result<Report, Error> {
    check_rights("`bench rfc2544`")?;
    let began = Instant::now();
    let mut bed = Bed::build(&options.device)?;
    let mut lengths = Vec::new();
    for sizes in &options.sizes {
        if stop.load(std::sync::atomic::Ordering::Relaxed) {
            break;
        }
        progress(&format!("{}: the generator's limits", sizes.name()));
        let load = measure::load(options, sizes, 1.0, Duration::from_secs(1));
        let limits;
        (bed, limits) = bed.limits(&load)?;
        lengths.push(Measure { bed: &mut bed, options, sizes, stop }.all(limits, progress)?);
    }
    Ok(Report {
        conditions: bed.conditions.clone(),
        machine: Machine::here(),
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
    use wattline_testbed::packets::Sizes;

    fn quickest(device: Device) -> Options {
        let mut options = Options::quick(device, vec![Sizes::fixed(64)]);
        options.goal = Goal { width: 0.2, ..Goal::short(Duration::from_millis(200)) };
        options.latency = Duration::from_millis(200);
        options.bursts = 1;
        options
    }

    #[test]
    fn every_device_is_measured_with_a_complete_page() {
        if !can_build_namespaces("every_device_is_measured_with_a_complete_page")
            || std::thread::available_parallelism().map_or(1, usize::from) < 2
        {
            return wattline_needs::machine("root and two processors");
        }
        let mut measured = 0;
        for device in [Device::Kernel, Device::Workers, Device::Xdp] {
            let never = AtomicBool::new(false);
            let mut lines = Vec::new();
            let options = quickest(device.clone());
            let progress = &mut |line: &str| lines.push(line.to_owned());
            // On a busy machine, the generator may not be able to send for a while.
            let report = match run(&options, &never, progress) {
                Ok(report) => report,
                Err(Error::Generator { .. }) => continue,
                Err(error) => panic!("{device:?}: {error}"),
            };
            measured += 1;
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
            let page = page(&report);
            assert!(page.plain().contains("64"), "{}", page.plain());
            let page = page.end();
            assert!(page.ends_with("</html>\n") && page.contains("not compliant"));
            for elsewhere in ["src=", "href=\"http", "url(", "@import"] {
                assert!(!page.contains(elsewhere), "a page needs nothing from elsewhere");
            }
            crate::looked_at("rfc2544", &page);
        }
        assert!(measured > 0, "the generator held no rate, three times");
    }

    /// Live frames spin, so the scheduler may take their processor away for longer than a packet
    /// may be late; sockets sleep.
    #[test]
    #[ignore = "keeps both processors busy; `make test-long` runs it"]
    fn device_is_measured_on_busy_processors_and_the_method_is_reported() {
        if !can_build_namespaces("device_is_measured_on_busy_processors_and_the_method_is_reported")
            || std::thread::available_parallelism().map_or(1, usize::from) < 2
        {
            return wattline_needs::machine("root and two processors");
        }
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for processor in [0, 0, 1, 1] {
                let stop = &stop;
                scope.spawn(move || {
                    crate::forward::threads::Thread::current().pin(processor).unwrap();
                    while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                });
            }
            let never = AtomicBool::new(false);
            let report = run(&quickest(Device::Kernel), &never, &mut |_| ());
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
            let report = report.unwrap_or_else(|error| panic!("{error}"));
            let ways = &report.conditions.ways;
            let limit = report.lengths[0].limits.lossless_rate_pps;
            println!("{ways}: {limit}");
            // Live frames are kept if they hold a rate; otherwise the reason is reported.
            assert!(
                ways.contains("sent by live frames")
                    || ways.contains("sent by AF_XDP sockets") && ways.contains("other programs"),
                "{ways}"
            );
            assert!(limit > 0.0, "{ways}");
            assert!(
                report.lengths[0].throughput.conditional_throughput_pps > Some(0.0),
                "{report:?}"
            );
        });
    }
}
