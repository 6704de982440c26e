//! `wattline plan`: what a governor would write on this machine, and why.

use super::block;
use super::root::Root;
use crate::applications;
use crate::exit::ExitError;
use crate::output;
use crate::platforms::{PlanError, plan};
use serde::Serialize;
use serde_json::{Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};
use wattline_govern::config::Config as Governor;
use wattline_govern::{GovernPlan, GovernPlanError};
use wattline_host::PowerPlan;
use wattline_router::config::Config;

/// Values of a setting that are shown to a person; the JSON has all.
const VALUES_SHOWN: usize = 6;
/// Longest value that is shown to a person: an indirection table is as long as it likes.
const LONGEST_VALUE: usize = 40;

/// Of which configuration, on which machine.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The configuration (TOML), for its `[power]` section. With --govern, that of `wattline
    /// govern`, or none for its built-in profile.
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
        let config = path.map_or_else(|| Ok(Governor::built_in()), Governor::load)?;
        let plan = wattline_govern::plan(&config, &tree).map_err(of_machine)?;
        return output::print(&plan, json, print_govern);
    }
    // Clap has seen that it is there.
    let path = args.config.as_deref().unwrap_or(Path::new(""));
    let config = Config::load(path, &applications::sections())?;
    let block = block::plan(&config);
    let Some(plan) = plan(&config, &tree)? else {
        let none = json!({ "platform": "none", "at_start": [], "later": [] });
        return output::print(&Whole { plan: none, block }, json, |out, whole| {
            writeln!(out, "[power] platform is not \"host\": nothing would be written")?;
            whole.block.iter().try_for_each(|block| block::print_plan(out, block))
        });
    };
    output::print(&Whole { plan, block }, json, |out, whole| {
        print(out, &whole.plan)?;
        whole.block.iter().try_for_each(|block| block::print_plan(out, block))
    })
}

/// Changes that a router would make to this machine.
#[derive(Serialize)]
struct Whole<P> {
    #[serde(flatten)]
    plan: P,
    /// The traffic that the kernel would block.
    #[serde(skip_serializing_if = "Option::is_none")]
    block: Option<Value>,
}

/// What a governor of the machine would do, and why.
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
    if plan.at_start.is_empty() && plan.later.is_empty() {
        writeln!(out, "no file would be written, now or later")?;
    } else {
        writeln!(out, "at the start:")?;
    }
    for write in &plan.at_start {
        let (from, to) = (shortened(&write.present), shortened(&write.value));
        writeln!(out, "  {}: {from} -> {to}\n      {}", write.setting, write.why)?;
    }
    if !plan.later.is_empty() {
        let most = plan.writes_per_second.map(|most| format!(", at most {most} writes a second"));
        writeln!(out, "later, as the policy decides{}:", most.unwrap_or_default())?;
    }
    for write in &plan.later {
        let shown: Vec<String> =
            write.values.iter().take(VALUES_SHOWN).map(|value| shortened(value)).collect();
        let more = write.values.len().saturating_sub(VALUES_SHOWN);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        write!(out, "  {}: {}{more}\n      {}", write.setting, shown.join(" | "), write.why)?;
        if write.write_cost > 1 {
            write!(out, "; counts as {} writes", write.write_cost)?;
        }
        if write.dwell_seconds > 0.0 {
            write!(out, "; stays for {:.0} us", write.dwell_seconds * 1e6)?;
        }
        writeln!(out)?;
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
