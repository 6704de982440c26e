//! `wattline stats`: the counters of a router.

use super::ask::Which;
use crate::exit::ExitError;
use serde_json::Value;
use std::io::{self, Write};
use wattline_control::socket::Request;

/// Which router.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    which: Which,
}

/// Runs the command.
pub fn run(args: &Args, json: bool) -> Result<(), ExitError> {
    let stats = args.which.ask(Request::Stats)?;
    let mut out = io::stdout().lock();
    if json {
        writeln!(out, "{stats}")?;
    } else {
        print(&stats, &mut out)?;
    }
    Ok(())
}

/// What the governor does, where there is one.
fn print_power(power: &Value, out: &mut impl Write) -> io::Result<()> {
    let word = |key: &str| power[key].as_str().unwrap_or_default();
    let watts = power["power_watts"].as_f64().map(|watts| format!("{watts:.2} W"));
    writeln!(
        out,
        "\n{} on platform {}: {} ({}, {}), {} of {} cores, {} transitions in {} decisions, {} \
         table entries moved, {} steps altered and {} failed",
        word("policy"),
        word("platform"),
        watts.as_deref().unwrap_or("power unknown"),
        word("source"),
        word("accuracy"),
        power["cores_active"],
        power["cores"],
        power["transitions"],
        power["decisions"],
        power["entries_moved"],
        power["steps_altered"],
        power["steps_failed"],
    )
}

/// The counters as tables.
pub fn print(stats: &Value, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "{:<24} {:>16}", "frames", "packets")?;
    for key in ["received", "generated", "forwarded", "punted", "held"] {
        writeln!(out, "{key:<24} {:>16}", number(&stats[key]))?;
    }
    for (reason, count) in stats["dropped"].as_object().into_iter().flatten() {
        writeln!(out, "{:<24} {:>16}", format!("dropped: {reason}"), number(count))?;
    }
    writeln!(
        out,
        "\n{:<16} {:>14} {:>16} {:>14} {:>16} {:>10}  how",
        "port", "in (packets)", "in (bytes)", "out (packets)", "out (bytes)", "lost"
    )?;
    for port in stats["ports"].as_array().into_iter().flatten() {
        let lost: u64 = ["receive_ring_full", "fill_ring_empty", "receive_invalid"]
            .iter()
            .map(|key| number(&port[*key]))
            .sum();
        let state = match port["state"].as_str() {
            None | Some("up") => String::new(),
            Some("gone") => ", GONE: restart the router once its interface is back".to_owned(),
            Some(state) => format!(", {state}"),
        };
        writeln!(
            out,
            "{:<16} {:>14} {:>16} {:>14} {:>16} {lost:>10}  {}{state}",
            port["name"].as_str().unwrap_or_default(),
            number(&port["received_packets"]),
            number(&port["received_bytes"]),
            number(&port["transmitted_packets"]),
            number(&port["transmitted_bytes"]),
            port["mode"].as_str().unwrap_or_default(),
        )?;
    }
    writeln!(
        out,
        "\n{:<8} {:>8} {:>14} {:>14} {:>12} {:>12}",
        "worker", "active", "in (packets)", "out (packets)", "busy (%)", "sleeps"
    )?;
    for (index, worker) in stats["workers"].as_array().into_iter().flatten().enumerate() {
        let (useful, empty) = (number(&worker["useful_cycles"]), number(&worker["empty_cycles"]));
        let busy = 100.0 * useful as f64 / (useful + empty).max(1) as f64;
        writeln!(
            out,
            "{index:<8} {:>8} {:>14} {:>14} {busy:>12.1} {:>12}",
            if worker["active"] == Value::Bool(true) { "yes" } else { "no" },
            number(&worker["received"]),
            number(&worker["forwarded"]),
            number(&worker["sleeps"]),
        )?;
    }
    if !stats["power"].is_null() {
        print_power(&stats["power"], out)?;
    }
    let routes = &stats["routes"];
    writeln!(out, "\nroutes: {} IPv4, {} IPv6", number(&routes["ipv4"]), number(&routes["ipv6"]))
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}
