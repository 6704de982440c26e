//! The demonstration with root: source, router and sink in namespaces.

use super::live::Live;
use super::notes::{background, notes};
use super::pass::PassFigures;
use super::report::{Report, Row};
use super::settings::Settings;
use crate::watch::Watch;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;
use wattline_testbed::Error;
use wattline_testbed::cpu::CpuTime;
use wattline_testbed::forwarder::{Forwarder, Mode, Totals};
use wattline_testbed::probe::{Outcome, Probe};
use wattline_testbed::replay;
use wattline_testbed::topology::{Options, Topology};

const DISPLAY_INTERVAL: Duration = Duration::from_millis(100);
/// Largest number of frames made in advance: about 200 MB of the mix.
const FRAMES_MAX: usize = 500_000;

/// Packets of a capture, repeated for the length of a pass.
struct Replay {
    /// Name of the file.
    name: String,
    /// Frames with the source's Ethernet address, addressed to the router's.
    frames: Vec<Vec<u8>>,
}

pub(super) fn run(settings: &Settings, watch: &Watch) -> Result<Report, Error> {
    let replays = settings
        .captures
        .iter()
        .map(|path| prepare(path, settings))
        .collect::<Result<Vec<_>, _>>()?;
    let wattline = |mode| Forwarder::Wattline { mode, workers: 1 };
    let pass = |name, forwarder| pass(name, forwarder, settings, &replays, watch);
    let (mut rows, none) = pass("kernel", Forwarder::Kernel)?;
    debug_assert!(none.is_none(), "the kernel has no counters of Wattline");
    let (more, totals) = pass("wattline", wattline(settings.mode))?;
    rows.extend(more);
    let (more, xdp) = pass("wattline xdp", wattline(Mode::XdpForward))?;
    rows.extend(more);
    let mut notes = notes(&rows);
    if watch.is_watched() {
        notes.push(
            "A dashboard was served meanwhile: the CPU figures include the processor time of a \
             browser on this machine."
                .to_owned(),
        );
    }
    Ok(Report { notes, rows, wattline: totals, wattline_xdp: xdp })
}

/// Selects the transit packets of a capture, as many as the load has.
fn prepare(path: &Path, settings: &Settings) -> Result<Replay, Error> {
    let mut frames = replay::load(path)?;
    // Frames that are longer than the link (offloads of the capturing machine), or that no router
    // forwards, would wrongly count as lost.
    frames.retain(|frame| frame.len() <= 1514 && replay::is_transit(frame));
    if frames.is_empty() {
        return Err(Error::Data {
            path: path.to_owned(),
            reason: "no packet in it is one to forward (IPv4 or IPv6, unicast, whole)".to_owned(),
        });
    }
    let wanted = usize::try_from(settings.load.packets()).unwrap_or(usize::MAX).min(FRAMES_MAX);
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    Ok(Replay { name, frames: frames.iter().cycle().take(wanted).cloned().collect() })
}

fn pass(
    name: &str,
    forwarder: Forwarder,
    settings: &Settings,
    replays: &[Replay],
    watch: &Watch,
) -> Result<(Vec<Row>, Option<Totals>), Error> {
    watch.begin(name);
    let options = Options { static_neighbours: true, ..Options::default() };
    let topology = Topology::build(options)?;
    let running = forwarder.start(&topology, &settings.binary)?;
    let mut rows = Vec::new();

    let background = background()?;
    let before = CpuTime::now()?;
    let outcome = mix(name, &topology, settings, watch)?;
    rows.push(Row::new(
        name,
        "mix",
        PassFigures::from(&outcome),
        CpuTime::now()? - before,
        background,
    ));
    watch.done(rows[0].done());

    for replay in replays {
        let live = Live::new(name, &replay.name, replay.frames.len() as u64, watch);
        live.show(0, 0);
        watch.meanwhile("packets of a capture");
        let before = CpuTime::now()?;
        let crossing = replay::cross(&topology, &replay.frames, settings.load.rate_pps)?;
        let cpu = CpuTime::now()? - before;
        let figures = PassFigures::frame_counts(&replay.frames, &crossing);
        let row = Row::new(name, &replay.name, figures, cpu, background);
        watch.done(row.done());
        rows.push(row);
    }
    Ok((rows, running.stop()?))
}

fn mix(
    name: &str,
    topology: &Topology,
    settings: &Settings,
    watch: &Watch,
) -> Result<Outcome, Error> {
    let probe = Probe::start(topology, &settings.load)?;
    let live = Live::new(name, "mix", settings.load.packets(), watch);
    while !probe.is_over() {
        let counters = probe.live();
        let received = counters.received.load(Ordering::Relaxed);
        live.show(counters.sent.load(Ordering::Relaxed), received);
        std::thread::sleep(DISPLAY_INTERVAL);
    }
    probe.finish()
}
