//! `wattline bench rfc2544`: throughput, latency, frame loss and back-to-back frames.

use super::device_name::DeviceName;
use super::page::with_progress;
use crate::commands::errors::testbed_error;
use crate::commands::overwrite::Overwrite;
use crate::commands::page_file::show;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use wattline::commands::duration;
use wattline::exit::ExitError;
use wattline_bench::rfc2544::{self, Device, Goal, Options, Ports, page, standard_sizes};
use wattline_testbed::leftovers::clean_up_on_signals;
use wattline_testbed::packets::{Sizes, parse_mac};
use wattline_units::Span;

/// Name of the page.
const PAGE: &str = "wattline-rfc2544.html";

/// Device under test, and the durations.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A device set up between namespaces of this machine.
    #[arg(long, value_enum, conflicts_with = "from", required_unless_present = "from")]
    device: Option<DeviceName>,
    /// The interface that sends to an existing device: [NAMESPACE/]INTERFACE. Needs --mac.
    #[arg(long, value_name = "INTERFACE", requires = "mac")]
    from: Option<String>,
    /// The interface that receives from it; by default the sending one.
    #[arg(long, value_name = "INTERFACE", requires = "from")]
    to: Option<String>,
    /// Ethernet address of the device's interface towards the sending one; required with --from.
    #[arg(long, value_name = "MAC")]
    mac: Option<String>,
    /// Source address of the packets, for an existing device.
    #[arg(long, default_value = "198.18.0.2")]
    source: IpAddr,
    /// First destination address, likewise.
    #[arg(long, default_value = "198.19.0.2")]
    destination: IpAddr,
    /// Number of destination addresses.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1 << 16))]
    destinations: u32,
    /// Queues of each interface, likewise.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    queues: u32,
    /// Frame lengths or mixes, separated by commas; by default the seven of RFC 2544 and imix.
    #[arg(long, value_delimiter = ',')]
    sizes: Vec<Sizes>,
    /// One more mix: lengths from these captures, separated by commas and merged by time. Without
    /// --sizes, the only one.
    #[arg(long, value_name = "FILE", value_delimiter = ',')]
    captures: Vec<PathBuf>,
    /// Number of flows.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    flows: u32,
    /// Length of the final trials. Below 60 s the result is not compliant with RFC 2544.
    #[arg(long, default_value = "1s", value_parser = duration::parse)]
    trial: Span,
    /// All durations and repetitions of RFC 2544: takes hours.
    #[arg(long, conflicts_with_all = ["trial", "loss_ratio"])]
    compliant: bool,
    /// Loss ratio permitted at the throughput.
    #[arg(long, default_value_t = 0.0)]
    loss_ratio: f64,
    /// File for the page.
    #[arg(long, value_name = "FILE", default_value = PAGE)]
    page: PathBuf,
    #[command(flatten)]
    overwrite: Overwrite,
}

/// Runs the command.
pub fn run(args: &Args, json: bool) -> Result<(), ExitError> {
    args.overwrite.check([args.page.as_path()])?;
    let options = options(args)?;
    let never = AtomicBool::new(false);
    let report = with_progress(|progress| {
        clean_up_on_signals(|| rfc2544::run(&options, &never, progress)).and_then(|report| report)
    })
    .map_err(testbed_error)?;
    show((Some(&args.page), args.overwrite), page(&report), &report, json)
}

fn options(args: &Args) -> Result<Options, ExitError> {
    let wrong = |problem: &str| ExitError::new(ExitError::USAGE, problem);
    if !(0.0..1.0).contains(&args.loss_ratio) {
        return Err(wrong("--loss-ratio: expected 0 up to 1"));
    }
    if args.source.is_ipv4() != args.destination.is_ipv4() {
        return Err(wrong("--source and --destination are of different families"));
    }
    let device = match (args.device, &args.from) {
        (Some(device), _) => device.into(),
        (None, Some(from)) => Device::Ports(Ports {
            from: from.clone(),
            to: args.to.clone(),
            queues: args.queues,
            mac: match args.mac.as_deref().map(parse_mac) {
                Some(None) => return Err(wrong("--mac: expected such as 02:57:00:00:00:11")),
                Some(mac) => mac,
                None => None,
            },
            source: args.source,
            destination: args.destination,
            destinations: args.destinations,
        }),
        (None, None) => return Err(wrong("--device or --from is needed")),
    };
    let mut sizes = args.sizes.clone();
    if !args.captures.is_empty() {
        let mix = Sizes::from_captures(&args.captures);
        sizes.push(mix.map_err(|error| ExitError::new(ExitError::DATA, error))?);
    } else if sizes.is_empty() {
        sizes = standard_sizes();
    }
    let mut options = match args.compliant {
        true => Options::compliant(device, sizes),
        false => {
            let trial: Duration = args.trial.into();
            Options { goal: Goal::short(trial), latency: trial, ..Options::quick(device, sizes) }
        }
    };
    options.goal.loss_ratio = args.loss_ratio;
    options.flows = args.flows;
    Ok(options)
}
