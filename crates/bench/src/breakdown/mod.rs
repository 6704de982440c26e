//! Processor time per packet in the kernel's stack (Liao and Bhuyan, section III): iperf3 over a
//! veth pair, its programs and receiving threads sampled by `perf`.
//!
//! Samples come from a software clock (`cpu-clock`), which needs no counters, so they are processor
//! time, not cycles. One side is the sending program with the thread that receives its
//! acknowledgements, the other the receiving program with the thread that receives the data.

mod claims;
mod forwarding;
mod groups;
mod link;
mod misses;
mod page;
mod perf;
mod report;
mod samples;
mod side;
mod watts;

pub use forwarding::Forwarding;
pub use groups::{Group, Groups};
pub use misses::Event;
pub use page::page;
pub use perf::Perf;
pub use report::{Breakdown, Options, Report};
pub use samples::{Counts, count};
pub use side::{Share, Side};
pub use watts::{ComponentPower, MeterPower, Meters, components};

use crate::machine::Machine;
use link::{Link, Sent};
use side::{FREQUENCY_HERTZ, PATIENCE, side};
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use wattline_linux::sysfs::Tree;
use wattline_testbed::Error;
use wattline_testbed::command;

/// Time for connections to open up before samples are taken.
const SETTLE: Duration = Duration::from_secs(1);
const NOTE: &str = "The kernel's groups are processor time by a software clock, not cycles. Interrupt \
                    work during other programs' time is not counted. veth is not a card: its driver \
                    passes buffers on, and the receiver reads data from the sender's caches.";

