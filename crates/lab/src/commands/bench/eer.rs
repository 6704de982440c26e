//! `wattline bench eer`: the energy efficiency ratio, on the emulated server of `scale`, or of a
//! forwarder between namespaces of this machine.

use super::device_name::DeviceName;
use super::page::with_progress;
use crate::commands::errors::testbed_error;
use crate::commands::overwrite::Overwrite;
use crate::commands::page_file::show;
use crate::commands::{server_errors, simulation};
use std::path::PathBuf;
use wattline::exit::ExitError;
use wattline_bench::eer::{
    self, Class, Description, Forwarder, ForwarderOptions, Load, Reading, Report, State, Subject,
    page,
};
use wattline_bench::rfc2544::Device;
use wattline_demo::scale::{Plan, run as emulate};
use wattline_scale::Setting;
use wattline_server::{Application, ServerFile, ServerModel};
use wattline_testbed::leftovers::clean_up_on_signals;
use wattline_testbed::packets::Sizes;
use wattline_traffic::capture::CaptureError;
use wattline_traffic::{Block, Source, Spec};
use wattline_units::Span;

/// Highest load of the links, as a share. Closer to 1, packets wait for the link longer than a
/// reading lasts, and less than the requested load is offered (0.999: 98.6 %).
const OF_THE_LINKS: f64 = 0.98;

/// Packets that a core may find at a poll without being behind.
const PER_POLL: u64 = 64;

/// Name of the page.
const PAGE: &str = "wattline-eer.html";

/// Server or device, and policy.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A forwarder set up between namespaces of this machine instead of the emulated server: real
    /// packets and processor time, power by the server's model. Needs root.
    #[arg(long, value_enum, conflicts_with_all = ["policy", "dilation"])]
    device: Option<DeviceName>,
    /// A shipped server model or a file.
    #[arg(long, default_value = "westmere-2010")]
    server: String,
    /// The policy, with its parameters.
    #[arg(long, default_value = "queue-length")]
    policy: String,
    /// Class for the weights: access (100, 10, 0 %), core or data-centre (100, 30, 0 %).
    #[arg(long, default_value = "core")]
    class: Class,
    /// Lengths of frames with frame check sequence: bytes or imix.
    #[arg(long, default_value = "imix")]
    size: String,
    /// Time of each reading: of the model (default 4ms), with --device real (1s).
    #[arg(long, value_parser = wattline::commands::duration::parse)]
    duration: Option<Span>,
    /// Time before each reading, for the policy to settle: of the model (default 1ms), with
    /// --device real (200ms).
    #[arg(long, alias = "stabilization", value_parser = wattline::commands::duration::parse)]
    stabilisation: Option<Span>,
    /// Factor by which everything runs slower than the model.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    dilation: u32,
    /// File for the page.
    #[arg(long, value_name = "FILE", default_value = PAGE)]
    page: PathBuf,
    #[command(flatten)]
    overwrite: Overwrite,
}

/// A source without packets.
struct Silence;

impl Source for Silence {
    fn next_block(&mut self, out: &mut Block) -> Result<(), CaptureError> {
        out.clear();
        Ok(())
    }
}

/// An emulated server as a subject.
struct Emulated<'a> {
    args: &'a Args,
    plan: Plan,
    mean_bytes: f64,
    most_pps: f64,
    ports: u32,
}

impl Emulated<'_> {
    fn traffic(&self, rate_pps: f64) -> Result<Box<dyn Source>, String> {
        let text = format!("constant:{rate_pps}pps,size={},ports={}", self.args.size, self.ports);
        let spec = Spec::parse(&text).map_err(|error| error.to_string())?;
        spec.build(self.plan.setting.seed).map_err(|error| error.to_string())
    }
}

impl Subject for Emulated<'_> {
    fn bear(&mut self, load: Load) -> Result<Reading, String> {
        let seconds = (self.plan.duration + self.plan.warmup).as_seconds();
        let source = match load {
            Load::None => Box::new(Silence),
            // A packet on each port within the reading, which is more than one per second.
            Load::Keepalive => self.traffic(f64::from(self.ports) / seconds)?,
            Load::Rate(rate) => self.traffic(rate)?,
        };
        let outcome = emulate(&self.plan, source, |_, _| {}).map_err(|error| error.to_string())?;
        let (whole, delivery) = (&outcome.record.whole, &outcome.delivery);
        let forwarded = whole.forwarded_rate_pps;
        let awake = whole.useful_core_seconds + whole.empty_core_seconds;
        Ok(Reading {
            offered_rate_pps: whole.offered_rate_pps,
            forwarded_rate_pps: forwarded,
            forwarded_rate_bps: forwarded * self.mean_bytes * 8.0,
            queued_packets: queued(
                whole.offered_packets,
                whole.forwarded_packets + whole.dropped_packets,
                self.plan.setting.server.processor.cores(),
            ),
            processor: None,
            is_sound: true,
            state: Some(State {
                cores_active_mean: whole.cores_active_mean,
                frequency_mean_hertz: whole.frequency_mean_hertz,
                awake_ratio: awake / (awake + whole.asleep_core_seconds).max(f64::MIN_POSITIVE),
                sleeps_per_packet: (whole.forwarded_packets > 0)
                    .then(|| whole.sleeps as f64 / whole.forwarded_packets as f64),
                transitions: whole.transitions,
            }),
            disturbed_because: outcome.disturbed_because(),
            lost_packets: delivery.dropped_packets
                + delivery.beyond_link_packets
                + delivery.lost_packets().unsigned_abs(),
            power_watts: whole.power_watts.ok_or("the model has no power")?,
            source: whole.source.to_string(),
            accuracy: whole.accuracy.to_string(),
        })
    }

    fn base(&mut self) -> Result<Option<Reading>, String> {
        Ok(None)
    }

    fn most_pps(&self) -> f64 {
        self.most_pps
    }

    fn description(&self) -> Description {
        let notes = vec![
            "no meter: power is that of a model whose cores processed real packets, not measured"
                .to_owned(),
            "no base: the model has no figure for the server without its ports".to_owned(),
            format!(
                "idle+: a packet on each port within the {} s of a reading, more than one a second",
                self.plan.duration.as_seconds()
            ),
            "one direction; shares of the throughput of the same frame lengths at every load"
                .to_owned(),
        ];
        Description {
            device: format!("{} under {}", self.args.server, self.plan.setting.policy),
            power_from: format!("emulated on the model {}", self.args.server),
            frames: self.args.size.clone(),
            ports: self.ports,
            stabilisation_seconds: self.plan.warmup.as_seconds(),
            measurement_seconds: self.plan.duration.as_seconds(),
            time: "model".into(),
            averaging: "energy over time".into(),
            notes,
        }
    }
}

