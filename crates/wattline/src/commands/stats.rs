//! `wattline stats`: the counters of a router.

mod governor;
mod latency;
mod power;

use super::ask::Which;
use crate::exit::ExitError;
use crate::output;
use power::{number, print_power};
use serde_json::Value;
use std::io::{self, Write};
use wattline_daemon::socket::Request;
use wattline_xdp::Verdict;

/// Which router.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    which: Which,
}

/// Runs the command.
pub fn run(args: &Args, json: bool) -> Result<(), ExitError> {
    let stats = args.which.ask(Request::Stats)?;
    let mut out = output::stdout();
    if json {
        writeln!(out, "{stats:#}")?;
    } else {
        print(&stats, &mut out)?;
    }
    Ok(())
}

/// The counters as tables.
pub fn print(stats: &Value, out: &mut impl Write) -> io::Result<()> {
    print_needs_restart(stats, out)?;
    if let Some(lost @ 1..) = stats["log_lines_lost"].as_u64() {
        writeln!(out, "{lost} lines of the log were lost: standard error could not take them\n")?;
    }
    if stats["govern"].is_object() {
        return governor::print(stats, out);
    }
    if let Some(seconds) = stats["cleared_seconds_ago"].as_f64() {
        writeln!(out, "since counters were cleared {seconds:.0} s ago\n")?;
    }
    writeln!(out, "{:<24} {:>16}", "frames", "packets")?;
    for key in ["received", "generated", "forwarded", "punted", "held"] {
        writeln!(out, "{key:<24} {:>16}", number(&stats[key]))?;
    }
    if let Some(count @ 1..) = stats["xdp_forwarded"].as_u64() {
        writeln!(out, "{:<24} {count:>16}", "  of these, by XDP")?;
    }
    for (reason, count) in stats["dropped"].as_object().into_iter().flatten() {
        writeln!(out, "{:<24} {:>16}", format!("dropped: {reason}"), number(count))?;
    }
    // XDP programs drop these before anybody receives them, so that they are in no line above.
    for verdict in Verdict::ALL.map(Verdict::name) {
        let Some(reason) = verdict.strip_suffix("_dropped") else { continue };
        let ports = stats["ports"].as_array().into_iter().flatten();
        let count: u64 = ports.map(|port| number(&port["verdicts"][verdict])).sum();
        if count > 0 {
            let reason = reason.replace('_', "-");
            writeln!(out, "{:<24} {count:>16}", format!("dropped by XDP: {reason}"))?;
        }
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
        let state = match (port["state"].as_str(), port["reason"].as_str()) {
            (None | Some("up"), None) => String::new(),
            (None | Some("up"), Some(reason)) => format!(", {reason}"),
            (Some(state), None) => format!(", {state}"),
            (Some(state), Some(reason)) => format!(", {}: {reason}", state.to_uppercase()),
        };
        let workers = (port["xdp_closed_because"].as_str())
            .map_or_else(String::new, |why| format!(", by workers: {why}"));
        writeln!(
            out,
            "{:<16} {:>14} {:>16} {:>14} {:>16} {lost:>10}  {}{state}{workers}",
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
        let cycles = |kind: &str| number(&worker[kind]) as f64;
        let useful = cycles("useful_cycles");
        let all = useful + cycles("empty_cycles") + cycles("sleeping_cycles");
        let busy = 100.0 * useful / all.max(1.0);
        writeln!(
            out,
            "{index:<8} {:>8} {:>14} {:>14} {busy:>12.1} {:>12}",
            match (&worker["hangs"], &worker["active"]) {
                (Value::Bool(true), _) => "HANGS",
                (_, Value::Bool(true)) => "yes",
                _ => "no",
            },
            number(&worker["received"]),
            number(&worker["forwarded"]),
            number(&worker["sleeps"]),
        )?;
    }
    if let Some(why) = stats["workers_not_started"]["because"].as_str() {
        writeln!(out, "{why}")?;
    }
    if !stats["power"].is_null() {
        print_power(&stats["power"], out)?;
    }
    let routes = &stats["routes"];
    writeln!(out, "\nroutes: {} IPv4, {} IPv6", number(&routes["ipv4"]), number(&routes["ipv6"]))?;
    for (name, counted) in stats["applications"].as_object().into_iter().flatten() {
        writeln!(out, "\n{name}")?;
        // An application with several sections counts each by itself.
        match counted.as_array() {
            Some(sections) => {
                for section in sections {
                    tree(section, 1, out)?;
                }
            }
            None => tree(counted, 1, out)?,
        }
    }
    Ok(())
}

/// Parts of the configuration that are not in force before a restart.
pub fn print_needs_restart(answer: &Value, out: &mut impl Write) -> io::Result<()> {
    let names = answer["needs_restart"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let names: Vec<&str> = names.collect();
    match names.is_empty() {
        true => Ok(()),
        false => writeln!(out, "not in force before a restart: {}\n", names.join(", ")),
    }
}

/// What an application counts, as it says it: a line for each value and for each list of values;
/// items that hold more come one by one, with their names.
pub fn tree(value: &Value, depth: usize, out: &mut impl Write) -> io::Result<()> {
    let indent = depth * 2;
    for (key, value) in value.as_object().into_iter().flatten() {
        match value {
            Value::Object(_) => {
                writeln!(out, "{:indent$}{key}", "")?;
                tree(value, depth + 1, out)?;
            }
            Value::Array(items) if items.iter().any(Value::is_object) => {
                for item in items {
                    match item["name"].as_str() {
                        Some(name) => writeln!(out, "{:indent$}{key} {name}", "")?,
                        None => writeln!(out, "{:indent$}{key}", "")?,
                    }
                    tree(item, depth + 1, out)?;
                }
            }
            Value::Array(items) => {
                let said = items.iter().map(|item| match item {
                    Value::String(text) => text.clone(),
                    other => other.to_string(),
                });
                let said = said.collect::<Vec<_>>().join(", ");
                let said = if said.is_empty() { "-" } else { &said };
                writeln!(out, "{:indent$}{key:<22} {said}", "")?;
            }
            Value::String(text) => writeln!(out, "{:indent$}{key:<22} {text}", "")?,
            _ => writeln!(out, "{:indent$}{key:<22} {value:>16}", "")?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn lists_are_shown_with_their_values_and_items_with_their_names() {
        let rule = |name: &str, on: &[&str], protocol: &[u8]| json!({"name": name, "on": on, "packets": 7, "protocol": protocol});
        let account =
            json!({"rules": [rule("web", &["a", "b"], &[6, 17]), rule("rest", &[], &[])]});
        let mut text = Vec::new();
        tree(&account, 1, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let lines: Vec<String> = text
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        let web = ["rules web", "name web", "on a, b", "packets 7", "protocol 6, 17"];
        let rest = ["rules rest", "name rest", "on -", "packets 7", "protocol -"];
        assert_eq!(lines, [web, rest].concat(), "{text}");
    }

    /// Of packets that no worker can look at, where access lists are to hold.
    #[test]
    fn drops_of_xdp_programs_are_shown_beside_those_of_workers() {
        let port = |dropped: u64| json!({"name": "a", "verdicts": {"no_worker_dropped": dropped, "too_long": 3}});
        let mut text = Vec::new();
        let stats = json!({"dropped": {"truncated": 2}, "ports": [port(180), port(20), port(0)]});
        print(&stats, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let lines: Vec<Vec<&str>> =
            text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert!(lines.contains(&vec!["dropped:", "truncated", "2"]), "{text}");
        assert!(lines.contains(&vec!["dropped", "by", "XDP:", "no-worker", "200"]), "{text}");
        assert!(!text.contains("too-long"), "the kernel has those: {text}");
    }

    #[test]
    fn the_kernels_share_and_troubles_of_a_governed_machine_are_shown() {
        let host = json!({
            "kernel": [{"worker": 1, "cpu": 3, "softirq_share": 0.25, "ksoftirqd_share": 0.15}],
            "missing": ["cores: no table"], "troubles": ["CPU 3 is off-line"],
            "stuck": [{"setting": "/sys/a", "stuck_seconds": 7.4}], "waited_at_moves_packets": 12,
        });
        let mut text = Vec::new();
        print(&json!({"power": {"policy": "powersave", "host": host}}), &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let row: Vec<&str> = text
            .lines()
            .filter(|line| line.starts_with("1 "))
            .flat_map(str::split_whitespace)
            .collect();
        assert_eq!(row, ["1", "3", "25.0", "15.0"], "{text}");
        assert!(text.contains("not governed: cores: no table"), "{text}");
        assert!(text.contains("trouble: CPU 3 is off-line"), "{text}");
        assert!(text.contains("left out: /sys/a: its driver has not answered for 7 s"), "{text}");
        assert!(text.contains("12 packets waited where table entries moved"), "{text}");
        let mut none = Vec::new();
        let power = json!({"policy": "ondemand", "power_watts": null, "source": "unavailable",
                           "accuracy": "unavailable", "host": {"waited_at_moves_packets": 0}});
        print(&json!({"power": power}), &mut none).unwrap();
        let none = String::from_utf8(none).unwrap();
        assert!(!none.contains("softirq") && !none.contains("packets waited"), "{none}");
        assert!(none.contains("power unknown: no meter, "), "{none}");
    }
}
