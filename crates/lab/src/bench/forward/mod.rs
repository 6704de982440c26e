//! Packets per second and processor time per packet, beside the peers, over veth.
//!
//! ```text
//!   generator ── uplink   left  [contestant]  right   uplink ── counting sink
//!   processor 0           processor 1                 processor 0
//! ```
//!
//! Generator and sink have one processor, the contestant's own threads the other. The kernel
//! thread that receives for it (threaded NAPI) is on the one or the other ([`Placement`]); where
//! the kernel forwards, that thread is all there is, and has the contestant's processor. Its
//! time counts for the contestant in every placement. Frames are counted at the sink. Processor
//! time is what the scheduler charged those threads (`/proc/…/schedstat`).
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

mod contestant;
mod course;
mod ration;
mod threads;

use crate::Error;
use contestant::Contestant;
use course::Course;
pub use course::Placement;
use serde::Serialize;
use std::path::PathBuf;
use std::time::Duration;
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
    /// Of that, in the contestant's own threads.
    pub own_threads_seconds_per_packet: f64,
    /// Processor time of the generator per frame at the sink; not the contestant's.
    pub generator_seconds_per_packet: f64,
    /// Processor time of the kernel thread that counts and frees the frames, each; not the
    /// contestant's, though what it costs depends on how the frame was sent.
    pub sink_thread_seconds_per_packet: f64,
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
    /// Frames per second of processor time of all that works for the contestant.
    pub rate_per_cpu_second_pps: f64,
    /// Frames per second of processor time of the contestant's own threads, without the kernel
    /// thread that receives for it; none where the kernel forwards.
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
                    kernel thread that receives for it runs on processor 1 (shared) or 0 (split, \
                    rationed), and its time is counted in each. Rationed: half of processor 1 is \
                    taken away, so that there is always a frame to be forwarded and the time of a \
                    contestant that polls is useful time, too";

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
    let (shared, split, rationed) = (Placement::Shared, Placement::Split, Placement::Rationed);
    let mut entries = vec![
        (Contestant::Kernel, shared),
        (Contestant::Wattline(Mode::Adaptive), shared),
        (Contestant::Wattline(Mode::Adaptive), split),
        (Contestant::Wattline(Mode::Poll), split),
        (Contestant::Wattline(Mode::Adaptive), rationed),
        (Contestant::Wattline(Mode::Poll), rationed),
    ];
    for placement in [split, rationed] {
        entries.extend(options.l3fwd.clone().map(|it| (Contestant::L3fwd(it), placement)));
    }
    let mut rounds = vec![Vec::new(); entries.len()];
    for _ in 0..options.rounds {
        for ((contestant, placement), rounds) in entries.iter().zip(&mut rounds) {
            // A course of its own: nothing of the one before is left over.
            let course = Course::build(*placement)?;
            rounds.push(contestant.measure(&course, options.duration)?);
        }
    }
    let results = entries.iter().zip(rounds).map(|((contestant, placement), rounds)| {
        let of = |figure: fn(&Round) -> f64| median(rounds.iter().map(figure));
        let cpu_seconds_per_packet = of(|round| round.cpu_seconds_per_packet);
        let own_threads_seconds_per_packet = of(|round| round.own_threads_seconds_per_packet);
        Standing {
            name: contestant.name(),
            placement: *placement,
            offered_rate_pps: of(|round| round.offered_rate_pps),
            rate_pps: of(|round| round.rate_pps),
            cpu_seconds_per_packet,
            receive_thread_seconds_per_packet: of(|it| it.receive_thread_seconds_per_packet),
            own_threads_seconds_per_packet,
            generator_seconds_per_packet: of(|round| round.generator_seconds_per_packet),
            sink_thread_seconds_per_packet: of(|round| round.sink_thread_seconds_per_packet),
            rate_per_cpu_second_pps: cpu_seconds_per_packet.recip(),
            rate_per_own_cpu_second_pps: (own_threads_seconds_per_packet > 0.0)
                .then(|| own_threads_seconds_per_packet.recip()),
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
        assert_eq!(report.results.len(), 6);
        for standing in &report.results {
            assert!(standing.rate_pps > 0.0, "{standing:?}");
            assert!(standing.cpu_seconds_per_packet > 0.0, "{standing:?}");
            assert!(standing.sink_thread_seconds_per_packet > 0.0, "{standing:?}");
            let own = standing.own_threads_seconds_per_packet;
            assert_eq!(own > 0.0, standing.name != "kernel", "{standing:?}");
        }
    }
}
