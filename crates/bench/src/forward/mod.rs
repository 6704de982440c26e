//! Packets per second and processor time per packet over veth, compared with the peers.
//!
//! ```text
//!   generator ── uplink   left  [candidate]  right   uplink ── counting sink
//!   processor 0           processor 1                 processor 0 or 1
//! ```
//!
//! The generator has one processor, the candidate's own threads the other. The [`Arrangement`] sets
//! the offered load, and the processors of the kernel threads that receive for the candidate and
//! that free its sent frames. If the kernel or Wattline's XDP programs forward, there is only the
//! receiving thread, which has the candidate's processor. Its time always counts for the candidate.
//!
//! Frames are counted at the sink. Processor time is the time that the scheduler charged to these
//! threads (`/proc/…/schedstat`). Candidates take turns; each figure is the median of the rounds.
//!
//! All candidates run under `SCHED_FIFO`, so other programs on the machine take no more than the
//! twentieth of a processor that the kernel reserves for ordinary programs. The priority belongs to
//! threads that end with the benchmark, so nothing has to be restored afterwards.
//!
//! A candidate that polls (l3fwd, `wattline_poll`) uses all the time that it gets. Its time per
//! packet is meaningful only if it never polls an empty queue: compare it in the rationed
//! placement.
//!
//! A veth is no card: it has no zero-copy, and every frame is copied. These figures say nothing
//! about the speed of a candidate on hardware.

pub(crate) mod arrangement;
mod bare;
pub(crate) mod candidate;
mod duty_cycle;
mod l3fwd;
mod page;
mod round;
pub(crate) mod setup;
pub(crate) mod threads;

pub use arrangement::{Arrangement, Load, Placement, Sink};
use candidate::Candidate;
pub use page::page;
pub use round::Round;
use serde::Serialize;
use setup::Setup;
use std::path::PathBuf;
use std::time::Duration;
use wattline_dataplane::worker::Mode;
use wattline_testbed::Error;
use wattline_testbed::namespace::check_rights;

/// Candidates and duration of the benchmark.
#[derive(Debug, Clone)]
pub struct Options {
    /// Number of rounds per candidate.
    pub rounds: u32,
    /// Measured time of each round; a warm-up of a fifth of it comes first.
    pub duration: Duration,
    /// Path of the program built by `bench/peers/build-l3fwd.sh`; `None` leaves l3fwd out.
    pub l3fwd: Option<PathBuf>,
    /// Path of xdp-tools' xdp-forward; `None` leaves it out.
    pub xdp_forward: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Self { rounds: 3, duration: Duration::from_secs(2), l3fwd: None, xdp_forward: None }
    }
}

/// Result of one candidate over all rounds; all figures are medians of the rounds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Standing {
    /// Name of the candidate.
    pub name: &'static str,
    /// Placement of the threads, and offered load.
    #[serde(flatten)]
    pub arrangement: Arrangement,
    /// Median of each figure of a round.
    #[serde(flatten)]
    pub median: Round,
    /// Processor seconds per packet of the candidate and of the sink, which frees the candidate's
    /// memory. On a router with a card, this work is the candidate's as well.
    pub cpu_and_sink_seconds_per_packet: f64,
    /// Frames per processor second of all threads that work for the candidate.
    pub rate_per_cpu_second_pps: f64,
    /// Frames per processor second of the candidate's own threads, without the kernel thread that
    /// receives for it; `None` if that thread forwards.
    pub rate_per_own_cpu_second_pps: Option<f64>,
    /// Results of every round.
    pub rounds: Vec<Round>,
}

/// Result of one run of the benchmark.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// Bytes per frame, without frame check sequence.
    pub frame_bytes: usize,
    /// Results of the candidates, in the order of their turns.
    pub results: Vec<Standing>,
    /// Text that explains how to read the figures.
    pub note: &'static str,
}

const NOTE: &str = "veth pairs, copy mode: compare the candidates of one run with each other. The \
                    generator has processor 0, the candidate's threads processor 1. The kernel \
                    thread that receives for it runs on processor 1 (shared) or 0 (split, \
                    rationed), and its time is always counted. The sink, which frees sent frames, \
                    runs on processor 1 (local, like most transmit completions of a card) or 0 \
                    (remote). Paced: a load that all candidates forward. Ample: 1.5 Mpps, with no \
                    frame generated beyond the link's capacity. Rationed: half of processor 1 is \
                    taken away, so that a polling candidate always finds frames and all of its time \
                    is useful";

/// Returns the number of runs; [`run`] reports each finished one.
#[must_use]
pub fn runs(options: &Options) -> usize {
    entries(options).len() * options.rounds as usize
}

