//! `wattline sim`: one policy on a server model in virtual time.

use super::sim_requests;
use super::simulation::{self, Problems};
use crate::commands::overwrite::Overwrite;
use crate::commands::results;
use crate::commands::simulation::simulation_error;
use schemars::JsonSchema;
use serde::Serialize;
use std::io::Write;
use std::path::PathBuf;
use wattline::commands::explain;
use wattline::exit::ExitError;
use wattline::progress;
use wattline_governor::decisions::Decision;
use wattline_league::simulated::Simulation;
use wattline_server::Application;
use wattline_sim::{Report, Scenario};
use wattline_units::Span;

/// What to simulate.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Server model: name of a shipped one or a file. Without it westmere-2010, with --requests
    /// xeon-silver-4108.
    #[arg(long)]
    server: Option<String>,
    /// Policy, as NAME or NAME:key=value,key=value (`wattline policies` lists them); NAME may be
    /// followed by a moderation, as in ondemand+84us. Without it queue-length, with --requests
    /// performance+ixgbe.
    #[arg(long)]
    policy: Option<String>,
    /// Traffic, such as `poisson:5Mpps,size=64`, or a TOML file.
    #[arg(long, required_unless_present = "requests")]
    traffic: Option<String>,
    /// Requests to a server on the kernel's stack instead, such as `memcached:700krps` or
    /// `nginx:88krps,burst=4`. Their reports have no --interval.
    #[arg(
        long,
        conflicts_with_all = ["traffic", "interval", "app", "app_costs", "output_links"]
    )]
    requests: Option<String>,
    /// Write profile tables for the policy copi to this file, from 0.25 to 1.3 times the request
    /// rate.
    #[arg(long, value_name = "FILE", requires = "requests")]
    profile: Option<PathBuf>,
    /// Profile only the points that a search picks, at most a tenth of all.
    #[arg(long, requires = "profile")]
    sparse: bool,
    /// Simulated time to report on.
    #[arg(long, default_value = "1s", value_parser = simulation::span)]
    duration: Span,
    /// Simulated time before the measurement. Without it 100ms, with --requests 1s: their policies
    /// decide ten times a second, and what waits until then is served first.
    #[arg(long, value_parser = simulation::span)]
    warmup: Option<Span>,
    /// Also report every interval of this length.
    #[arg(long, value_parser = simulation::span)]
    interval: Option<Span>,
    /// Application that processes each packet: ipv4, netflow, ipsec or re.
    #[arg(long, default_value = "ipv4", value_parser = simulation::application)]
    app: Application,
    /// Costs of the applications: `model` for those of the server's file, or NAME[:ratio|:added]
    /// for costs measured elsewhere (a shipped file or one of `bench costs`), scaled to the server.
    #[arg(long, default_value = "model")]
    app_costs: String,
    /// Model output links too: packets leave by transmit rings and links of the server's rate.
    #[arg(long)]
    output_links: bool,
    /// Knobs that are not ideal, as `KNOB:delay=50us,fail=0.1;KNOB:refuse;KNOB:round=5,dwell=1ms;
    /// budget:rate=100,burst=20`. KNOB is frequency, idle-limit, wait, cores, moderation, batch or
    /// all; with --requests frequency, idle-limit, moderation or all.
    #[arg(long, default_value = "", hide_default_value = true, conflicts_with = "profile")]
    knob_faults: String,
    /// Print the last 1,000 changes of the operating point with the policy's reasons.
    #[arg(long, conflicts_with = "profile")]
    explain: bool,
    /// Write a page with plots and all figures too; with --interval, also over time.
    #[arg(long, value_name = "FILE", conflicts_with = "profile")]
    page: Option<PathBuf>,
    #[command(flatten)]
    overwrite: Overwrite,
    /// Seed of all random numbers.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Simulation")]
pub struct Output<'a> {
    server: &'a str,
    policy: &'a str,
    traffic: &'a str,
    application: Application,
    seed: u64,
    output_links: bool,
    #[serde(skip_serializing_if = "str::is_empty")]
    knob_faults: &'a str,
    /// What stands in for something else.
    notes: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_changes: Option<Vec<Decision>>,
    #[serde(flatten)]
    report: Report,
}

