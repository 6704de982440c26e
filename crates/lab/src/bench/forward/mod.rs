//! Packets per second and processor time per packet, beside the peers, over veth.
//!
//! ```text
//!   generator ── uplink   left  [contestant]  right   uplink ── counting sink
//!   processor 0           processor 1                 processor 0
//! ```
//!
//! Generator and sink have one processor, the contestant's own threads the other. The kernel
//! thread that receives for it (threaded NAPI) is on the contestant's processor in one placement
//! and on the generator's in the other ([`Placement`]); where the kernel forwards, that thread is
//! all there is, and has the contestant's processor. Its time counts in both. Frames are
//! counted at the sink. Processor time is what the scheduler charged those threads
//! (`/proc/…/schedstat`), and all of them run before other programs (nice -15), so that a
//! neighbour on the machine disturbs them little.
//! Contestants take turns; each figure is the median of the rounds.
//!
//! A contestant that polls (l3fwd, `wattline_poll`) uses all the time that it is given, so its
//! time per packet says something only where the load is more than it can forward: compare it
//! by rate, and by time per packet only with another that polls.
//!
//! A veth is no card: it has no zero-copy, and every frame is copied. Nothing here says how
//! fast any contestant is on hardware.

mod contestant;
mod course;
mod threads;

use crate::Error;
use contestant::Contestant;
use course::Course;
pub use course::Placement;
use serde::Serialize;
use std::path::PathBuf;
use std::time::Duration;
use threads::ForemostSession;
use wattline_dataplane::worker::Mode;

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

/// One round of one contestant.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Round {
    /// Frames that the generator made per second of time; what the contestant's receive ring had
    /// no room for is lost there. Known to about a tenth.
    pub offered_rate_pps: f64,
    /// Frames at the sink per second of time.
    pub rate_pps: f64,
    /// Processor time of all that works for the contestant per frame at the sink.
    pub cpu_seconds_per_packet: f64,
    /// Of that, in the kernel thread that receives for it.
    pub receive_thread_seconds_per_packet: f64,
    /// Processors that this took, on average; what is missing to 1 where all shared one was idle
    /// or taken by other programs.
    pub cpu_share: f64,
}

impl Round {
    /// Processor time of the contestant's own threads per frame at the sink.
    fn own_seconds_per_packet(&self) -> f64 {
        self.cpu_seconds_per_packet - self.receive_thread_seconds_per_packet
    }
}

/// All rounds of one contestant.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Standing {
    /// Who.
    pub name: &'static str,
    /// Where its receiving thread ran.
    pub placement: Placement,
    /// Median of the rounds.
    pub offered_rate_pps: f64,
    /// Median of the rounds.
    pub rate_pps: f64,
    /// Median of the rounds.
    pub cpu_seconds_per_packet: f64,
    /// Frames per second of processor time: the reciprocal of that.
    pub rate_per_cpu_second_pps: f64,
    /// Frames per second of processor time of the contestant's own threads, without the kernel
    /// thread that receives for it; none where the kernel forwards. Median of the rounds.
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

const NOTE: &str = "veth pairs, copy mode: compare the contestants of one run with each other. \
                    Generator and sink have processor 0, the contestant's threads processor 1; the \
                    kernel thread that receives for it runs on processor 1 (shared) or 0 (split), \
                    and its time is counted in both";

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
    let mut contestants = vec![
        Contestant::Wattline(Mode::Adaptive),
        Contestant::Wattline(Mode::Poll),
        Contestant::WattlineBusyPoll,
    ];
    contestants.extend(options.l3fwd.clone().map(Contestant::L3fwd));
    let split = contestants.clone().into_iter().map(|it| (it, Placement::Split));
    let mut entries = vec![(Contestant::Kernel, Placement::Shared)];
    entries.extend(contestants.into_iter().map(|it| (it, Placement::Shared)));
    entries.extend(split);
    let mut rounds = vec![Vec::new(); entries.len()];
    let _foremost = ForemostSession::begin();
    for _ in 0..options.rounds {
        for ((contestant, placement), rounds) in entries.iter().zip(&mut rounds) {
            // A course of its own: nothing of the one before is left over.
            let course = Course::build(*placement)?;
            rounds.push(contestant.measure(&course, options.duration)?);
        }
    }
    let results = entries.iter().zip(rounds).map(|((contestant, placement), rounds)| {
        let cpu_seconds_per_packet = median(rounds.iter().map(|r| r.cpu_seconds_per_packet));
        let own = median(rounds.iter().map(Round::own_seconds_per_packet));
        Standing {
            name: contestant.name(),
            placement: *placement,
            offered_rate_pps: median(rounds.iter().map(|round| round.offered_rate_pps)),
            rate_pps: median(rounds.iter().map(|round| round.rate_pps)),
            cpu_seconds_per_packet,
            rate_per_cpu_second_pps: cpu_seconds_per_packet.recip(),
            rate_per_own_cpu_second_pps: (own > 0.0).then(|| own.recip()),
            rounds,
        }
    });
    Ok(Report { frame_bytes: course::FRAME_BYTES, results: results.collect(), note: NOTE })
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
    use crate::leftovers::can_build_namespaces;

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
        assert_eq!(report.results.len(), 7);
        for standing in &report.results {
            assert!(standing.rate_pps > 0.0, "{standing:?}");
            assert!(standing.cpu_seconds_per_packet > 0.0, "{standing:?}");
        }
    }
}
