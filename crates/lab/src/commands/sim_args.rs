//! Arguments of `wattline sim`.

use super::simulation;
use crate::commands::overwrite::Overwrite;
use std::path::PathBuf;
use wattline_server::{Application, Path};
use wattline_units::Span;

/// The simulation to run.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Server model: name of a shipped one or a file. Without it westmere-2010, with --requests
    /// xeon-silver-4108.
    #[arg(long)]
    pub server: Option<String>,
    /// Policy, as NAME or NAME:key=value,key=value (`wattline policies` lists them); NAME may be
    /// followed by a moderation, as in ondemand+84us. Without it queue-length, with --requests
    /// performance+ixgbe.
    #[arg(long)]
    pub policy: Option<String>,
    /// Traffic, such as `poisson:5Mpps,size=64`, or a TOML file.
    #[arg(long, required_unless_present = "requests")]
    pub traffic: Option<String>,
    /// Requests to a server on the kernel's stack instead, such as `memcached:700krps` or
    /// `nginx:88krps,burst=4`. Their reports have no --interval.
    #[arg(
        long,
        conflicts_with_all = ["traffic", "interval", "app", "app_costs", "path", "output_links"]
    )]
    pub requests: Option<String>,
    /// Write profile tables for the policy copi to this file, from 0.25 to 1.3 times the request
    /// rate.
    #[arg(long, value_name = "FILE", requires = "requests")]
    pub profile: Option<PathBuf>,
    /// Profile only the points that a search picks, at most a tenth of all.
    #[arg(long, requires = "profile")]
    pub sparse: bool,
    /// Simulated time to report on.
    #[arg(long, default_value = "1s", value_parser = simulation::span)]
    pub duration: Span,
    /// Simulated time before the measurement. Without it 100ms, with --requests 1s: their policies
    /// decide ten times a second, and requests that wait until then are served first.
    #[arg(long, value_parser = simulation::span)]
    pub warmup: Option<Span>,
    /// Also report every interval of this length.
    #[arg(long, value_parser = simulation::span)]
    pub interval: Option<Span>,
    /// Application that processes each packet: ipv4, netflow, ipsec or re.
    #[arg(long, default_value = "ipv4", value_parser = simulation::application)]
    pub app: Application,
    /// Costs of the applications: `model` for those of the server's file, or NAME[:ratio|:added]
    /// for costs measured elsewhere (a shipped file or one of `bench costs`), scaled to the server.
    #[arg(long, default_value = "model")]
    pub app_costs: String,
    /// Path of the packets: workers, xdp or kernel, with its costs in the server's file. Those of
    /// xdp and kernel are polled by NAPI.
    #[arg(long, default_value = "workers")]
    pub path: Path,
    /// Model output links too: packets leave by transmit rings and links of the server's rate.
    #[arg(long)]
    pub output_links: bool,
    /// Knobs that are not ideal, as `KNOB:delay=50us,fail=0.1;KNOB:refuse;KNOB:round=5,dwell=1ms;
    /// budget:rate=100,burst=20`. KNOB is frequency, idle-limit, wait, cores, moderation, batch or
    /// all; with --requests frequency, idle-limit, moderation or all.
    #[arg(long, default_value = "", hide_default_value = true, conflicts_with = "profile")]
    pub knob_faults: String,
    /// Print the last 1,000 changes of the operating point with the policy's reasons, and without
    /// --requests the paper or file that each part of the power comes from.
    #[arg(long, conflicts_with = "profile")]
    pub explain: bool,
    /// Write a page with plots and all figures too; with --interval, also over time.
    #[arg(long, value_name = "FILE", conflicts_with = "profile")]
    pub page: Option<PathBuf>,
    #[command(flatten)]
    pub overwrite: Overwrite,
    /// Seed of all random numbers.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}
