//! Processor time per forwarded packet by group of functions: the kernel, Wattline's workers and
//! its XDP programs.

use super::groups::{Group, Groups};
use super::perf::{self, Perf};
use super::samples::{Counts, count};
use super::side::{PATIENCE, Side, side};
use crate::device::{Bed, Device};
use crate::forward::threads::UNCHARGED;
use serde::Serialize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use wattline_testbed::Error;
use wattline_testbed::command;
use wattline_testbed::packets::{Load, Sizes};

/// Packets per second offered to each device, unless the generator cannot sustain them.
const RATE_PPS: f64 = 200e3;
/// Highest rate, as a share of the generator's limit.
const OF_THE_LIMIT: f64 = 0.5;
/// Lead of the load over the sampling.
const BEFORE: Duration = Duration::from_millis(500);
/// Bytes of a frame on the link, frame check sequence included.
const FRAME_BYTES: u16 = 64;

/// Processor time of one device.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Forwarding {
    /// `kernel`, `workers` or `xdp`.
    pub device: &'static str,
    /// Description of the device.
    pub device_words: String,
    /// Packets sent per second.
    pub offered_rate_pps: f64,
    /// Share of the sent packets that were lost.
    pub loss_ratio: f64,
    /// Reason why the generator did not hold its rate, if so.
    pub unsound_because: Option<String>,
    /// Processor time of the device's threads.
    pub forward: Side,
}

/// Measures kernel, workers and XDP programs in turn.
///
/// # Errors
/// Fails as [`super::run`].
pub(super) fn measure(
    groups: &Groups,
    perf: &Perf,
    duration: Duration,
    progress: &mut dyn FnMut(&str),
) -> Result<Vec<Forwarding>, Error> {
    // Wattline's XDP programs count as Wattline, not as the kernel.
    let groups = groups.clone().with("bpf_prog_", Group::Application);
    let devices = [Device::Kernel, Device::Workers, Device::Xdp];
    let of = |device: &Device| {
        progress(&format!("forwarding: {}", device.words()));
        one(device, &groups, perf, duration)
    };
    devices.iter().map(of).collect()
}

fn one(
    device: &Device,
    groups: &Groups,
    perf: &Perf,
    duration: Duration,
) -> Result<Forwarding, Error> {
    let load = Load {
        rate_pps: RATE_PPS,
        duration: BEFORE + duration + PATIENCE,
        sizes: Sizes::fixed(FRAME_BYTES),
        drain: Duration::from_millis(100),
        ..Load::default()
    };
    let (mut bed, limits) = Bed::build(device)?.limits(&load)?;
    if limits.lossless_rate_pps <= 0.0 {
        return Err(limits.too_busy(load.sizes.name()));
    }
    let rate_pps = RATE_PPS.min(limits.lossless_rate_pps * OF_THE_LIMIT);
    let load = Load { rate_pps, ..load };
    let folder = tempfile::tempdir().map_err(|source| Error::io("making a folder", source))?;
    let data = folder.path().join("perf.data");
    let mut record = perf.command();
    Perf::record(&mut record, &data);
    record.args(["sleep", &duration.as_secs_f64().to_string()]);
    let placement = bed.placement();
    let threads = bed.threads()?;
    let stop = AtomicBool::new(false);
    let processor_time = || threads.iter().map(|thread| thread.cpu_time()).sum::<Duration>();
    let before = processor_time();
    let Bed { tester, addresses, .. } = &mut bed;
    let (outcome, recorded) = std::thread::scope(|scope| {
        let recording = scope.spawn(|| {
            std::thread::sleep(BEFORE);
            let recorded = command::run(&mut record, PATIENCE + duration);
            stop.store(true, Ordering::Relaxed);
            recorded
        });
        let outcome = tester.trial(addresses, &load, &placement, &stop, &mut |_| ());
        (outcome, recording.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    });
    let outcome = outcome?;
    recorded?;
    let seconds = processor_time().saturating_sub(before).as_secs_f64();
    if seconds == 0.0 && outcome.received_packets > 0 {
        return Err(Error::Data { path: "/proc".into(), reason: UNCHARGED.to_owned() });
    }
    let mut script = perf.command();
    // By thread: the worker and the generator share this process.
    script.arg("script").arg("--input").arg(&data).args(["--fields", "comm,tid,cpu,ip,sym"]);
    let text = command::run(&mut script, PATIENCE * 3)?;
    let is_device = |tid| threads.iter().any(|thread| thread.number() == tid).then_some(0);
    let ([counts], _unread) = count::<1>(&text, groups, is_device);
    let packets = outcome.received_packets as f64;
    forwarded(device, &counts, packets)?;
    Ok(Forwarding {
        device: device.name(),
        device_words: device.words(),
        offered_rate_pps: outcome.sent_rate_pps,
        loss_ratio: outcome.loss_ratio,
        unsound_because: outcome.soundness().unsound_reason(),
        forward: side(&counts, seconds, packets, packets * f64::from(FRAME_BYTES)),
    })
}

/// Fails unless there are packets and samples to divide.
fn forwarded(device: &Device, counts: &Counts, packets: f64) -> Result<(), Error> {
    if packets < 1.0 || counts.total() == 0 {
        return Err(Error::Data {
            path: "perf".into(),
            reason: format!("no samples of {} ({packets:.0} packets came)", device.words()),
        });
    }
    perf::check_names(&[counts])
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattline_testbed::command::installed;
    use wattline_testbed::leftovers::can_build_namespaces;

    #[test]
    #[ignore = "measures three forwarders; `make test-long` runs it"]
    fn time_of_a_packet_is_divided_between_kernel_and_wattline() {
        if !can_build_namespaces("time_of_a_packet_is_divided_between_kernel_and_wattline")
            || !installed("perf")
            || std::thread::available_parallelism().map_or(1, usize::from) < 2
        {
            return wattline_needs::tool("root, perf and two processors");
        }
        let perf = Perf::default();
        match perf.check() {
            Ok(()) => {}
            Err(error @ Error::Forbidden { .. }) => return wattline_needs::machine(&error),
            Err(error) => panic!("{error}"),
        }
        let (groups, _) = Groups::kernel_groups("6.12").unwrap();
        let all = match measure(&groups, &perf, Duration::from_secs(1), &mut |_| ()) {
            Ok(all) => all,
            Err(error @ Error::Generator { .. }) => return wattline_needs::machine(&error),
            Err(error) => panic!("{error}"),
        };
        let names: Vec<_> = all.iter().map(|it| it.device).collect();
        assert_eq!(names, ["kernel", "workers", "xdp"]);
        for it in &all {
            let share =
                |group| it.forward.groups.iter().find(|share| share.group == group).unwrap().share;
            let sum: f64 = it.forward.groups.iter().map(|share| share.share).sum();
            assert!((sum - 1.0).abs() < 1e-9 && share(Group::Driver) > 0.0, "{it:?}");
            // Only the kernel's device has no group of Wattline.
            assert_eq!(share(Group::Application) > 0.0, it.device != "kernel", "{it:?}");
            assert!(it.forward.nanos_per_packet() > 10.0, "{it:?}");
        }
    }
}
