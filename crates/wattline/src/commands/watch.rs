//! Common part of `wattline capture` and `wattline trace`: a filter, bounds, and the end.

use super::ask::Daemon;
use super::duration;
use crate::exit::ExitError;
use crate::output::note;
use serde::de::DeserializeOwned;
use serde_json::Value;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use wattline_daemon::socket::{Look, Request};
use wattline_daemon::stream::{Inlet, Part, Stopper};
use wattline_dataplane::tap::filter::Filter;
use wattline_status::{WatchEnd, WatchStart};
use wattline_units::Span;

/// Packets to look at, and their number.
#[derive(Debug, clap::Args)]
pub struct WatchArgs {
    /// Packets to watch, as for tcpdump: `udp and port 53`, `host 192.0.2.1`, `src net
    /// 2001:db8::/32`, `interface left`, `vlan 7`, `not (tcp or icmp)`; all without it.
    #[arg(value_name = "FILTER")]
    filter: Vec<String>,
    /// End after so many packets.
    #[arg(short = 'c', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// End after this time.
    #[arg(long = "for", value_name = "TIME", value_parser = duration::parse)]
    time: Option<Span>,
    /// Most packets per second and worker; further packets are counted as missed.
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..))]
    rate: u32,
    #[command(flatten)]
    daemon: Daemon,
}

impl WatchArgs {
    /// Starts watching. Returns the router's first document and the source of the rest. A signal,
    /// the time or the number of packets ends it.
    pub fn begin(&self, snap: u16, request: fn(Look) -> Request) -> Result<Inlet, ExitError> {
        let filter = self.filter.join(" ");
        // Reports mistakes before a router is contacted; only the router knows the names of its
        // ports.
        Filter::parse(&filter, &|_| Some(0))
            .map_err(|error| ExitError::new(ExitError::USAGE, error))?;
        let look = Look { filter, snap, rate: self.rate, most: self.count };
        let (head, inlet) = self.daemon.listen(&request(look))?;
        stop_by_signal(inlet.stopper()?)?;
        if let Some(time) = self.time {
            let stopper = inlet.stopper()?;
            std::thread::spawn(move || {
                std::thread::sleep(time.into());
                stopper.stop();
            });
        }
        say_unseen(&head);
        Ok(inlet)
    }
}

/// Asks for the end at the first signal; the router then still sends the packets it has seen.
fn stop_by_signal(stopper: Stopper) -> std::io::Result<()> {
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    std::thread::spawn(move || {
        for _ in signals.forever() {
            stopper.stop();
        }
    });
    Ok(())
}

fn say_unseen(start: &WatchStart) {
    for what in &start.unseen {
        note!("not seen: {what}");
    }
}

/// Summarises the end in a line.
pub fn summary(end: &WatchEnd) -> String {
    let missed = match end.missed {
        0 => "none missed".to_owned(),
        missed => format!("{missed} missed, as they came too fast (--rate, or a slow reader)"),
    };
    let uncopied = match end.uncopied {
        0 => String::new(),
        packets => format!("; {packets} of XDP programs not examined, as they came too fast"),
    };
    let WatchEnd { packets, matched, duration_seconds, .. } = end;
    format!(
        "{packets} packets shown; {matched} matched, {missed}{uncopied}; {duration_seconds:.1} s"
    )
}

/// Reads an event or the end of a capture or trace.
pub fn parsed<T: DeserializeOwned>(value: Value) -> Result<T, ExitError> {
    let unreadable = |error| {
        ExitError::new(ExitError::DATA, format_args!("the router: an unreadable event: {error}"))
    };
    serde_json::from_value(value).map_err(unreadable)
}

/// Returns the next part, of any kind.
pub fn part(inlet: &mut Inlet) -> Result<Part, ExitError> {
    inlet.part().map_err(|error| ExitError::new(ExitError::IO, format_args!("the router: {error}")))
}