/// Runs the benchmark, and calls `done` after each run.
///
/// # Errors
/// Fails without root, with a single processor, or when a candidate does not start.
pub fn run(options: &Options, done: impl Fn()) -> Result<Report, Error> {
    check_rights("`bench forward`")?;
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        return Err(Error::Router {
            what: "benchmark needs two processors".into(),
            log: "one for generator and sink, one for the candidate".into(),
        });
    }
    let entries = entries(options);
    let mut rounds = vec![Vec::new(); entries.len()];
    for _ in 0..options.rounds {
        for ((candidate, arrangement), rounds) in entries.iter().zip(&mut rounds) {
            // Each round has its own topology, so nothing is left over from the round before.
            let setup = Setup::build(*arrangement)?;
            rounds.push(candidate.measure(&setup, options.duration)?);
            done();
        }
    }
    let results = entries.iter().zip(rounds).map(|((candidate, arrangement), rounds)| {
        let of = |figure: fn(&Round) -> f64| median(rounds.iter().map(figure));
        let median = Round {
            offered_rate_pps: of(|round| round.offered_rate_pps),
            rate_pps: of(|round| round.rate_pps),
            cpu_seconds_per_packet: of(|round| round.cpu_seconds_per_packet),
            receive_thread_seconds_per_packet: of(|it| it.receive_thread_seconds_per_packet),
            own_threads_seconds_per_packet: of(|round| round.own_threads_seconds_per_packet),
            generator_seconds_per_packet: of(|round| round.generator_seconds_per_packet),
            sink_thread_seconds_per_packet: of(|round| round.sink_thread_seconds_per_packet),
        };
        Standing {
            name: candidate.name(),
            arrangement: *arrangement,
            median,
            cpu_and_sink_seconds_per_packet: of(|round| {
                round.cpu_seconds_per_packet + round.sink_thread_seconds_per_packet
            }),
            rate_per_cpu_second_pps: median.cpu_seconds_per_packet.recip(),
            rate_per_own_cpu_second_pps: candidate
                .has_threads()
                .then(|| median.own_threads_seconds_per_packet.recip()),
            rounds,
        }
    });
    Ok(Report { frame_bytes: setup::FRAME_BYTES, results: results.collect(), note: NOTE })
}

/// Candidates that take turns, each with its arrangement.
fn entries(options: &Options) -> Vec<(Candidate, Arrangement)> {
    use Placement::{Rationed, Shared, Split};
    let adaptive = || Candidate::Wattline(Mode::Adaptive);
    let bare = |polls| Candidate::BareLoop { polls };
    let workers = || [adaptive(), bare(false), Candidate::Wattline(Mode::Poll), bare(true)];
    let xdp_forward = || options.xdp_forward.clone().map(Candidate::XdpForward).into_iter();
    let l3fwd = || options.l3fwd.clone().map(Candidate::L3fwd).into_iter();
    let mut entries = Vec::new();
    for sink in [Sink::Local, Sink::Remote] {
        let mut add = |candidate, placement, load| {
            entries.push((candidate, Arrangement { placement, sink, load }));
        };
        add(Candidate::Kernel, Shared, Load::Full);
        xdp_forward().for_each(|candidate| add(candidate, Shared, Load::Full));
        add(Candidate::WattlineXdp, Shared, Load::Full);
        add(adaptive(), Shared, Load::Full);
        add(bare(false), Shared, Load::Full);
        workers().into_iter().for_each(|candidate| add(candidate, Split, Load::Full));
        l3fwd().for_each(|candidate| add(candidate, Split, Load::Full));
    }
    // A polling candidate uses all of its processor at any load, so paced it gives no figure.
    for load in [Load::Ample, Load::Paced] {
        let mut add = |candidate, placement| {
            entries.push((candidate, Arrangement { placement, sink: Sink::Local, load }));
        };
        add(Candidate::Kernel, Shared);
        xdp_forward().for_each(|candidate| add(candidate, Shared));
        add(Candidate::WattlineXdp, Shared);
        add(adaptive(), Split);
        add(bare(false), Split);
        if load == Load::Ample {
            l3fwd().for_each(|candidate| add(candidate, Split));
        }
    }
    let rationed = Arrangement { placement: Rationed, sink: Sink::Remote, load: Load::Full };
    // Not the bare loop: its few chunks run out while it may not run.
    let ours = [adaptive(), Candidate::Wattline(Mode::Poll)];
    entries.extend(ours.map(|candidate| (candidate, rationed)));
    entries.extend(l3fwd().map(|candidate| (candidate, rationed)));
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
    #[ignore = "needs both processors for itself; `make test-long` runs it"]
    fn kernel_and_wattline_forward_and_are_accounted_for() {
        if !can_build_namespaces("kernel_and_wattline_forward_and_are_accounted_for") {
            return;
        }
        let duration = Duration::from_millis(200);
        let report = match run(&Options { rounds: 1, duration, ..Options::default() }, || {}) {
            Ok(report) => report,
            Err(Error::Router { what, .. }) if what.contains("two processors") => return,
            Err(error) => panic!("{error}"),
        };
        assert_eq!(report.results.len(), 26);
        let page = page(&report).end();
        assert!(page.contains("wattline_xdp_forward (shared)"), "{page}");
        crate::looked_at("forward", &page);
        for standing in &report.results {
            assert!(standing.median.rate_pps > 0.0, "{standing:?}");
            assert!(standing.median.cpu_seconds_per_packet > 0.0, "{standing:?}");
            assert!(standing.median.sink_thread_seconds_per_packet > 0.0, "{standing:?}");
            // An idle worker sleeps and wakes rarely.
            let works = !["kernel", "wattline_xdp_forward"].contains(&standing.name);
            assert_eq!(standing.rate_per_own_cpu_second_pps.is_some(), works, "{standing:?}");
            let share = standing.median.own_threads_seconds_per_packet
                / standing.median.cpu_seconds_per_packet;
            assert_eq!(share > 0.1, works, "{standing:?}");
        }
    }
}
