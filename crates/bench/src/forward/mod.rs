//! Packets per second and processor time per packet, beside the peers, over veth.
//!
//! ```text
//!   generator ── uplink   left  [contestant]  right   uplink ── counting sink
//!   processor 0           processor 1                 processor 0 or 1
//! ```
//!
//! The generator has one processor, the contestant's own threads the other; where the kernel
//! threads run that receive for the contestant and that free what it sent, and how much is
//! offered, is the [`Arrangement`]. Where the kernel forwards, or Wattline's XDP programs do, the
//! receiving thread is all there is, and has the contestant's processor; its time counts for the
//! contestant everywhere.
//! Frames are counted at the sink. Processor time is what the scheduler charged those threads
//! (`/proc/…/schedstat`).
//! Contestants take turns; each figure is the median of the rounds.
//!
//! All of them run under `SCHED_FIFO`, so that a neighbour on the machine takes no more than the
//! twentieth of a processor that the kernel keeps for ordinary programs; and as that is a property
//! of threads that end with the benchmark, nothing has to be set back, however it ends.
//!
//! A contestant that polls (l3fwd, `wattline_poll`) uses all the time that it is given, so its
//! time per packet says something only where it never looks in vain: compare it in the rationed
//! placement.
//!
//! A veth is no card: it has no zero-copy, and every frame is copied. Nothing here says how
//! fast any contestant is on hardware.

mod arrangement;
pub(crate) mod contestant;
pub(crate) mod course;
mod ration;
mod round;
pub(crate) mod threads;

pub use arrangement::{Arrangement, Load, Placement, Sink};
use contestant::Contestant;
use course::Course;
pub use round::Round;
use serde::Serialize;
use std::path::PathBuf;
use std::time::Duration;
use wattline_dataplane::worker::Mode;
use wattline_testbed::Error;

/// What is measured and for how long.
#[derive(Debug, Clone)]
pub struct Options {
    /// How often each contestant runs.
    pub rounds: u32,
    /// How long it is measured in each round, after a fifth of that to warm up.
    pub duration: Duration,
    /// The program built by `bench/peers/build-l3fwd.sh`; left out where there is none.
    pub l3fwd: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Self { rounds: 3, duration: Duration::from_secs(2), l3fwd: None }
    }
}

/// All rounds of one contestant.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Standing {
    /// Who.
    pub name: &'static str,
    /// Who ran where, at what load.
    #[serde(flatten)]
    pub arrangement: Arrangement,
    /// Median of the rounds.
    pub offered_rate_pps: f64,
    /// Median of the rounds.
    pub rate_pps: f64,
    /// Processor time of all that works for the contestant. This and the rest are medians, too.
    pub cpu_seconds_per_packet: f64,
    /// Of that, in the kernel thread that receives for it.
    pub receive_thread_seconds_per_packet: f64,
    /// Of that, in the contestant's own threads.
    pub own_threads_seconds_per_packet: f64,
    /// Processor time of the generator per frame at the sink.
    pub generator_seconds_per_packet: f64,
    /// Processor time of the kernel thread of the sink, each.
    pub sink_thread_seconds_per_packet: f64,
    /// Processor time of all that works for the contestant and of the sink, which frees what the
    /// contestant allocated: of a card's router that is the contestant's, too.
    pub cpu_and_sink_seconds_per_packet: f64,
    /// Frames per second of processor time of all that works for the contestant.
    pub rate_per_cpu_second_pps: f64,
    /// Frames per second of processor time of the contestant's own threads, without the kernel
    /// thread that receives for it; none where that thread forwards.
    pub rate_per_own_cpu_second_pps: Option<f64>,
    /// Every round.
    pub rounds: Vec<Round>,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// Bytes of each frame, without frame check sequence.
    pub frame_bytes: usize,
    /// The contestants, in the order in which they took turns.
    pub results: Vec<Standing>,
    /// How to read the figures.
    pub note: &'static str,
}

const NOTE: &str = "veth pairs, copy mode: compare the contestants of one run with each other. The \
                    generator has processor 0, the contestant's threads processor 1. The kernel \
                    thread that receives for it runs on processor 1 (shared) or 0 (split, \
                    rationed), and its time is counted in each. The sink, which frees what was \
                    sent, runs on processor 1 (local: a card's transmit completions are mostly handled \
                    where was sent) or 0 (remote). Paced: at a load that all forward. Ample: 1.5 \
                    Mpps, no frame made in vain. Rationed: \
                    half of processor 1 is taken away, so that there is always a frame to be \
                    forwarded and the time of a contestant that polls is useful time, too";