/// Runs the command.
pub fn run(args: &Args, json: bool) -> Result<(), ExitError> {
    args.overwrite
        .check([&args.profile, &args.page].into_iter().flatten().map(PathBuf::as_path))?;
    if let Some(requests) = &args.requests {
        return sim_requests::run(
            &sim_requests::Wanted {
                server: args.server.as_deref(),
                policy: args.policy.as_deref(),
                requests,
                duration: args.duration,
                warmup: args.warmup.unwrap_or(Span::from_millis(1_000)),
                seed: args.seed,
                knob_faults: &args.knob_faults,
                profile: args.profile.as_ref(),
                sparse: args.sparse,
                explain: args.explain,
                page: args.page.as_deref(),
                overwrite: args.overwrite,
            },
            json,
        );
    }
    let mut problems = Problems::default();
    let policy_text = args.policy.as_deref().unwrap_or("queue-length");
    let traffic_text = args.traffic.as_deref().unwrap_or_default();
    let server = simulation::server(args.server.as_deref().unwrap_or("westmere-2010"))
        .and_then(|server| simulation::with_costs(&server, &args.app_costs));
    let server = problems.keep(server);
    let policy = problems.keep(simulation::policy(policy_text));
    let traffic = problems.keep(simulation::traffic(traffic_text));
    let knobs = problems.keep(simulation::knobs(&args.knob_faults));
    if args.duration == Span::ZERO {
        problems.note(ExitError::USAGE, "duration: 0s is not above zero; allowed: 1ns to 10d");
    }
    problems.check()?;
    let (Some(server), Some(policy), Some(traffic), Some(knobs)) = (server, policy, traffic, knobs)
    else {
        return Ok(());
    };
    let policy_text = policy.to_string();
    let scaled = (args.app_costs != "model").then(|| server.description.clone());
    let scenario = Scenario {
        server: &server,
        application: args.app,
        policy,
        traffic: &traffic,
        duration: args.duration,
        warmup: args.warmup.unwrap_or(Span::from_millis(100)),
        interval: args.interval,
        output_links: args.output_links,
        seed: args.seed,
        profile: false,
    };
    let mut report =
        progress::during("simulating", || scenario.run_on(knobs)).map_err(simulation_error)?;
    let last_changes = args.explain.then(|| std::mem::take(&mut report.last_changes));
    let result = Output {
        server: &server.name,
        policy: &policy_text,
        traffic: traffic_text,
        application: args.app,
        seed: args.seed,
        output_links: args.output_links,
        knob_faults: &args.knob_faults,
        notes: traffic
            .notes()
            .into_iter()
            .chain(scaled)
            .chain(traffic.part_of_day(args.duration))
            .collect(),
        last_changes,
        report,
    };
    let written = match &args.page {
        Some(path) => args.overwrite.write(path, &page(args, &result)),
        None => Ok(()),
    };
    let page = args.page.as_deref();
    results::print_with_page((page, written), &result, json, |out, result| table(out, result))
}

fn page(args: &Args, output: &Output<'_>) -> String {
    let mut variations = Vec::new();
    if output.output_links {
        variations.push("output links are modelled".to_owned());
    }
    if !output.knob_faults.is_empty() {
        variations.push(format!("knobs: {}", output.knob_faults));
    }
    if args.app_costs != "model" {
        variations.push(format!("costs of applications: {}", args.app_costs));
    }
    Simulation {
        server: output.server,
        policy: output.policy,
        traffic: output.traffic,
        application: output.application.name(),
        seed: output.seed,
        variations: &variations,
        notes: &output.notes,
        changes: output.last_changes.as_deref().unwrap_or_default(),
        command: &results::command_line(),
        report: &output.report,
    }
    .html()
}