/// Runs the command.
pub fn run(args: &Args, json: bool) -> Result<(), ExitError> {
    args.overwrite.check([args.page.as_path()])?;
    let usage = |problem: String| ExitError::new(ExitError::USAGE, problem);
    let file = ServerFile::load(&args.server).map_err(server_errors::config_error)?;
    let server = file.model().map_err(|error| usage(error.to_string()))?.clone();
    let report = match args.device {
        Some(device) => measure_device(args, device.into(), server)?,
        None => measure_emulated(args, server)?,
    };
    show((Some(&args.page), args.overwrite), page(&report), &report, json)
}

/// Measures a real forwarder.
fn measure_device(args: &Args, device: Device, server: ServerModel) -> Result<Report, ExitError> {
    let sizes = args.size.parse::<Sizes>();
    let real = |given: Option<Span>, usual: f64| given.unwrap_or(Span::from_seconds(usual)).into();
    let options = ForwarderOptions {
        device,
        sizes: sizes.map_err(|error| {
            ExitError::new(ExitError::USAGE, format!("--size {}: {error}", args.size))
        })?,
        server,
        stabilisation: real(args.stabilisation, 0.2),
        measurement: real(args.duration, 1.0),
    };
    let report = with_progress(|progress| {
        clean_up_on_signals(|| {
            progress("the generator's limits");
            let mut forwarder = Forwarder::start(options)?;
            Ok(eer::run(&mut forwarder, args.class, progress))
        })
        .and_then(|report| report)
    })
    .map_err(testbed_error)?;
    report.map_err(|error| ExitError::new(ExitError::IO, error))
}

/// Measures the emulated server.
fn measure_emulated(args: &Args, server: ServerModel) -> Result<Report, ExitError> {
    let usage = |problem: String| ExitError::new(ExitError::USAGE, problem);
    let duration = args.duration.unwrap_or(Span::from_millis(4));
    let policy = simulation::policy(&args.policy)?;
    let mean = mean_bytes(&args.size).map_err(|error| usage(format!("--size: {error}")))?;
    // At most 64 ports can have traffic.
    let ports = server.nic.ports.min(64) as u32;
    let most_pps = server.link_capacity(mean as u32).get() * OF_THE_LINKS;
    let plan = Plan {
        setting: Setting {
            server,
            application: Application::Ipv4,
            policy,
            mean_bytes: mean as u32,
            dilation: args.dilation,
            seed: 1,
        },
        duration,
        warmup: args.stabilisation.unwrap_or(Span::from_millis(1)),
        interval: duration / 4,
    };
    let mut subject = Emulated { args, plan, mean_bytes: mean, most_pps, ports };
    let report = with_progress(|progress| eer::run(&mut subject, args.class, progress));
    report.map_err(|error| ExitError::new(ExitError::IO, error))
}

/// Returns the packets by which the queues of these cores grew in an interval, if cores may not
/// find as many at a poll: within a few milliseconds, rings hide a load that is too high.
fn queued(offered: u64, served: u64, cores: usize) -> u64 {
    let grown = offered.saturating_sub(served);
    let usual = (cores as u64 * PER_POLL).max(offered / 100);
    if grown > usual { grown } else { 0 }
}

/// Returns the mean length of frames that a description of traffic gives, with check sequence.
fn mean_bytes(size: &str) -> Result<f64, String> {
    let text = format!("constant:1Mpps,size={size}");
    let spec = Spec::parse(&text).map_err(|error| error.to_string())?;
    match (spec.bit_rate(), spec.packet_rate()) {
        (Some(bits), Some(packets)) => Ok(bits.get() / packets.get() / 8.0),
        _ => Err("the mean length is not known".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The server of the first paper forwards 28.8 Mpps of 64 bytes; its rings absorbed 32 Mpps for
    /// 5 ms.
    #[test]
    fn rings_do_not_hide_a_load_that_is_too_high() {
        assert_eq!(queued(128_000, 115_200, 12), 12_800);
        assert_eq!(queued(128_000, 127_500, 12), 0);
        assert_eq!(queued(12, 0, 12), 0);
    }
}