/// Runs the benchmark.
///
/// # Errors
/// Without root, on a machine with one processor, or when a contestant does not start.
pub fn run(options: &Options) -> Result<Report, Error> {
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        return Err(Error::Router {
            what: "benchmark needs two processors".into(),
            log: "one for generator and sink, one for the contestant".into(),
        });
    }
    let entries = entries(options.l3fwd.as_ref());
    let mut rounds = vec![Vec::new(); entries.len()];
    for _ in 0..options.rounds {
        for ((contestant, arrangement), rounds) in entries.iter().zip(&mut rounds) {
            // A course of its own: nothing of the one before is left over.
            let course = Course::build(*arrangement)?;
            rounds.push(contestant.measure(&course, options.duration)?);
        }
    }
    let results = entries.iter().zip(rounds).map(|((contestant, arrangement), rounds)| {
        let of = |figure: fn(&Round) -> f64| median(rounds.iter().map(figure));
        let cpu_seconds_per_packet = of(|round| round.cpu_seconds_per_packet);
        let own_threads_seconds_per_packet = of(|round| round.own_threads_seconds_per_packet);
        Standing {
            name: contestant.name(),
            arrangement: *arrangement,
            offered_rate_pps: of(|round| round.offered_rate_pps),
            rate_pps: of(|round| round.rate_pps),
            cpu_seconds_per_packet,
            receive_thread_seconds_per_packet: of(|it| it.receive_thread_seconds_per_packet),
            own_threads_seconds_per_packet,
            generator_seconds_per_packet: of(|round| round.generator_seconds_per_packet),
            sink_thread_seconds_per_packet: of(|round| round.sink_thread_seconds_per_packet),
            cpu_and_sink_seconds_per_packet: of(|round| {
                round.cpu_seconds_per_packet + round.sink_thread_seconds_per_packet
            }),
            rate_per_cpu_second_pps: cpu_seconds_per_packet.recip(),
            rate_per_own_cpu_second_pps: contestant
                .has_threads()
                .then(|| own_threads_seconds_per_packet.recip()),
            rounds,
        }
    });
    Ok(Report { frame_bytes: course::FRAME_BYTES, results: results.collect(), note: NOTE })
}

/// Who takes turns, and how each is set up.
fn entries(l3fwd: Option<&PathBuf>) -> Vec<(Contestant, Arrangement)> {
    use Placement::{Rationed, Shared, Split};
    let adaptive = || Contestant::Wattline(Mode::Adaptive);
    let poll = || Contestant::Wattline(Mode::Poll);
    let mut entries = Vec::new();
    for sink in [Sink::Local, Sink::Remote] {
        let mut add = |contestant, placement, load| {
            entries.push((contestant, Arrangement { placement, sink, load }));
        };
        add(Contestant::Kernel, Shared, Load::Full);
        add(Contestant::WattlineXdp, Shared, Load::Full);
        add(adaptive(), Shared, Load::Full);
        add(adaptive(), Split, Load::Full);
        add(poll(), Split, Load::Full);
        if let Some(program) = l3fwd {
            add(Contestant::L3fwd(program.clone()), Split, Load::Full);
        }
    }
    let mut ample =
        vec![(Contestant::Kernel, Shared), (Contestant::WattlineXdp, Shared), (adaptive(), Split)];
    ample.extend(l3fwd.map(|program| (Contestant::L3fwd(program.clone()), Split)));
    for (contestant, placement) in ample {
        let ample = Arrangement { placement, sink: Sink::Local, load: Load::Ample };
        entries.push((contestant, ample));
    }
    // Whoever polls uses all of its processor at any load: no figure.
    let paced =
        [(Contestant::Kernel, Shared), (Contestant::WattlineXdp, Shared), (adaptive(), Split)];
    for (contestant, placement) in paced {
        let paced = Arrangement { placement, sink: Sink::Local, load: Load::Paced };
        entries.push((contestant, paced));
    }
    let rationed = Arrangement { placement: Rationed, sink: Sink::Remote, load: Load::Full };
    entries.extend([adaptive(), poll()].map(|contestant| (contestant, rationed)));
    entries.extend(l3fwd.map(|program| (Contestant::L3fwd(program.clone()), rationed)));
    entries
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => values[n / 2],
        n => f64::midpoint(values[n / 2 - 1], values[n / 2]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattline_testbed::leftovers::can_build_namespaces;

    #[test]
    fn medians() {
        assert_eq!(median([3.0, 1.0, 2.0].into_iter()), 2.0);
        assert_eq!(median([4.0, 1.0, 2.0, 3.0].into_iter()), 2.5);
        assert!(median(std::iter::empty()).is_nan());
    }

    #[test]
    fn kernel_and_wattline_forward_and_are_accounted_for() {
        if !can_build_namespaces("kernel_and_wattline_forward_and_are_accounted_for") {
            return;
        }
        let duration = Duration::from_millis(200);
        let report = match run(&Options { rounds: 1, duration, l3fwd: None }) {
            Ok(report) => report,
            Err(Error::Router { what, .. }) if what.contains("two processors") => return,
            Err(error) => panic!("{error}"),
        };
        assert_eq!(report.results.len(), 18);
        for standing in &report.results {
            assert!(standing.rate_pps > 0.0, "{standing:?}");
            assert!(standing.cpu_seconds_per_packet > 0.0, "{standing:?}");
            assert!(standing.sink_thread_seconds_per_packet > 0.0, "{standing:?}");
            // A worker that is not needed sleeps, but for a look now and then.
            let works = !["kernel", "wattline_xdp_forward"].contains(&standing.name);
            assert_eq!(standing.rate_per_own_cpu_second_pps.is_some(), works, "{standing:?}");
            let share = standing.own_threads_seconds_per_packet / standing.cpu_seconds_per_packet;
            assert_eq!(share > 0.1, works, "{standing:?}");
        }
    }
}
