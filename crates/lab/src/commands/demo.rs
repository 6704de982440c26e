//! `wattline demo`: a day in miniature under several policies, then real traffic through the kernel
//! and through Wattline.

use super::simulation::{self, Problems};
use crate::commands::errors::demo_error;
use crate::commands::errors::testbed_error;
use crate::commands::overwrite::Overwrite;
use serde::Serialize;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;
use wattline::commands::dashboard::{Dashboard, Listening};
use wattline::commands::run;
use wattline::exit::ExitError;
use wattline::new_file::cannot_write;
use wattline::{laboratory, output};
use wattline_daemon::settings::parse_duration;
use wattline_demo::compare::{self, Settings};
use wattline_demo::day;
use wattline_demo::watch::Watch;
use wattline_testbed::forwarder::Mode;
use wattline_testbed::leftovers::clean_up_on_signals;
use wattline_testbed::probe::Load;

/// Name of the page with the plots.
const PAGE: &str = "wattline-demo.html";

/// Demonstration and its duration.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Show only one part.
    #[arg(long, value_enum)]
    only: Option<Part>,
    /// Duration of a day under each policy.
    #[arg(long, default_value = "45s", value_parser = duration)]
    duration: Duration,
    /// Policies of the day, as NAME or NAME:key=value,key=value, separated by commas.
    #[arg(long, default_value = "poll,napi,queue-length,wattline")]
    policies: String,
    /// Factor by which the server runs slower than its model: more on a busy machine.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    scale: u32,
    /// Seed of all random numbers in the day.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Mean load of the day: a share of the links, or a rate such as 5Mpps.
    #[arg(long, default_value = "35%")]
    load: String,
    /// Lengths of the day's packets, as in `wattline sim --traffic`.
    #[arg(long, default_value = "imix")]
    size: String,
    /// Server model of the day: name of a shipped one or a file.
    #[arg(long, default_value = "westmere-2010")]
    server: String,
    /// Directory for the page with the day's plots, wattline-demo.html; an existing one is
    /// replaced.
    #[arg(long, value_name = "DIR", default_value = ".")]
    out: PathBuf,
    /// Duration of each traffic under kernel and Wattline in the comparison.
    #[arg(long, default_value = "5s", value_parser = duration)]
    compare_duration: Duration,
    /// Packets per second offered in the comparison.
    #[arg(long, default_value_t = 20_000.0)]
    rate: f64,
    /// Flows of the mix; every other one is IPv6.
    #[arg(long, default_value_t = 64)]
    flows: u16,
    /// Captures (pcap or pcapng) whose packets are forwarded too, separated by commas.
    #[arg(long, value_name = "FILE", value_delimiter = ',')]
    capture: Vec<PathBuf>,
    /// Idle mode of Wattline's worker.
    #[arg(long, value_enum, default_value_t = ModeArgument::Adaptive)]
    mode: ModeArgument,
    #[command(flatten)]
    dashboard: Dashboard,
}

/// A part of the demonstration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// The day in miniature under several policies, with power.
    Day,
    /// Kernel and Wattline in network namespaces.
    Compare,
}

/// [`Mode`] on the command line.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum ModeArgument {
    /// Polls its queues all the time.
    Poll,
    /// Blocks until something arrives.
    Interrupt,
    /// Polls while there is work, then blocks.
    Adaptive,
}

fn duration(text: &str) -> Result<Duration, String> {
    parse_duration(text)
        .filter(|duration| (1..=3600).contains(&duration.as_secs()))
        .ok_or_else(|| "a duration from 1s to 1h, such as 20s or 2min, is expected".to_owned())
}

/// Result of both parts.
#[derive(Serialize)]
struct DemoOutput {
    #[serde(skip_serializing_if = "Option::is_none")]
    day: Option<day::Report>,
    /// Page of the plots.
    #[serde(skip_serializing_if = "Option::is_none")]
    page: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    comparison: Option<compare::Report>,
}

