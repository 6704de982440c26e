//! `wattline stats`: the counters of a router.

mod governor;
mod latency;
mod power;

use super::ask::{Daemon, print_json};
use super::top::bits;
use crate::exit::ExitError;
use crate::output;
use power::print_power;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::io::{self, Write};
use wattline_daemon::socket::Request;
use wattline_status::applications::{ApplicationStats, IpsecStats};
use wattline_status::{PortState, RouterStats, Stats};

/// Router to ask, and the form.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    daemon: Daemon,
}

/// Runs the command.
pub fn run(args: &Args, json: bool) -> Result<(), ExitError> {
    let stats: Stats = args.daemon.ask(Request::Stats)?;
    let mut out = output::stdout();
    if json {
        print_json(&mut out, &stats)?;
    } else {
        print(&stats, &mut out)?;
    }
    Ok(())
}

/// Prints statistics as tables.
pub fn print(stats: &Stats, out: &mut impl Write) -> io::Result<()> {
    print_needs_restart(stats.needs_restart(), out)?;
    if let lost @ 1.. = stats.log_lines_lost() {
        writeln!(out, "{lost} lines of the log were lost: standard error could not take them\n")?;
    }
    match stats {
        Stats::Router(stats) => print_router(stats, out),
        Stats::Governor(stats) => governor::print(stats, out),
        Stats::Demonstration(_) => writeln!(out, "a demonstration shows its figures itself"),
    }
}

fn print_router(stats: &RouterStats, out: &mut impl Write) -> io::Result<()> {
    if let Some(seconds) = stats.cleared_seconds_ago {
        writeln!(out, "since counters were cleared {seconds:.0} s ago\n")?;
    }
    writeln!(out, "{:<24} {:>16}", "frames", "packets")?;
    for (name, count) in [
        ("received", stats.received),
        ("generated", stats.generated),
        ("forwarded", stats.forwarded),
        ("punted", stats.punted),
        ("held", stats.held),
    ] {
        writeln!(out, "{name:<24} {count:>16}")?;
    }
    if let count @ 1.. = stats.xdp_forwarded {
        writeln!(out, "{:<24} {count:>16}", "  of these, by XDP")?;
    }
    for (reason, count) in &stats.dropped {
        writeln!(out, "{:<24} {count:>16}", format!("dropped: {reason}"))?;
    }
    // XDP programs pass or drop these before a worker receives them, so no line above counts them.
    for (reason, count) in &stats.xdp_dropped {
        let reason = reason.strip_prefix("xdp-").unwrap_or(reason);
        writeln!(out, "{:<24} {count:>16}", format!("dropped by XDP: {reason}"))?;
    }
    if let count @ 1.. = stats.xdp_passed {
        writeln!(out, "{:<24} {count:>16}", "to the kernel by XDP")?;
    }
    for (kind, count) in stats.losses.iter().filter(|(_, count)| **count > 0) {
        writeln!(out, "{:<24} {count:>16}", format!("lost: {kind}"))?;
    }
    writeln!(
        out,
        "\n{:<16} {:>14} {:>16} {:>14} {:>14} {:>16} {:>14} {:>10}  how",
        "port",
        "in (packets)",
        "in (bytes)",
        "in now",
        "out (packets)",
        "out (bytes)",
        "out now",
        "lost"
    )?;
    // Remarks that several ports share are printed once.
    let mut remarks: Vec<(String, Vec<&str>)> = Vec::new();
    for port in &stats.ports {
        let state = match port.state {
            None | Some(PortState::Up) => String::new(),
            Some(state) if port.reason.is_some() => format!(", {}", state.name().to_uppercase()),
            Some(state) => format!(", {}", state.name()),
        };
        let by_workers = port.xdp_closed_because.iter().map(|why| format!("by workers: {why}"));
        for remark in port.reason.iter().cloned().chain(by_workers) {
            match remarks.iter_mut().find(|(said, _)| *said == remark) {
                Some((_, ports)) => ports.push(&port.name),
                None => remarks.push((remark, vec![&port.name])),
            }
        }
        let counters = &port.counters;
        writeln!(
            out,
            "{:<16} {:>14} {:>16} {:>14} {:>14} {:>16} {:>14} {:>10}  {}{state}",
            port.name,
            counters.received_packets,
            counters.received_bytes,
            bits(port.received_bits_per_second),
            counters.transmitted_packets,
            counters.transmitted_bytes,
            bits(port.transmitted_bits_per_second),
            counters.lost(),
            port.mode,
        )?;
    }
    for (remark, ports) in remarks {
        writeln!(out, "{}: {remark}", ports.join(", "))?;
    }
    writeln!(
        out,
        "\n{:<8} {:>8} {:>14} {:>14} {:>12} {:>12}",
        "worker", "active", "in (packets)", "out (packets)", "busy (%)", "sleeps"
    )?;
    for (index, worker) in stats.workers.iter().enumerate() {
        let all = worker.useful_cycles + worker.empty_cycles + worker.sleeping_cycles;
        let busy = 100.0 * worker.useful_cycles as f64 / all.max(1) as f64;
        let active = match (worker.hangs, worker.active) {
            (true, _) => "HANGS",
            (_, true) => "yes",
            _ => "no",
        };
        writeln!(
            out,
            "{index:<8} {active:>8} {:>14} {:>14} {busy:>12.1} {:>12}",
            worker.received, worker.forwarded, worker.sleeps,
        )?;
    }
    if let Some(not_started) = &stats.workers_not_started {
        writeln!(out, "{}", not_started.because)?;
    }
    if let Some(power) = &stats.power {
        print_power(power, out)?;
    }
    writeln!(out, "\nroutes: {} IPv4, {} IPv6", stats.routes.ipv4, stats.routes.ipv6)?;
    print_applications(&stats.applications, out)
}