/// Runs the measurement; `progress` gets a line before each step.
///
/// # Errors
/// Fails without root, perf or iperf3, and if perf is forbidden or the kernel hides its symbols.
pub fn run(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Report, Error> {
    let machine = Machine::here();
    // Checked before anything is built or measured.
    options.perf.check()?;
    let table = |reason| Error::Data { path: "table of groups".into(), reason };
    let (groups, groups_fit_kernel) = Groups::kernel_groups(&machine.kernel).map_err(table)?;
    let mut meters = Meters::find(&Tree::live());
    let nap = || std::thread::sleep(options.duration);
    if meters.missing.is_empty() {
        progress("power without load");
    }
    let ((), idle) = match meters.missing.is_empty() {
        true => meters.during(nap),
        false => ((), Vec::new()),
    };
    let mut results = Vec::new();
    for offloads in &options.offloads {
        for io_bytes in &options.io_bytes {
            let with = if *offloads { "with" } else { "without" };
            progress(&format!("{io_bytes} bytes, {with} offloads"));
            results.push(one(options, (*io_bytes, *offloads), &groups, &mut meters, &idle)?);
        }
    }
    let (mut forwarding, mut forwarding_missing) = (Vec::new(), None);
    if options.forwarding {
        // Forwarding may fail on a machine with one processor or under load; the rest is still
        // reported.
        match forwarding::measure(&groups, &options.perf, options.duration, progress) {
            Ok(all) => forwarding = all,
            Err(error) => forwarding_missing = Some(error.to_string()),
        }
    }
    Ok(Report {
        machine,
        event: "cpu-clock",
        frequency_hertz: FREQUENCY_HERTZ,
        connections: options.connections,
        groups_fit_kernel,
        claims: claims::judge(&results),
        results,
        meters_missing: meters.missing,
        forwarding,
        forwarding_missing,
        note: NOTE,
    })
}

fn one(
    options: &Options,
    (io_bytes, offloads): (u32, bool),
    groups: &Groups,
    meters: &mut Meters,
    idle: &[MeterPower],
) -> Result<Breakdown, Error> {
    let link = Link::build(offloads)?;
    let ((), linked) = match meters.missing.is_empty() {
        true => meters.during(|| std::thread::sleep(options.duration)),
        false => ((), Vec::new()),
    };
    let mut programs = link.start(options.connections, io_bytes)?;
    std::thread::sleep(SETTLE);
    programs.check()?;
    let folder = tempfile::tempdir().map_err(|source| Error::io("making a folder", source))?;
    let (data, counters) = (folder.path().join("perf.data"), folder.path().join("counters"));
    let mut record = counting(&options.perf, &counters);
    Perf::record(record.arg(options.perf.program()), &data);
    record.args(link.sent_around(options.duration));
    let (counted, loaded) =
        meters.during(|| command::run(&mut record, PATIENCE + options.duration));
    let counted = counted?;
    programs.check()?;
    let Sent { packets, bytes, seconds } = Sent::parse(&counted).ok_or_else(|| Error::Data {
        path: "counters of the interface".into(),
        reason: format!("expected time, packets and bytes twice, found: {counted}"),
    })?;
    let mut script = options.perf.command();
    script.arg("script").arg("--input").arg(&data).args(["--fields", "comm,pid,cpu,ip,sym"]);
    let text = command::run(&mut script, PATIENCE * 3)?;
    let sides = [programs.sending(&link)?, programs.receiving(&link)?];
    drop(programs);
    let side_of = |pid| sides.iter().position(|side| side.contains(&pid));
    let ([transmit, receive], _unread) = count::<2>(&text, groups, side_of);
    if packets < 1.0 || transmit.total() + receive.total() == 0 {
        return Err(Error::Data {
            path: "perf".into(),
            reason: format!("no samples of iperf3 ({packets} packets were sent)"),
        });
    }
    perf::check_names(&[&transmit, &receive])?;
    let side = |counts: &Counts| {
        side(counts, counts.total() as f64 / f64::from(FREQUENCY_HERTZ), packets, bytes)
    };
    Ok(Breakdown {
        io_bytes,
        offloads,
        rate_bps: bytes * 8.0 / seconds,
        rate_pps: packets / seconds,
        packet_mean_bytes: bytes / packets,
        transmit: side(&transmit),
        receive: side(&receive),
        events: misses::parse(&std::fs::read_to_string(&counters).unwrap_or_default(), packets),
        components: watts::components(idle, &linked, &loaded, packets / seconds),
    })
}

/// Returns a `perf stat` command for another program, which writes the counts into a file.
fn counting(perf: &Perf, file: &Path) -> Command {
    let mut command = perf.command();
    command
        .args(["stat", "--all-cpus", "--field-separator", ",", "--event", misses::EVENTS])
        .arg("--output")
        .arg(file)
        .arg("--");
    command
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattline_testbed::command::installed;
    use wattline_testbed::leftovers::can_build_namespaces;

    #[test]
    fn busy_groups_have_processor_time() {
        if !can_build_namespaces("busy_groups_have_processor_time")
            || !installed("perf")
            || !installed("iperf3")
        {
            return wattline_needs::tool("root, perf and iperf3");
        }
        let options = Options {
            io_bytes: vec![16_384],
            connections: 2,
            duration: Duration::from_secs(1),
            offloads: vec![true, false],
            forwarding: false,
            perf: Perf::default(),
        };
        let report = match run(&options, &mut |_| ()) {
            Ok(report) => report,
            // perf may be forbidden to sample the whole machine.
            Err(error @ Error::Forbidden { .. }) => return wattline_needs::machine(&error),
            Err(error) => panic!("{error}"),
        };
        let [with, without] = &report.results[..] else { panic!("{report:?}") };
        assert!(with.packet_mean_bytes > without.packet_mean_bytes, "{report:#?}");
        assert!(without.packet_mean_bytes <= 1514.0, "{report:#?}");
        for result in &report.results {
            for side in [&result.transmit, &result.receive] {
                let sum: f64 = side.groups.iter().map(|share| share.share).sum();
                assert!(side.samples > 0 && (sum - 1.0).abs() < 1e-9, "{side:?}");
                let unclaimed = side.groups.iter().find(|it| it.group == Group::Unclaimed);
                assert!(unclaimed.is_some_and(|it| it.share < 0.5), "{side:?}");
            }
        }
        for result in &report.results {
            assert_eq!(result.events.len(), misses::EVENTS.split(',').count(), "{result:?}");
            for event in &result.events {
                assert_eq!(event.per_packet.is_none(), !event.reason.is_empty(), "{event:?}");
            }
            assert_eq!(result.components.is_empty(), !report.meters_missing.is_empty());
        }
        let page = page(&report);
        assert!(page.plain().contains("unclaimed"));
        let page = page.end();
        assert_eq!(page.matches("<svg").count(), 4, "both sides, with and without offloads");
        assert!(page.contains("buffer management") && page.contains("Power of components"));
    }

    #[test]
    fn page_escapes_functions_and_names_missing_figures() {
        let share = |group| Share {
            group,
            share: 1.0 / 9.0,
            cpu_seconds_per_packet: 1e-7,
            cpu_seconds_per_byte: 1e-10,
        };
        let side = Side {
            samples: 9,
            groups: Group::ALL.map(share).into(),
            unclaimed: vec![("<script>alert(1)".into(), 0.1)],
        };
        let forward = side.clone();
        let report = Report {
            machine: Machine::here(),
            event: "cpu-clock",
            frequency_hertz: FREQUENCY_HERTZ,
            connections: 8,
            groups_fit_kernel: false,
            claims: claims::judge(&[]),
            results: vec![Breakdown {
                io_bytes: 64,
                offloads: true,
                rate_bps: 1e9,
                rate_pps: 1e6,
                packet_mean_bytes: 1000.0,
                transmit: side.clone(),
                receive: side,
                events: misses::parse("<not supported>,,LLC-load-misses,0,100.00,,", 1.0),
                components: Vec::new(),
            }],
            meters_missing: "no meter on this machine: no RAPL".into(),
            forwarding: vec![Forwarding {
                device: "xdp",
                device_words: "<programs>".into(),
                offered_rate_pps: 2e5,
                loss_ratio: 0.0,
                unsound_because: Some("<a neighbour>".into()),
                forward: forward.clone(),
            }],
            forwarding_missing: Some("one <processor>".into()),
            note: NOTE,
        };
        let page = page(&report);
        for expected in ["no meter on this machine", "no such counter", "LI-033"] {
            assert!(page.plain().contains(expected), "{expected}: {}", page.plain());
        }
        let page = page.end();
        for expected in [
            "&lt;script&gt;alert(1)",
            "no meter on this machine: no RAPL",
            "LLC-load-misses: this machine has no such counter",
            "made for other kernels",
        ] {
            assert!(page.contains(expected), "{expected}");
        }
        assert!(!page.contains("<script>alert"));
        crate::looked_at("breakdown", &page);
    }
}
