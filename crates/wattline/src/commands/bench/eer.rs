//! `wattline bench eer`: the energy efficiency ratio, on the emulated server of `scale`.

use super::page::{with_progress, write_and_print};
use crate::commands::server_errors;
use crate::exit::ExitError;
use crate::new_file::Overwrite;
use std::path::PathBuf;
use wattline_bench::eer::{self, Class, Description, Load, Reading, Subject, html, table};
use wattline_demo::scale::{Plan, run as emulate};
use wattline_policy::PolicySpec;
use wattline_scale::Setting;
use wattline_server::{Application, ServerFile};
use wattline_traffic::capture::CaptureError;
use wattline_traffic::{Block, Source, Spec};
use wattline_units::Span;

/// Of what the links carry, the share that is offered at most: at all of it, packets that come a
/// little early would be beyond them.
const OF_THE_LINKS: f64 = 0.999;

/// Name of the page.
const PAGE: &str = "wattline-eer.html";

/// Which server, and under which policy.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A shipped server model or a file.
    #[arg(long, default_value = "westmere-2010")]
    server: String,
    /// The policy, with its parameters.
    #[arg(long, default_value = "powersave")]
    policy: String,
    /// Whose weights count: access (100, 10, 0 %), core or data-centre (100, 30, 0 %).
    #[arg(long, default_value = "core")]
    class: Class,
    /// Lengths of frames: bytes or imix, as --traffic takes them.
    #[arg(long, default_value = "imix")]
    size: String,
    /// Model time of each reading.
    #[arg(long, default_value = "4ms", value_parser = crate::commands::duration::parse)]
    duration: Span,
    /// Model time before each reading, for the policy to settle.
    #[arg(long, alias = "stabilization", default_value = "1ms", value_parser = crate::commands::duration::parse)]
    stabilisation: Span,
    /// How many times slower than the model everything runs.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    dilation: u32,
    /// Where to write the page.
    #[arg(long, value_name = "FILE", default_value = PAGE)]
    page: PathBuf,
    #[command(flatten)]
    overwrite: Overwrite,
}

/// No packets.
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
    /// The loads whose readings were disturbed, in order.
    disturbed: Vec<String>,
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
        let seconds = (self.args.duration + self.args.stabilisation).as_seconds();
        let source = match load {
            Load::None => Box::new(Silence),
            // A packet on each port within the reading: more than one a second.
            Load::Keepalive => self.traffic(f64::from(self.ports) / seconds)?,
            Load::Rate(rate) => self.traffic(rate)?,
        };
        let outcome = emulate(&self.plan, source, |_, _| {}).map_err(|error| error.to_string())?;
        if outcome.is_disturbed() {
            self.disturbed.push(match load {
                Load::None => "idle".to_owned(),
                Load::Keepalive => "idle+".to_owned(),
                Load::Rate(rate) => format!("{:.4} Mpps", rate / 1e6),
            });
        }
        let (whole, delivery) = (&outcome.record.whole, &outcome.delivery);
        let sent = (delivery.sent_packets + delivery.beyond_link_packets) as f64;
        let forwarded = delivery.heard.received_packets as f64 / seconds;
        Ok(Reading {
            offered_rate_pps: sent / seconds,
            forwarded_rate_pps: forwarded,
            forwarded_rate_bps: forwarded * self.mean_bytes * 8.0,
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
        let mut notes = vec![
            "no meter: power is that of a model whose cores real packets passed, not measured"
                .to_owned(),
            "no base: the model does not know the server without its ports".to_owned(),
            format!(
                "idle+: a packet on each port within the {} s of a reading, more than one a second",
                self.args.duration.as_seconds()
            ),
            "one direction; shares of the throughput of the same frame lengths at every load"
                .to_owned(),
        ];
        if !self.disturbed.is_empty() {
            notes.push(format!(
                "disturbed, since this machine was too busy: {}",
                self.disturbed.join(", ")
            ));
        }
        Description {
            device: format!("{} under {}", self.args.server, self.args.policy),
            power_from: format!("emulated on the model {}", self.args.server),
            frames: self.args.size.clone(),
            ports: self.ports,
            stabilisation_seconds: self.args.stabilisation.as_seconds(),
            measurement_seconds: self.args.duration.as_seconds(),
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
    let file = ServerFile::load(&args.server).map_err(server_errors::of_model)?;
    let server = file.model().map_err(|error| usage(error.to_string()))?.clone();
    let policy =
        PolicySpec::parse(&args.policy).map_err(|error| usage(format!("--policy: {error}")))?;
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
        duration: args.duration,
        warmup: args.stabilisation,
        interval: args.duration / 4,
    };
    let mut subject =
        Emulated { args, plan, mean_bytes: mean, most_pps, ports, disturbed: Vec::new() };
    let report = with_progress(|tell| eer::run(&mut subject, args.class, tell));
    let report = report.map_err(|error| ExitError::new(ExitError::IO, error))?;
    write_and_print((&args.page, html(&report), args.overwrite), &report, json, table)
}

/// The mean length of frames that a description of traffic gives, without frame check sequence.
fn mean_bytes(size: &str) -> Result<f64, String> {
    let text = format!("constant:1Mpps,size={size}");
    let spec = Spec::parse(&text).map_err(|error| error.to_string())?;
    match (spec.bit_rate(), spec.packet_rate()) {
        (Some(bits), Some(packets)) => Ok(bits.get() / packets.get() / 8.0),
        _ => Err("the mean length is not known".to_owned()),
    }
}
