//! `wattline load packets`.

use super::options::{rate, stop_on_signals};
use super::packets_report::{Report, notes, page};
use super::packets_show::LiveLine;
use crate::commands::errors::testbed_error;
use crate::commands::page_file::PageFile;
use crate::commands::simulation;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use wattline::commands::duration;
use wattline::exit::ExitError;
use wattline_testbed::namespace::check_rights;
use wattline_testbed::packets::limits;
use wattline_testbed::packets::{
    Addresses, End, FLOWS_MAX, Load, Methods, ReceiveBy, SendBy, Shape, Sizes, Tester, anywhere,
    parse_mac, plain_link,
};
use wattline_units::Span;

/// Path and number of packets.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The interface that sends: [NAMESPACE/]INTERFACE.
    #[arg(long, value_name = "INTERFACE")]
    from: String,
    /// The interface that receives; by default the sending one.
    #[arg(long, value_name = "INTERFACE")]
    to: Option<String>,
    /// Send from the receiving interface as well, the same load at the same time, with source and
    /// destination exchanged; print both results.
    #[arg(long, requires = "to")]
    both: bool,
    /// With --both: Ethernet address of the device's interface towards the receiving interface.
    #[arg(long, value_name = "MAC", value_parser = mac, requires = "both")]
    mac_back: Option<Mac>,
    /// Ethernet address of the device's interface; by default that of the receiver (a plain link).
    #[arg(long, value_name = "MAC", value_parser = mac)]
    mac: Option<Mac>,
    /// Source address of the packets.
    #[arg(long, default_value = "198.18.0.2")]
    source: IpAddr,
    /// First destination address; it determines the packets' family.
    #[arg(long, default_value = "198.19.0.2")]
    destination: IpAddr,
    /// Number of consecutive destination addresses; flows use them in turn.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1 << 16))]
    destinations: u32,
    /// Packets per second in total, such as 500, 20k or 1.5M; max for the highest possible rate.
    #[arg(long, value_parser = rate_or_max)]
    rate: f64,
    /// Duration.
    #[arg(long, default_value = "10s", value_parser = duration::parse)]
    duration: Span,
    /// Lengths of frames with frame check sequence: 64 to 1518, imix, imix-csit, or a list such as
    /// 64*7+594*4+1518*1.
    #[arg(long, default_value = "imix")]
    size: Sizes,
    /// Take the lengths of frames from these captures instead, separated by commas, mixed by time.
    #[arg(long, value_name = "FILE", value_delimiter = ',', conflicts_with = "size")]
    captures: Vec<PathBuf>,
    /// Number of flows; each has its own source port, and they send in turn.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=i64::from(FLOWS_MAX)))]
    flows: u32,
    /// Queues of each interface to use, each with a sending and a receiving thread.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    queues: u32,
    /// Send bursts of this many packets, at the same mean rate.
    #[arg(long, value_name = "PACKETS", conflicts_with = "day")]
    burst: Option<u64>,
    /// Rate within a burst; max for the highest possible rate.
    #[arg(long, value_name = "RATE", default_value = "max", value_parser = rate_or_max)]
    burst_rate: f64,
    /// Vary the rate like a day and a night over the duration, up and down by this share.
    #[arg(long, value_name = "DEPTH")]
    day: Option<f64>,
    /// End when no packet arrived for this long after the last one was sent.
    #[arg(long, default_value = "2s", value_parser = simulation::span)]
    drain: Span,
    /// Method of sending: sockets (AF_XDP; sleeps between packets), live-frames (the kernel creates
    /// several times as many packets, and spins between them), or auto: live frames from 100,000
    /// packets/s on, if interface and kernel can.
    #[arg(long, value_name = "METHOD", default_value = "auto")]
    send_by: SendBy,
    /// Method of receiving: sockets (AF_XDP; a ring that can be full), program (an XDP program in
    /// the driver accounts for packets on arrival), or auto: the program, if the driver can.
    #[arg(long, value_name = "METHOD", default_value = "auto")]
    receive_by: ReceiveBy,
    /// Do not measure the generator's own limits over a veth pair first.
    #[arg(long)]
    no_limits: bool,
    #[command(flatten)]
    page: PageFile,
}

/// Ethernet address of an option.
#[derive(Debug, Clone, Copy)]
struct Mac([u8; 6]);