fn print_applications(stats: &ApplicationStats, out: &mut impl Write) -> io::Result<()> {
    let stats = serde_json::to_value(stats)?;
    for (name, counted) in stats.as_object().into_iter().flatten() {
        writeln!(out, "\n{name}")?;
        // An application with several sections counts each separately.
        match counted {
            Value::Array(sections) => {
                for section in sections.iter().filter_map(Value::as_object) {
                    tree(section, 1, out)?;
                }
            }
            counted => counted.as_object().into_iter().try_for_each(|it| tree(it, 1, out))?,
        }
    }
    Ok(())
}

/// Prints the security associations.
pub fn print_ipsec(stats: &IpsecStats, out: &mut impl Write) -> io::Result<()> {
    let stats = serde_json::to_value(stats)?;
    stats.as_object().into_iter().try_for_each(|it| tree(it, 0, out))
}

/// Prints the parts of the configuration that are not in force before a restart.
pub fn print_needs_restart(names: &[String], out: &mut impl Write) -> io::Result<()> {
    match names.is_empty() {
        true => Ok(()),
        false => writeln!(out, "not in force before a restart: {}\n", names.join(", ")),
    }
}

/// An item of an application's list, where it has a name.
#[derive(Deserialize)]
struct Named {
    name: String,
}

