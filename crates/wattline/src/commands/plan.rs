//! `wattline plan`: writes that a governor would make on this machine, and packets that a router
//! would leave to the kernel.

use super::block;
use super::root::Root;
use crate::applications;
use crate::exit::ExitError;
use crate::output;
use crate::platforms::{PlanError, plan};
use serde::Serialize;
use serde_json::json;
use std::io::Write;
use std::path::{Path, PathBuf};
use wattline_govern::config::Config as Governor;
use wattline_govern::{GovernPlan, GovernPlanError};
use wattline_host::PowerPlan;
use wattline_policies::POLICIES;
use wattline_status::PortPlan;
use wattline_status::applications::BlockPlan;

/// Number of values of a setting, or prefixes, shown to a person; the JSON has all.
const VALUES_SHOWN: usize = 6;
/// Longest value shown to a person: an indirection table can be of any length.
const LONGEST_VALUE: usize = 40;

/// Configuration and machine to plan for.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The configuration (TOML) of a router; with --govern, of `wattline govern`, or none for its
    /// built-in profile.
    #[arg(required_unless_present = "govern")]
    config: Option<PathBuf>,
    /// Plan for `wattline govern` instead of a router.
    #[arg(long)]
    govern: bool,
    #[command(flatten)]
    root: Root,
}

/// Runs the command.
pub fn run(args: &Args, json: bool) -> Result<(), ExitError> {
    let tree = args.root.tree()?;
    if args.govern {
        let path = args.config.as_deref();
        let config = match path {
            Some(path) => Governor::load(path, POLICIES)?,
            None => Governor::built_in(POLICIES),
        };
        output::write_notes(&config.notes);
        let plan = wattline_govern::plan(&config, &tree).map_err(of_machine)?;
        return output::print(&plan, json, print_govern);
    }
    // Clap has checked that the path is there.
    let path = args.config.as_deref().unwrap_or(Path::new(""));
    let config = applications::load(path)?;
    output::write_notes(&config.notes);
    let block = block::plan(&config);
    let drivers = wattline_router::drivers::refusals(&config, &tree);
    // A recorded tree has no rules.
    let ports =
        if args.root.is_recorded() { Vec::new() } else { wattline_router::plan_ports(&config)? };
    let Some(plan) = plan(&config, &tree)? else {
        let none = json!({ "platform": "none", "at_start": [], "later": [] });
        return output::print(&Whole { plan: none, block, drivers, ports }, json, |out, whole| {
            print_router(out, whole)?;
            writeln!(out, "no setting would be written: [power] platform is not \"host\"")
        });
    };
    output::print(&Whole { plan, block, drivers, ports }, json, |out, whole| {
        print(out, &whole.plan)?;
        print_router(out, whole)
    })
}

/// Changes that a router would make to this machine.
#[derive(Serialize)]
struct Whole<P> {
    #[serde(flatten)]
    plan: P,
    /// The traffic that the kernel would block.
    #[serde(skip_serializing_if = "Option::is_none")]
    block: Option<BlockPlan>,
    /// Modes that drivers are known to fail in, by port.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    drivers: Vec<String>,
    /// Ports, with the traffic that would be left to the kernel.
    ports: Vec<PortPlan>,
}

/// Prints the actions of a router other than turning knobs.
fn print_router<P>(out: &mut impl Write, whole: &Whole<P>) -> std::io::Result<()> {
    whole.block.iter().try_for_each(|block| block::print_plan(out, block))?;
    whole.drivers.iter().try_for_each(|line| writeln!(out, "{line}"))?;
    print_ports(out, &whole.ports)
}

/// Prints the fate of each port, then the effect of flowtables, once for all ports it applies to.
fn print_ports(out: &mut impl Write, ports: &[PortPlan]) -> std::io::Result<()> {
    ports.iter().try_for_each(|port| print_port(out, port))?;
    let mut flowtables: Vec<(&str, Vec<&str>)> = Vec::new();
    for port in ports {
        let Some(flowtable) = &port.flowtable else { continue };
        match flowtables.iter_mut().find(|(known, _)| known == flowtable) {
            Some((_, names)) => names.push(&port.name),
            None => flowtables.push((flowtable, vec![&port.name])),
        }
    }
    for (flowtable, ports) in flowtables {
        let text = flowtable.replace("to add one: ", "to add one:\n    ").replace(" && ", "\n    ");
        writeln!(out, "{}: {text}", ports.join(", "))?;
    }
    Ok(())
}

