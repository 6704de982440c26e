//! `wattline reload`: a changed configuration for a running router.

use super::ask::{Daemon, print_json};
use crate::exit::ExitError;
use crate::output;
use std::io::Write;
use wattline_daemon::socket::Request;
use wattline_status::ReloadReport;

/// Router to reload.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    daemon: Daemon,
}

/// Runs the command.
pub fn run(args: &Args, json: bool) -> Result<(), ExitError> {
    let answer: ReloadReport = args.daemon.ask(Request::Reload)?;
    print(&answer, json)?;
    if answer.needs_restart.is_empty() {
        return Ok(());
    }
    let message = format!("not in force before a restart: {}", answer.needs_restart.join(", "));
    Err(ExitError::new(ExitError::NEEDS_RESTART, message).after_result())
}

fn print(answer: &ReloadReport, json: bool) -> std::io::Result<()> {
    let mut out = output::stdout();
    if json {
        return print_json(&mut out, answer);
    }
    for (names, title) in
        [(&answer.applied, "in force"), (&answer.needs_restart, "needs a restart")]
    {
        let names = if names.is_empty() { "nothing".to_owned() } else { names.join(", ") };
        writeln!(out, "{title}: {names}")?;
    }
    for reason in &answer.because {
        writeln!(out, "because: {reason}")?;
    }
    for port in &answer.not_as_configured {
        writeln!(out, "not as configured: {port}")?;
    }
    Ok(())
}
