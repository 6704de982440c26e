//! `wattline config`: the keys of a configuration.

use crate::applications;
use crate::exit::ExitError;
use serde_json::json;
use std::io::Write;
use std::path::PathBuf;
use wattline_router::config::{Config, keys, routes_file};

/// What to print or check.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Check this file instead: says nothing when it is right.
    check: Option<PathBuf>,
    /// Print the keys as the tables of the reference page.
    #[arg(long, conflicts_with = "check")]
    markdown: bool,
}

/// Runs the command.
pub fn run(args: &Args, json: bool) -> Result<(), ExitError> {
    let sections = applications::sections();
    if let Some(path) = &args.check {
        let config = Config::load(path, &sections)?;
        if let Some(file) = &config.routes_file {
            routes_file::load(file, &config)?;
        }
        return Ok(());
    }
    let mut out = std::io::stdout().lock();
    if json {
        let list: Vec<_> = keys::all(&sections)
            .map(|key| {
                json!({
                    "section": key.section.heading(),
                    "key": key.name,
                    "default": key.default,
                    "example": key.example,
                    "allowed": key.allowed,
                    "meaning": key.doc,
                })
            })
            .collect();
        writeln!(out, "{:#}", json!({ "keys": list }))?;
    } else if args.markdown {
        write!(out, "{}", keys::as_markdown(&sections))?;
    } else {
        write!(out, "{}", keys::as_toml(&sections))?;
    }
    Ok(())
}