/// Runs the command.
pub fn run(args: Args, json: bool) -> Result<(), ExitError> {
    let dashboard = args.dashboard.open()?;
    let day = (args.only != Some(Part::Compare)).then(|| day_settings(&args)).transpose()?;
    let page = args.out.join(PAGE);
    if day.is_some() {
        // Checked before minutes of work.
        std::fs::create_dir_all(&args.out).map_err(|error| cannot_write(&args.out, &error))?;
    }
    let comparison =
        (args.only != Some(Part::Day)).then(|| comparison_settings(args)).transpose()?;
    let watch = watched(dashboard, day.as_ref(), comparison.is_some())?;
    clean_up_on_signals(|| show(day.as_ref(), &page, comparison.as_ref(), &watch, json))
        .map_err(testbed_error)?
}

/// Serves one dashboard through all stages, if requested.
fn watched(
    dashboard: Listening,
    day: Option<&day::Settings>,
    comparison: bool,
) -> Result<Watch, ExitError> {
    if !dashboard.is_wanted() {
        return Ok(Watch::default());
    }
    let _logging = run::log_to_standard_error()?;
    let days = day.map_or(0, |day| day.policies.len());
    let watch = Watch::new(days + if comparison { compare::stages() } else { 0 });
    let served = watch.clone();
    dashboard.show("demonstration", move || served.stats())?;
    Ok(watch)
}

fn show(
    day: Option<&day::Settings>,
    page: &Path,
    comparison: Option<&Settings>,
    watch: &Watch,
    json: bool,
) -> Result<(), ExitError> {
    let mut shown = DemoOutput { day: None, page: None, comparison: None };
    let mut written = Ok(());
    if let Some(settings) = day {
        let report = day::run(settings, watch).map_err(demo_error)?;
        let made = day::page(&report);
        let text = made.plain().to_owned();
        written = Overwrite::REPLACE.write(page, &made.end());
        if !json {
            output::print(&report, json, |out, _| {
                writeln!(out, "{text}")?;
                if written.is_ok() { writeln!(out, "Plots: {}\n", page.display()) } else { Ok(()) }
            })?;
        }
        (shown.day, shown.page) = (Some(report), written.is_ok().then(|| page.to_owned()));
    }
    if let Some(settings) = comparison {
        let report = compare::run(settings, watch).map_err(testbed_error)?;
        if !json {
            output::print(&report, json, |out, report| {
                writeln!(out, "Real time: the kernel and Wattline, one processor's work each")?;
                write!(out, "{report}")
            })?;
        }
        shown.comparison = Some(report);
    }
    if json {
        output::print(&shown, json, |_, _| Ok(()))?;
    }
    written.map_err(ExitError::after_result)?;
    match shown.day.map(|day| day.failures).filter(|failures| !failures.is_empty()) {
        Some(failures) => Err(ExitError::new(ExitError::DATA, failures.join("\n"))),
        None => Ok(()),
    }
}

fn day_settings(args: &Args) -> Result<day::Settings, ExitError> {
    let mut problems = Problems::default();
    let server = problems.keep(simulation::server(&args.server));
    let policies: Vec<_> = simulation::split(&args.policies)
        .iter()
        .filter_map(|text| problems.keep(simulation::policy(text)))
        .collect();
    let traffic = day::traffic(&args.load, &args.size, args.duration, args.scale);
    problems.keep(simulation::traffic(&traffic));
    problems.check()?;
    // Without a server, a problem has been noted.
    let server = server.ok_or_else(|| ExitError::new(ExitError::CONFIG, "no server"))?;
    Ok(day::Settings {
        server,
        policies,
        load: args.load.clone(),
        size: args.size.clone(),
        duration: args.duration,
        dilation: args.scale,
        seed: args.seed,
    })
}

fn comparison_settings(args: Args) -> Result<Settings, ExitError> {
    let binary = laboratory::operator();
    let load = Load { rate_pps: args.rate, duration: args.compare_duration, flows: args.flows };
    let mode = match args.mode {
        ModeArgument::Poll => Mode::Poll,
        ModeArgument::Interrupt => Mode::Interrupt,
        ModeArgument::Adaptive => Mode::Adaptive,
    };
    Ok(Settings { load, captures: args.capture, mode, binary })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_separate_policies_and_parameters() {
        assert_eq!(simulation::split("poll, napi,queue-length"), ["poll", "napi", "queue-length"]);
        assert_eq!(
            simulation::split("napi:cores=2,idle=C1,poll:cores=1"),
            ["napi:cores=2,idle=C1", "poll:cores=1"]
        );
        assert_eq!(simulation::split(""), [""]);
    }
}