/// Prints the counters of an application: a line for each value and for each list of values; nested
/// items follow one by one, with their names.
fn tree(values: &Map<String, Value>, depth: usize, out: &mut impl Write) -> io::Result<()> {
    let indent = depth * 2;
    for (key, value) in values {
        match value {
            Value::Object(values) => {
                writeln!(out, "{:indent$}{key}", "")?;
                tree(values, depth + 1, out)?;
            }
            Value::Array(items) if items.iter().any(Value::is_object) => {
                for item in items {
                    match Named::deserialize(item) {
                        Ok(Named { name }) => writeln!(out, "{:indent$}{key} {name}", "")?,
                        Err(_) => writeln!(out, "{:indent$}{key}", "")?,
                    }
                    let values = item.as_object().into_iter();
                    values.into_iter().try_for_each(|values| tree(values, depth + 1, out))?;
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
    use wattline_status::applications::{AclRule, AclStats, EncoderStats};
    use wattline_status::{Details, HostStatus, KernelShare, PortStats, Power, Stuck};

    fn printed(stats: RouterStats) -> String {
        let mut text = Vec::new();
        print(&Stats::Router(Box::new(stats)), &mut text).unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn lists_are_shown_with_their_values_and_items_with_their_names() {
        let rule = |name: &str, on: &[&str], protocol: &[u8]| AclRule {
            name: name.to_owned(),
            on: on.iter().map(|it| (*it).to_owned()).collect(),
            packets: 7,
            protocol: protocol.to_vec(),
            ..AclRule::default()
        };
        let rules = vec![rule("web", &["a", "b"], &[6, 17]), rule("rest", &[], &[])];
        let encoder = |stream| EncoderStats { stream, ..EncoderStats::default() };
        let applications = ApplicationStats {
            acl: Some(AclStats { rules, total: 2, ..AclStats::default() }),
            redundancy_encode: Some(vec![encoder(3), encoder(4)]),
            ..ApplicationStats::default()
        };
        let text = printed(RouterStats { applications, ..RouterStats::default() });
        let lines: Vec<String> = text
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        let place = |line: &str| lines.iter().position(|it| it == line).expect(line);
        let web = ["acl", "rules web", "name web", "on a, b", "packets 7", "protocol 6, 17"];
        assert!(web.map(place).is_sorted(), "{text}");
        let rest = ["protocol 6, 17", "rules rest", "name rest", "on -", "total 2"];
        assert!(rest.map(place).is_sorted(), "{text}");
        let sections = ["redundancy_encode", "stream 3", "stream 4"];
        assert!(sections.map(place).is_sorted(), "{text}");
    }

    /// Workers cannot see these packets; access lists apply to them nonetheless.
    #[test]
    fn xdp_drops_are_shown_next_to_worker_drops() {
        let port = PortStats {
            name: "a".to_owned(),
            received_bits_per_second: Some(2.5e9),
            ..PortStats::default()
        };
        let text = printed(RouterStats {
            dropped: [("truncated".to_owned(), 2)].into(),
            xdp_dropped: [("xdp-no-worker".to_owned(), 200)].into(),
            xdp_passed: 3,
            losses: [("flow-records-overload".to_owned(), 7)].into(),
            ports: vec![port],
            ..RouterStats::default()
        });
        let lines: Vec<Vec<&str>> =
            text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert!(lines.contains(&vec!["dropped:", "truncated", "2"]), "{text}");
        assert!(lines.contains(&vec!["dropped", "by", "XDP:", "no-worker", "200"]), "{text}");
        assert!(lines.contains(&vec!["to", "the", "kernel", "by", "XDP", "3"]), "{text}");
        assert!(lines.contains(&vec!["lost:", "flow-records-overload", "7"]), "{text}");
        let port = lines.iter().find(|line| line.first() == Some(&"a")).unwrap();
        assert_eq!(port[3..5], ["2.50", "Gbit/s"], "{text}");
    }

    #[test]
    fn the_kernels_share_and_troubles_of_a_governed_machine_are_shown() {
        let power = |policy: &str, host| Power {
            policy: policy.to_owned(),
            details: Details { host: Some(host), ..Details::default() },
            ..Power::default()
        };
        let host = HostStatus {
            kernel: vec![KernelShare {
                worker: 1,
                cpu: 3,
                softirq_share: 0.25,
                ksoftirqd_share: 0.15,
                napi_share: 0.05,
            }],
            missing: vec!["cores: no table".to_owned()],
            troubles: vec!["CPU 3 is off-line".to_owned()],
            stuck: vec![Stuck { setting: "/sys/a".to_owned(), stuck_seconds: 7.4 }],
            waited_at_moves_packets: 12,
            ..HostStatus::default()
        };
        let power_of = |power| RouterStats { power: Some(power), ..RouterStats::default() };
        let text = printed(power_of(power("queue-length", host)));
        let row: Vec<&str> = text
            .lines()
            .filter(|line| line.starts_with("1 "))
            .flat_map(str::split_whitespace)
            .collect();
        assert_eq!(row, ["1", "3", "25.0", "15.0", "5.0"], "{text}");
        assert!(text.contains("not governed: cores: no table"), "{text}");
        assert!(text.contains("trouble: CPU 3 is off-line"), "{text}");
        assert!(text.contains("left out: /sys/a: its driver has not answered for 7 s"), "{text}");
        assert!(text.contains("12 packets waited where table entries moved"), "{text}");
        let none = printed(power_of(power("ondemand", HostStatus::default())));
        assert!(!none.contains("softirq") && !none.contains("packets waited"), "{none}");
        assert!(none.contains("power unknown: no meter, "), "{none}");
    }
}
