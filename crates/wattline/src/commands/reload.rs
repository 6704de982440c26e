//! `wattline reload`: a changed configuration for a running router.

use super::ask::Which;
use crate::exit::ExitError;
use serde_json::Value;
use std::io::Write;
use wattline_daemon::socket::Request;

/// Which router.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    which: Which,
}

/// Runs the command.
pub fn run(args: &Args, json: bool) -> Result<(), ExitError> {
    let answer = args.which.ask(Request::Reload)?;
    let mut out = std::io::stdout().lock();
    if json {
        writeln!(out, "{answer:#}")?;
        return Ok(());
    }
    for (key, title) in [("applied", "in force"), ("needs_restart", "needs a restart")] {
        let names = answer[key].as_array().into_iter().flatten().filter_map(Value::as_str);
        let names: Vec<&str> = names.collect();
        let names = if names.is_empty() { "nothing".to_owned() } else { names.join(", ") };
        writeln!(out, "{title}: {names}")?;
    }
    for reason in answer["because"].as_array().into_iter().flatten() {
        writeln!(out, "because: {}", reason.as_str().unwrap_or_default())?;
    }
    for port in answer["not_as_configured"].as_array().into_iter().flatten() {
        writeln!(out, "not as configured: {}", port.as_str().unwrap_or_default())?;
    }
    Ok(())
}