fn table(out: &mut impl Write, output: &Output<'_>) -> std::io::Result<()> {
    let report = &output.report;
    writeln!(
        out,
        "{} under {} with {} ({}), seed {}: {} s simulated",
        output.server,
        output.policy,
        output.traffic,
        output.application,
        output.seed,
        report.duration_seconds
    )?;
    for note in &output.notes {
        writeln!(out, "note: {note}")?;
    }
    let mut row = |name: &str, value: String| writeln!(out, "{name:<28} {value}");
    let micros = |seconds: Option<f64>| match seconds {
        Some(seconds) => format!("{:.2} us", seconds * 1e6),
        None => "-".into(),
    };
    row(
        "offered",
        format!("{} packets, {:.4} Mpps", report.offered_packets, report.offered_rate_pps / 1e6),
    )?;
    if report.beyond_link_packets > 0 {
        row("  beyond the links", format!("{} packets, not offered", report.beyond_link_packets))?;
    }
    row(
        "forwarded",
        format!(
            "{} packets, {:.4} Mpps",
            report.forwarded_packets,
            report.forwarded_rate_pps / 1e6
        ),
    )?;
    if report.forwarded_packets + report.dropped_packets > report.offered_packets {
        row("", "what came in the warm-up and left after it is among them".to_owned())?;
    }
    row("dropped, ring full", format!("{} packets", report.dropped_packets))?;
    if output.output_links {
        row("  of them at output links", format!("{} packets", report.dropped_at_output_packets))?;
    }
    row("reordered", format!("{} packets", report.reordered_packets))?;
    row(
        "held back",
        format!(
            "{} packets, {:.2} us at most; {} would have been overtaken",
            report.held_packets,
            report.hold_max_seconds * 1e6,
            report.reordered_unless_held_packets
        ),
    )?;
    row("latency min", micros(report.latency_min_seconds))?;
    row("latency mean", micros(report.latency_mean_seconds))?;
    row("latency p50", micros(report.latency_p50_seconds))?;
    row("latency p95", micros(report.latency_p95_seconds))?;
    row("latency p99", micros(report.latency_p99_seconds))?;
    row("latency p99.9", micros(report.latency_p999_seconds))?;
    row("power", format!("{:.2} W ({}, {})", report.power_watts, report.source, report.accuracy))?;
    for (component, watts) in report.power_by_component_watts.parts() {
        row(&format!("  {}", component.name()), format!("{:.2} W", watts.0))?;
    }
    row("energy", format!("{:.3} J", report.energy_joules))?;
    if let Some(joules) = report.energy_per_packet_joules {
        row("energy per packet", format!("{:.3} uJ", joules * 1e6))?;
    }
    row("active cores, mean", format!("{:.3}", report.cores_active_mean))?;
    row("frequency, mean", format!("{:.3} GHz", report.frequency_mean_hertz / 1e9))?;
    row("transitions", format!("{}", report.transitions))?;
    row("reaction, mean", micros(report.reaction_mean_seconds))?;
    if let Some(interrupts) = report.interrupts_per_packet {
        row("interrupts per packet", format!("{interrupts:.4}"))?;
    }
    for knob in &report.knobs {
        let (name, value) = simulation::steps_of(knob);
        row(&name, value)?;
    }
    row(
        "simulated in",
        format!(
            "{:.3} s, {:.2} million packets per second",
            report.wall_seconds,
            report.simulated_packets_per_second / 1e6
        ),
    )?;
    if let Some(changes) = &output.last_changes {
        writeln!(out)?;
        explain::print(changes, out)?;
    }
    intervals(out, &report.intervals)
}

/// A line for each interval, where they were asked for.
fn intervals(out: &mut impl Write, intervals: &[Report]) -> std::io::Result<()> {
    if intervals.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "\n{:>10} {:>14} {:>16} {:>17} {:>9} {:>9} {:>7} {:>7}",
        "from (s)",
        "offered (Mpps)",
        "forwarded (Mpps)",
        "dropped (packets)",
        "p99 (us)",
        "power (W)",
        "cores",
        "GHz"
    )?;
    for interval in intervals {
        let p99 =
            interval.latency_p99_seconds.map_or("-".into(), |p99| format!("{:.2}", p99 * 1e6));
        writeln!(
            out,
            "{:>10.4} {:>14.4} {:>16.4} {:>17} {p99:>9} {:>9.2} {:>7.2} {:>7.3}",
            interval.from_seconds,
            interval.offered_rate_pps / 1e6,
            interval.forwarded_rate_pps / 1e6,
            interval.dropped_packets,
            interval.power_watts,
            interval.cores_active_mean,
            interval.frequency_mean_hertz / 1e9,
        )?;
    }
    Ok(())
}
