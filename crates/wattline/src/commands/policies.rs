//! `wattline policies`: what governors there are.

use crate::exit::ExitError;
use crate::output;
use serde::Serialize;
use std::io::Write;
use wattline_policy::{POLICIES, PolicyInfo, reference_markdown};

/// How to list them.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// As the reference page, in Markdown.
    #[arg(long)]
    markdown: bool,
}

#[derive(Serialize)]
struct List {
    policies: &'static [PolicyInfo],
}

/// Runs the command.
pub fn run(args: &Args, json: bool) -> Result<(), ExitError> {
    output::print(&List { policies: POLICIES }, json, |out, list| {
        if args.markdown { write!(out, "{}", reference_markdown()) } else { table(out, list) }
    })
}

fn table(out: &mut impl Write, list: &List) -> std::io::Result<()> {
    for policy in list.policies {
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
