//! `wattline status`: waste of this machine, remedies, and problems that need attention.

use super::ask::Daemon;
use super::plan::of_machine;
use super::root::Root;
use crate::exit::ExitError;
use crate::output;
use serde::Serialize;
use std::io::{self, Write};
use wattline_daemon::socket::{Request, SocketError};
use wattline_govern::config::Config as Governor;
use wattline_govern::{GovernPlan, SET_BY_ANOTHER_GOVERNOR};
use wattline_linux::sysfs::Tree;
use wattline_policies::POLICIES;
use wattline_status::{GovernorStats, PortState, Power, RouterStats, Stats};

/// Machine and daemon to examine.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    daemon: Daemon,
    #[command(flatten)]
    root: Root,
}

/// The screen.
#[derive(Debug, Default, Serialize)]
struct Status {
    /// The waste, and its remedy.
    summary: String,
    /// Other facts.
    facts: Vec<String>,
    /// Matters that need attention.
    problems: Vec<String>,
}

/// Runs the command.
pub fn run(args: &Args, json: bool) -> Result<(), ExitError> {
    let tree = args.root.tree()?;
    let stats = match args.daemon.path() {
        _ if args.root.is_recorded() => None,
        Err(SocketError::None(_)) => None,
        _ => Some(args.daemon.ask::<Stats>(Request::Stats)?),
    };
    let mut status = Status::default();
    match stats.as_ref().and_then(Stats::power) {
        Some(power) => status.take_power(power),
        None => {
            let plan = wattline_govern::plan(&Governor::built_in(POLICIES), &tree);
            status.take_plan(&plan.map_err(of_machine)?, &tree);
        }
    }
    match &stats {
        None => status.facts.push("no router and no governor runs".to_owned()),
        Some(Stats::Router(stats)) => status.take_router(stats),
        Some(Stats::Governor(stats)) => status.take_governor(stats),
        Some(Stats::Demonstration(_)) => status.facts.push("a demonstration runs".to_owned()),
    }
    if let Some(stats) = &stats {
        let changed = stats.needs_restart().iter();
        status
            .problems
            .extend(changed.map(|part| format!("{part}: not in force before a restart")));
    }
    output::print(&status, json, print)?;
    match status.problems.len() {
        0 => Ok(()),
        count => Err(ExitError::new(
            ExitError::DIFFERENCE,
            format_args!("{count} things need attention"),
        )
        .after_result()),
    }
}

fn print(out: &mut impl Write, status: &Status) -> io::Result<()> {
    writeln!(out, "{}", status.summary)?;
    status.problems.iter().try_for_each(|line| writeln!(out, "attention: {line}"))?;
    status.facts.iter().try_for_each(|line| writeln!(out, "{line}"))
}

impl Status {
    /// Adds the changes that a governor would make.
    fn take_plan(&mut self, plan: &GovernPlan, tree: &Tree) {
        let busy = busy_share(tree).map_or(String::new(), |share| {
            format!("CPUs were busy for {:.0} % of the time since boot, and ", 100.0 * share)
        });
        let settings = plan.plan.later.len().max(plan.plan.at_start.len());
        self.summary = match settings {
            0 if plan.plan.kept.is_empty() => {
                "nothing to change: the built-in profile would set nothing here".to_owned()
            }
            0 => "nothing to change: this machine saves more already than the built-in profile"
                .to_owned(),
            _ => format!(
                "wasted: {busy}{settings} settings do not follow the load; `wattline govern` changes \
                 that, `wattline plan --govern` lists the writes"
            ),
        };
        let remark = plan.intent.iter().find(|line| *line == SET_BY_ANOTHER_GOVERNOR);
        self.problems.extend(remark.cloned());
        if settings > 0 {
            self.problems.push("the power of this machine does not follow its load".to_owned());
        }
        self.facts.extend(plan.plan.missing.iter().map(|line| format!("cannot be set: {line}")));
        let rivals = plan.plan.rivals.iter();
        self.facts.extend(rivals.map(|it| format!("{} ({}) sets {}", it.name, it.seen, it.sets)));
    }

    /// Adds the state of a running governor.
    fn take_power(&mut self, power: &Power) {
        let watts = power.power_watts.map_or("no meter".to_owned(), |watts| {
            format!("{watts:.1} W, {}, {}", power.source, power.accuracy)
        });
        self.summary = match &power.waits_because {
            None => format!("power follows the load by the policy {}: {watts}", power.policy),
            Some(why) => format!("wasted: nothing is governed: {why} ({watts})"),
        };
        self.problems.extend(power.waits_because.clone());
        if power.steps_failed > 0 {
            self.problems.push(format!("{} changes of settings failed", power.steps_failed));
        }
        self.facts.push(format!("{} of {} cores are active", power.cores_active, power.cores));
    }

    fn take_governor(&mut self, stats: &GovernorStats) {
        let GovernorStats { govern, uptime_seconds, .. } = stats;
        self.facts.push(format!("the governor runs for {uptime_seconds:.0} s"));
        self.problems.extend(govern.waits_because.clone());
        self.problems.dedup();
        let rivals = govern.rivals.iter();
        self.problems.extend(rivals.map(|it| format!("{} also sets {}", it.name, it.sets)));
    }

    fn take_router(&mut self, stats: &RouterStats) {
        self.facts.push(format!("the router runs for {:.0} s", stats.uptime_seconds));
        let (mut up, mut others) = (0, Vec::new());
        for port in &stats.ports {
            match port.state {
                None | Some(PortState::Up) => up += 1,
                Some(state) => {
                    let why = port.reason.as_ref().map_or(String::new(), |why| format!(": {why}"));
                    others.push(format!("port {} is {}{why}", port.name, state.name()));
                }
            }
        }
        self.facts.push(format!("{up} of {} ports forward", stats.ports.len()));
        self.problems.extend(others);
    }
}

/// Returns the share of the time since boot in which CPUs were busy (proc_stat(5)).
fn busy_share(tree: &Tree) -> Option<f64> {
    let text = tree.text("/proc/stat").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let times: Vec<f64> = line.split_whitespace().map_while(|it| it.parse().ok()).take(8).collect();
    let total: f64 = times.iter().sum();
    let [_, _, _, idle, waiting, ..] = times[..] else { return None };
    (total > 0.0).then(|| 1.0 - (idle + waiting) / total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_that_does_not_forward_needs_attention() {
        let mut status = Status::default();
        let mut stats = RouterStats::default();
        let port = |name: &str, state| wattline_status::PortStats {
            name: name.to_owned(),
            state: Some(state),
            reason: (state != PortState::Up).then(|| "a chain".to_owned()),
            ..Default::default()
        };
        stats.ports = vec![port("lan", PortState::Up), port("wan", PortState::Left)];
        status.take_router(&stats);
        assert_eq!(status.problems, ["port wan is left: a chain"]);
        assert!(status.facts.contains(&"1 of 2 ports forward".to_owned()), "{status:?}");
    }

    #[test]
    fn busy_share_is_read() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("proc")).unwrap();
        let share = |text: &str| {
            std::fs::write(root.path().join("proc/stat"), text).unwrap();
            busy_share(&Tree::at(root.path()))
        };
        assert_eq!(share("cpu  25 0 25 40 10 0 0 0 0 0\n"), Some(0.5));
        assert_eq!(share("cpu  0 0 0 0 0 0 0 0 0 0\n"), None);
        assert_eq!(share("cpu  1\n"), None);
    }
}