/// Runs the command.
pub fn run(args: &Args, json: bool) -> Result<(), ExitError> {
    if args.source.is_ipv4() != args.destination.is_ipv4() {
        let problem = "--source and --destination are of different families";
        return Err(ExitError::new(ExitError::USAGE, problem));
    }
    let shape = match (args.burst, args.day) {
        (Some(packets), _) => Shape::Bursts { packets, peak_pps: args.burst_rate },
        (None, Some(depth)) => Shape::Day { depth },
        (None, None) => Shape::Constant,
    };
    let load = Load {
        rate_pps: args.rate,
        duration: args.duration.into(),
        shape,
        burst: None,
        sizes: match args.captures.as_slice() {
            [] => args.size.clone(),
            files => Sizes::from_captures(files)
                .map_err(|error| ExitError::new(ExitError::DATA, error))?,
        },
        flows: args.flows,
        drain: args.drain.into(),
    };
    load.check(args.destination.is_ipv6(), args.queues)
        .map_err(|problems| ExitError::new(ExitError::USAGE, problems))?;
    args.page.check()?;
    check_rights("`load packets`").map_err(testbed_error)?;
    let stop = stop_on_signals()?;
    let to = args.to.as_deref().map(End::from);
    let from = End::from(args.from.as_str());
    // Wrong names are reported before the generator measures itself for seconds.
    [Some(from), to].into_iter().flatten().try_for_each(End::check).map_err(testbed_error)?;
    let methods = methods(args, &load);
    let limits = match args.no_limits {
        true => None,
        false => Some(
            limits::veth_limits(&load, args.queues, methods, &anywhere).map_err(testbed_error)?,
        ),
    };
    if let (Some(limits), false) = (&limits, json) {
        super::packets_show::limits(&mut std::io::stderr().lock(), limits)?;
    }
    if stop.load(Ordering::Relaxed) {
        return Err(ExitError::new(ExitError::IO, "stopped before the load began"));
    }
    let mut tester = match to {
        Some(to) if args.both => {
            Tester::open_both(from, to, args.queues, methods).map_err(testbed_error)?
        }
        to => Tester::open(from, to, args.queues, methods).map_err(testbed_error)?,
    };
    let addresses = Addresses {
        destination_mac: args.mac.map_or(tester.to.mac, |mac| mac.0),
        source: args.source,
        destination: args.destination,
        destinations: args.destinations,
        ..plain_link(&tester.from, &tester.to)
    };
    let line = LiveLine::new(load.duration);
    let mut watch = |progress| line.show(progress);
    let outcomes = if args.both {
        let back = Addresses {
            destination_mac: args.mac_back.map_or(tester.from.mac, |mac| mac.0),
            source: args.destination,
            destination: args.source,
            ..plain_link(&tester.to, &tester.from)
        };
        let both = [&addresses, &back];
        tester
            .trial_both(both, &load, &anywhere, &stop, &mut watch)
            .map(|[forth, back]| (forth, Some(back)))
    } else {
        let outcome = tester.trial(&addresses, &load, &anywhere, &stop, &mut watch);
        outcome.map(|outcome| (outcome, None))
    };
    line.clear();
    let (outcome, back) = outcomes.map_err(testbed_error)?;
    let report = Report {
        from: tester.from.name.clone(),
        to: tester.to.name.clone(),
        queues: args.queues,
        zero_copy: tester.from.zero_copy && tester.to.zero_copy,
        conditions: conditions(&load, args.both),
        notes: notes(&outcome, limits.as_ref(), &tester.methods.reasons),
        ways: tester.methods.words(),
        limits,
        outcome,
        back,
    };
    args.page.show(page(&report), &report, json)
}

/// Packets per second from which on live frames are worth a spinning processor.
const LIVE_PPS: f64 = 100e3;

/// Returns the requested methods.
fn methods(args: &Args, load: &Load) -> Methods {
    let peak = match load.shape {
        Shape::Bursts { peak_pps, .. } => peak_pps,
        Shape::Constant | Shape::Day { .. } => load.rate_pps,
    };
    let send = match args.send_by {
        SendBy::Auto if peak < LIVE_PPS => SendBy::Sockets,
        send => send,
    };
    Methods { send, receive: args.receive_by }
}

/// Describes the load.
fn conditions(load: &Load, both: bool) -> String {
    let per_second = |rate: f64| match rate.is_finite() {
        true => format!("{rate:.0} packets/s"),
        false => "as fast as it goes".to_owned(),
    };
    let mean = per_second(load.rate_pps);
    let shape = match load.shape {
        Shape::Constant => mean,
        Shape::Bursts { packets, peak_pps } => {
            format!("{mean} in bursts of {packets} at {}", per_second(peak_pps))
        }
        Shape::Day { depth } => format!("{mean} over a day, up and down by {:.0} %", depth * 100.0),
    };
    let directions = if both { "both directions" } else { "one direction" };
    format!("{directions}, {shape}; over {:?} after the last packet came", load.drain)
}

fn rate_or_max(text: &str) -> Result<f64, String> {
    match text {
        "max" => Ok(f64::INFINITY),
        text => rate(text).map_err(|_| {
            "expected packets a second above 0, such as 500, 20k or 1.5M, or max".to_owned()
        }),
    }
}

fn mac(text: &str) -> Result<Mac, String> {
    parse_mac(text).map(Mac).ok_or_else(|| "expected six bytes such as 02:57:00:00:00:11".into())
}