fn print_port(out: &mut impl Write, port: &PortPlan) -> std::io::Result<()> {
    let PortPlan { name, is_absent, left_because, left_prefixes, prefixes_because, .. } = port;
    let fate = if port.is_guarded {
        "not forwarded, since an application judges them"
    } else {
        "the kernel's"
    };
    match left_because {
        _ if *is_absent => writeln!(out, "port {name}: its interface is absent")?,
        Some(why) => writeln!(out, "port {name}: all packets are {fate}: {why}")?,
        None if left_prefixes.is_empty() => writeln!(out, "port {name}: Wattline forwards")?,
        None => writeln!(
            out,
            "port {name}: Wattline forwards, but packets from and to {} are {fate}: {}",
            prefixes(left_prefixes),
            prefixes_because.join("; ")
        )?,
    }
    Ok(())
}

/// Lists prefixes; if there are many, only the first and their number.
fn prefixes(all: &[String]) -> String {
    let shown = all.iter().take(VALUES_SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
    match all.len().saturating_sub(VALUES_SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more prefixes"),
    }
}

/// Prints the actions of a governor, with reasons.
fn print_govern(out: &mut impl Write, plan: &GovernPlan) -> std::io::Result<()> {
    for line in plan.intent.iter().map(String::as_str).chain(plan.remedies.iter().copied()) {
        writeln!(out, "{line}")?;
    }
    writeln!(out)?;
    print(out, &plan.plan)
}

pub(super) fn of_machine(error: GovernPlanError) -> ExitError {
    let code = match error {
        GovernPlanError::Plan(wattline_host::PlanError::Platform(_)) => ExitError::UNAVAILABLE,
        _ => ExitError::CONFIG,
    };
    ExitError::new(code, error)
}

fn print(out: &mut impl Write, plan: &PowerPlan) -> std::io::Result<()> {
    writeln!(out, "policy {}; nothing has been written\n", plan.policy)?;
    match (plan.at_start.is_empty(), plan.later.is_empty()) {
        (true, true) => writeln!(out, "no file would be written, now or later")?,
        (true, false) => writeln!(out, "at the start: nothing, all is as wanted")?,
        (false, _) => writeln!(out, "at the start:")?,
    }
    let at_start = plan.at_start.iter().map(|write| {
        let (from, to) = (shortened(&write.present), shortened(&write.value));
        let direction = write.direction.words();
        (write.setting.to_string(), format!("{from} -> {to} ({direction}: {})", write.why))
    });
    for (settings, change) in grouped(at_start) {
        writeln!(out, "  {settings}: {change}")?;
    }
    if !plan.later.is_empty() {
        let most = plan.writes_per_second.map(|most| match most {
            most if most >= 1.0 => format!(", at most {most:.0} writes a second"),
            most => format!(", at most {:.0} writes a minute", (most * 60.0).ceil()),
        });
        writeln!(out, "later, as the policy decides{}:", most.unwrap_or_default())?;
    }
    let later = plan.later.iter().map(|write| {
        let values = write.values.iter().zip(&write.directions).take(VALUES_SHOWN);
        let shown = values
            .map(|(value, direction)| format!("{} ({})", shortened(value), direction.words()));
        let shown: Vec<String> = shown.collect();
        let more = write.values.len().saturating_sub(VALUES_SHOWN);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let mut why = write.why.clone();
        if write.write_cost > 1 {
            why.push_str(&format!("; counts as {} writes", write.write_cost));
        }
        if write.dwell_seconds > 0.0 {
            why.push_str(&format!("; stays for {:.0} us", write.dwell_seconds * 1e6));
        }
        (write.setting.to_string(), format!("{}{more} ({why})", shown.join(" | ")))
    });
    for (settings, change) in grouped(later) {
        writeln!(out, "  {settings}: {change}")?;
    }
    for kept in &plan.kept {
        writeln!(out, "saves more already: {kept}")?;
    }
    for (head, lines) in [("not governed", &plan.missing), ("would fail", &plan.problems)] {
        for line in lines {
            writeln!(out, "{head}: {line}")?;
        }
    }
    for rival in &plan.rivals {
        writeln!(
            out,
            "also sets {}: {} ({}); to stop that: {}",
            rival.sets, rival.name, rival.seen, rival.remedy
        )?;
    }
    Ok(())
}

/// Joins writes whose settings differ only in a number, such as that of a CPU: a machine has
/// hundreds.
fn grouped(writes: impl Iterator<Item = (String, String)>) -> Vec<(String, String)> {
    let mut groups: Vec<(Split, Vec<u32>, String)> = Vec::new();
    for (setting, change) in writes {
        let (split, number) = Split::new(&setting);
        let same = groups.iter_mut().find(|(known, _, text)| *known == split && *text == change);
        match same {
            Some((_, numbers, _)) => numbers.extend(number),
            None => groups.push((split, number.into_iter().collect(), change)),
        }
    }
    let named = |(split, numbers, change): (Split, Vec<u32>, String)| {
        let Split { before, after } = split;
        let numbers = match &numbers[..] {
            [] => String::new(),
            [one] => one.to_string(),
            _ => format!("{{{}}}", ranges(numbers)),
        };
        (format!("{before}{numbers}{after}"), change)
    };
    groups.into_iter().map(named).collect()
}

/// Text of a setting around the number of its CPU or policy.
#[derive(PartialEq)]
struct Split {
    before: String,
    after: String,
}

impl Split {
    fn new(setting: &str) -> (Self, Option<u32>) {
        for name in ["/cpu", "/policy"] {
            for (place, _) in setting.match_indices(name) {
                let (before, rest) = setting.split_at(place + name.len());
                let digits = rest.find(|it: char| !it.is_ascii_digit()).unwrap_or(rest.len());
                let (number, after) = rest.split_at(digits);
                if let Ok(number) = number.parse() {
                    let (before, after) = (before.to_owned(), after.to_owned());
                    return (Self { before, after }, Some(number));
                }
            }
        }
        (Self { before: setting.to_owned(), after: String::new() }, None)
    }
}

/// Formats numbers as `0-3,7`.
fn ranges(mut numbers: Vec<u32>) -> String {
    numbers.sort_unstable();
    numbers.dedup();
    let runs = numbers.chunk_by(|one, next| one + 1 == *next);
    let run = |run: &[u32]| match run {
        [first, .., last] => format!("{first}-{last}"),
        [one] => one.to_string(),
        [] => String::new(),
    };
    runs.map(run).collect::<Vec<_>>().join(",")
}

fn shortened(value: &str) -> String {
    if value.len() <= LONGEST_VALUE {
        return value.to_owned();
    }
    let start: String = value.chars().take(LONGEST_VALUE).collect();
    format!("{start}...")
}

impl From<PlanError> for ExitError {
    fn from(error: PlanError) -> Self {
        Self::new(Self::CONFIG, error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_for_a_flowtable_are_printed_once_below_the_ports() {
        let port = |name: &str, flowtable: &str| PortPlan {
            name: name.to_owned(),
            is_absent: false,
            left_because: (!flowtable.is_empty()).then(|| "a chain".to_owned()),
            left_prefixes: Vec::new(),
            prefixes_because: Vec::new(),
            flowtable: (!flowtable.is_empty()).then(|| flowtable.to_owned()),
            is_guarded: false,
        };
        let lines = "a flowtable is fast; to add one: nft 'add x' && nft 'insert y'";
        let ports = [port("a", lines), port("b", ""), port("c", lines)];
        let mut out = Vec::new();
        print_ports(&mut out, &ports).unwrap();
        let expected = "port a: all packets are the kernel's: a chain\n\
                        port b: Wattline forwards\n\
                        port c: all packets are the kernel's: a chain\n\
                        a, c: a flowtable is fast; to add one:\n    nft 'add x'\n    nft 'insert y'\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn kernel_prefixes_have_reasons() {
        let port = PortPlan {
            name: "lan".to_owned(),
            left_prefixes: vec!["::/0".to_owned()],
            prefixes_because: vec!["IPv6 forwarding is off".to_owned()],
            ..PortPlan::default()
        };
        let mut out = Vec::new();
        print_port(&mut out, &port).unwrap();
        let expected = "packets from and to ::/0 are the kernel's: IPv6 forwarding is off\n";
        assert!(String::from_utf8(out).unwrap().ends_with(expected));
    }

    #[test]
    fn writes_that_differ_in_their_cpu_alone_are_one_line() {
        let write = |setting: &str, change: &str| (setting.to_owned(), change.to_owned());
        let writes = [
            write("/sys/cpu/cpufreq/policy0/scaling_governor", "a"),
            write("/sys/cpu/cpufreq/policy1/scaling_governor", "a"),
            write("/sys/cpu/cpufreq/policy7/scaling_governor", "a"),
            write("/sys/cpu/cpufreq/policy2/scaling_governor", "b"),
            write("/sys/cpu/cpu10/cpuidle/state2/disable", "1"),
            write("ethtool:eth0/rx-usecs", "1"),
        ];
        let lines: Vec<String> = (grouped(writes.into_iter()).into_iter())
            .map(|(settings, change)| format!("{settings}: {change}"))
            .collect();
        assert_eq!(
            lines,
            [
                "/sys/cpu/cpufreq/policy{0-1,7}/scaling_governor: a",
                "/sys/cpu/cpufreq/policy2/scaling_governor: b",
                "/sys/cpu/cpu10/cpuidle/state2/disable: 1",
                "ethtool:eth0/rx-usecs: 1",
            ]
        );
    }
}
