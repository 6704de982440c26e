//! `wattline policies`: what governors there are.

use crate::exit::ExitError;
use std::io::Write;
use wattline_policy::{POLICIES, reference_markdown};

/// How to list them.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// As the reference page, in Markdown.
    #[arg(long)]
    markdown: bool,
}

/// Runs the command.
pub fn run(args: &Args, json: bool) -> Result<(), ExitError> {
    let mut out = std::io::stdout().lock();
    if json {
        let list = serde_json::json!({ "policies": POLICIES });
        writeln!(out, "{}", serde_json::to_string_pretty(&list).map_err(std::io::Error::from)?)?;
    } else if args.markdown {
        write!(out, "{}", reference_markdown())?;
    } else {
        for policy in POLICIES {
            writeln!(
                out,
                "{}\n    {}\n    source: {}",
                policy.name, policy.summary, policy.source
            )?;
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
    }
    Ok(())
}
