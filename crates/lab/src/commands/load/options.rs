//! Options of the load, shared by all kinds of servers.

use super::show::LiveLine;
use crate::commands::simulation;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use wattline::commands::duration;
use wattline::exit::ExitError;
use wattline_requests::Report;
use wattline_requests::engine::{self, LoadError, LoadOptions};
use wattline_requests::protocol::Protocol;
use wattline_requests::schedule::Arrivals;
use wattline_requests::sources::Reporter;
use wattline_units::{Span, parse_prefixed};

/// Options of the load.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Requests per second in total, such as 500, 20k or 1.5M.
    #[arg(long, value_parser = rate)]
    rate: f64,
    /// Connections in total.
    #[arg(long, default_value_t = 100)]
    connections: usize,
    /// Sending threads; each is an event loop.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Largest number of outstanding requests per connection.
    #[arg(long, default_value_t = 1)]
    depth: usize,
    /// Duration of the measurement.
    #[arg(long, default_value = "10s", value_parser = duration::parse)]
    duration: Span,
    /// Time with load before the measurement.
    #[arg(long, default_value = "2s", value_parser = simulation::span)]
    warmup: Span,
    /// Length of the intervals of the live line and of `intervals` in the JSON.
    #[arg(long, default_value = "1s", value_parser = duration::parse)]
    interval: Span,
    /// Time after sending at which an unanswered request fails.
    #[arg(long, default_value = "1s", value_parser = duration::parse)]
    timeout: Span,
    /// Distribution of requests over time: poisson or constant.
    #[arg(long, default_value = "poisson")]
    arrivals: Arrivals,
    /// Seed of all random numbers.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Never sleep: sends on time within a microsecond, but each thread uses a whole processor.
    #[arg(long)]
    spin: bool,
}

impl Options {
    /// Returns the options of the generator.
    pub fn load(&self) -> Result<LoadOptions, ExitError> {
        let options = LoadOptions {
            rate: self.rate,
            arrivals: self.arrivals,
            connections: self.connections,
            threads: self.threads,
            depth: self.depth,
            duration: self.duration.into(),
            warmup: self.warmup.into(),
            interval: self.interval.into(),
            timeout: self.timeout.into(),
            seed: self.seed,
            spin: self.spin,
        };
        options.check().map_err(|problems| {
            let lines: Vec<_> = problems.iter().map(|problem| format!("--{problem}")).collect();
            ExitError::new(ExitError::USAGE, lines.join("\n"))
        })?;
        Ok(options)
    }

    /// Returns the seed.
    pub fn seed(&self) -> u64 {
        self.seed
    }
}

/// Returns a flag that SIGINT and SIGTERM set to end a load; a second signal ends the program.
pub fn stop_on_signals() -> io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 128 + 2, Arc::clone(&stop))?;
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}

/// Runs a load, with a live line on a terminal. Ctrl-C ends it early; the measurements until then
/// are reported. Each interval is reported to a governor if requested; a failure of this is printed
/// once.
pub fn make<P: Protocol>(
    (name, targets): (&'static str, Vec<String>),
    options: &LoadOptions,
    addresses: &[SocketAddr],
    protocol: impl Fn(usize) -> P,
    mut reporter: Option<Reporter>,
) -> Result<Report, ExitError> {
    let stop = stop_on_signals()?;
    let line = LiveLine::new(options);
    let outcome = engine::run(options, addresses, protocol, &stop, |interval, latency| {
        line.show(interval);
        let failed = reporter.as_mut().and_then(|reporter| reporter.report(interval, latency));
        if let Some(why) = failed {
            line.warn(&format!("--report: {why}; the load goes on, and failures are counted"));
        }
    });
    line.clear();
    let (recording, intervals) = outcome.map_err(load_error)?;
    if recording.measured == 0 {
        return Err(ExitError::new(ExitError::IO, "stopped before the measured time began"));
    }
    let report = Report::new::<P>(name, targets, options, &recording, intervals);
    Ok(Report { governor_reports: reporter.map(|reporter| reporter.reported().clone()), ..report })
}

fn load_error(error: LoadError) -> ExitError {
    let code = match &error {
        LoadError::Options(_) | LoadError::NoTarget => ExitError::USAGE,
        LoadError::Connect { error, .. } => connect_code(error),
        LoadError::Files { .. } => ExitError::NO_PERMISSION,
        LoadError::Loop(_) | LoadError::Panic => ExitError::IO,
    };
    ExitError::new(code, error)
}

/// Returns the exit code for a server that cannot be reached.
pub fn connect_code(error: &io::Error) -> u8 {
    match error.kind() {
        io::ErrorKind::ConnectionRefused
        | io::ErrorKind::TimedOut
        | io::ErrorKind::HostUnreachable
        | io::ErrorKind::NetworkUnreachable => ExitError::NO_INPUT,
        io::ErrorKind::PermissionDenied => ExitError::NO_PERMISSION,
        _ => ExitError::IO,
    }
}

/// Parses a rate, with k, M, G or T for thousands and so on.
pub fn rate(text: &str) -> Result<f64, String> {
    let expected = "expected requests a second above 0, such as 500, 20k or 1.5M";
    parse_prefixed(text, "").filter(|rate| *rate > 0.0).ok_or_else(|| expected.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_may_be_thousands_and_millions() {
        assert_eq!(rate("500"), Ok(500.0));
        assert_eq!(rate("20k"), Ok(20_000.0));
        assert_eq!(rate("1.5M"), Ok(1_500_000.0));
        for wrong in ["", "k", "-1", "0", "1X", "nan", "inf", "ä"] {
            assert!(rate(wrong).is_err(), "{wrong}");
        }
    }
}
