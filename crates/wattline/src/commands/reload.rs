//! `wattline reload`: a changed configuration for a running router.

use super::ask::Which;
use crate::exit::ExitError;
use crate::output;
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
    print(&answer, json)?;
    let waiting = names(&answer["needs_restart"]);
    if waiting.is_empty() {
        return Ok(());
    }
    let message = format!("not in force before a restart: {}", waiting.join(", "));
    Err(ExitError::new(ExitError::NEEDS_RESTART, message).after_result())
}

fn names(value: &Value) -> Vec<&str> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

fn print(answer: &Value, json: bool) -> std::io::Result<()> {
    let mut out = output::stdout();
    if json {
        return writeln!(out, "{answer:#}");
    }
    for (key, title) in [("applied", "in force"), ("needs_restart", "needs a restart")] {
        let names = names(&answer[key]);
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
