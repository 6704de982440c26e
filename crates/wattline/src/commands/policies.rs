//! `wattline policies`: lists the policies.

use crate::exit::ExitError;
use crate::output;
use serde::Serialize;
use std::io::Write;
use wattline_policies::{POLICIES, reference_markdown};
use wattline_policy::PolicyInfo;

/// Selection of policies, and the format of the list.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Show only this policy.
    name: Option<String>,
    /// Print the reference page, in Markdown.
    #[arg(long, conflicts_with = "name")]
    markdown: bool,
}

#[derive(Serialize)]
struct List {
    policies: Vec<&'static PolicyInfo>,
}

/// Runs the command.
pub fn run(args: &Args, json: bool) -> Result<(), ExitError> {
    let name = &args.name;
    let asked = |policy: &&PolicyInfo| name.as_deref().is_none_or(|name| name == policy.name);
    let policies: Vec<_> = POLICIES.iter().filter(asked).collect();
    if let (Some(name), true) = (name, policies.is_empty()) {
        let names: Vec<_> = POLICIES.iter().map(|policy| policy.name).collect();
        let message =
            format!("policy {name:?} is not known; the policies are {}", names.join(", "));
        return Err(ExitError::new(ExitError::USAGE, message));
    }
    output::print(&List { policies }, json, |out, list| {
        if args.markdown { write!(out, "{}", reference_markdown()) } else { table(out, list) }
    })
}

fn table(out: &mut impl Write, list: &List) -> std::io::Result<()> {
    for policy in &list.policies {
        writeln!(out, "{}\n    {}\n    source: {}", policy.name, policy.summary, policy.source)?;
        for parameter in policy.parameters {
            writeln!(
                out,
                "    {} = {} ({}): {} [{}]",
                parameter.name,
                parameter.default,
                parameter.kind,
                parameter.meaning,
                parameter.source
            )?;
        }
        writeln!(out)?;
    }
    Ok(())
}
