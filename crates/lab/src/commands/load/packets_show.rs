//! Terminal output of `wattline load packets`.

use super::show::{bar_of, millis};
use indicatif::ProgressBar;
use std::cell::Cell;
use std::io::Write;
use std::time::{Duration, Instant};
use wattline_testbed::packets::Progress;
use wattline_testbed::packets::limits::Limits;

/// Time over which the line's rates are averaged.
const INTERVAL: Duration = Duration::from_millis(500);

/// Live line of the load, only on a terminal.
pub struct LiveLine {
    bar: ProgressBar,
    began: Instant,
    last: Cell<(Instant, Progress)>,
}

impl LiveLine {
    /// Creates the line for a load of that length.
    pub fn new(duration: Duration) -> Self {
        let now = Instant::now();
        Self { bar: bar_of(duration), began: now, last: Cell::new((now, Progress::default())) }
    }

    /// Shows the counts so far.
    pub fn show(&self, progress: Progress) {
        let (then, before) = self.last.get();
        let elapsed = then.elapsed();
        if elapsed < INTERVAL {
            return;
        }
        self.last.set((Instant::now(), progress));
        let rate = |now: u64, then: u64| (now - then) as f64 / elapsed.as_secs_f64() / 1e6;
        self.bar.set_position(millis(self.began.elapsed()));
        self.bar.set_message(format!(
            "sent {:.3} Mpps  received {:.3} Mpps  in flight or lost {}",
            rate(progress.sent, before.sent),
            rate(progress.received, before.received),
            progress.sent.saturating_sub(progress.received)
        ));
    }

    /// Removes the line.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

/// Prints the limits of the generator.
pub fn limits(out: &mut impl Write, limits: &Limits) -> std::io::Result<()> {
    writeln!(
        out,
        "the generator itself ({}, {}): sends {:.3} Mpps at full speed, {:.3} Mpps without loss; \
         adds {} of latency (p50), {} (p99)",
        limits.link,
        limits.ways,
        limits.flat_out_rate_pps / 1e6,
        limits.lossless_rate_pps / 1e6,
        micros(limits.latency.p50_seconds),
        micros(limits.latency.p99_seconds)
    )?;
    writeln!(
        out,
        "processor time per packet: {} sending, of which {:.0} ns its own code; {} receiving, of \
         which {:.0} ns",
        nanos(limits.sender_cpu_seconds_per_packet),
        limits.own.sender_seconds_per_packet * 1e9,
        nanos(limits.receiver_cpu_seconds_per_packet),
        limits.own.receiver_seconds_per_packet * 1e9
    )?;
    if let Some(rate) = limits.stall_rate_pps() {
        writeln!(
            out,
            "its receiver did not read frames for up to {}: its ring of {} packets suffices for \
             {:.3} Mpps in that time",
            micros(Some(limits.receiver_stall_max_seconds)),
            limits.receiver_ring_packets,
            rate / 1e6
        )?;
    }
    Ok(())
}

/// Formats nanoseconds, or a dash for `None`.
pub fn nanos(seconds: Option<f64>) -> String {
    seconds.map_or_else(|| "-".to_owned(), |seconds| format!("{:.0} ns", seconds * 1e9))
}

/// Formats microseconds, or a dash for `None`.
pub fn micros(seconds: Option<f64>) -> String {
    seconds.map_or_else(|| "-".to_owned(), |seconds| format!("{:.1} us", seconds * 1e6))
}
