//! `wattline config`: the keys of a configuration.

use crate::applications;
use crate::exit::ExitError;
use crate::output;
use serde_json::{Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};
use wattline_daemon::settings::Key;
use wattline_govern::config::keys as own;
use wattline_policies::POLICIES;
use wattline_router::Router;
use wattline_router::config::keys;

/// Keys to print, or the file to check.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Check this file instead; a valid one gives no output without --json.
    check: Option<PathBuf>,
    /// Print the keys as the tables of the reference page.
    #[arg(long, conflicts_with = "check")]
    markdown: bool,
    /// The configuration of `wattline govern` instead of a router's.
    #[arg(long)]
    govern: bool,
}

/// Runs the command.
pub fn run(args: &Args, json: bool) -> Result<(), ExitError> {
    if args.govern {
        return govern(args, json);
    }
    let sections = applications::sections();
    if let Some(path) = &args.check {
        let config = applications::load(path)?;
        output::write_notes(&config.notes);
        Router::check(&config)?;
        return right(path, &config.notes, json);
    }
    let mut out = output::stdout();
    if json {
        output::document(&mut out, &json!({ "keys": listed(keys::all(&sections)) }))?;
    } else if args.markdown {
        write!(out, "{}", keys::as_markdown(&sections))?;
    } else {
        write!(out, "{}", keys::as_toml(&sections))?;
    }
    Ok(())
}

/// Reports a valid file: a program that reads JSON gets a document for it, too.
fn right(path: &Path, notes: &[String], json: bool) -> Result<(), ExitError> {
    output::print(&json!({ "file": path, "right": true, "warnings": notes }), json, |_, _| Ok(()))
}

/// Prints the keys of a governor, or checks its file.
fn govern(args: &Args, json: bool) -> Result<(), ExitError> {
    if let Some(path) = &args.check {
        let config = wattline_govern::config::Config::load(path, POLICIES)?;
        output::write_notes(&config.notes);
        // Only errors that `wattline govern` would report on any machine.
        wattline_govern::check(&config)
            .map_err(|error| ExitError::new(ExitError::CONFIG, error))?;
        return right(path, &config.notes, json);
    }
    let mut out = output::stdout();
    if json {
        output::document(&mut out, &json!({ "keys": listed(own::all()) }))?;
    } else if args.markdown {
        write!(out, "{}", own::as_markdown())?;
    } else {
        write!(out, "{}", own::as_toml())?;
    }
    Ok(())
}

fn listed<'a>(keys: impl Iterator<Item = &'a Key>) -> Vec<Value> {
    let one = |key: &Key| {
        json!({
            "section": key.section.heading(),
            "key": key.name,
            "default": key.default,
            "example": key.example,
            "allowed": key.allowed,
            "meaning": key.doc,
        })
    };
    keys.map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattline_daemon::settings::{Section, log, metrics};

    /// A governor does not know the router: it has its own list of the router's sections.
    #[test]
    fn governor_refuses_router_sections_with_advice() {
        let is_shared = |key: &&Key| [log::SECTION, metrics::SECTION].contains(&key.section);
        let mut checked = 0;
        for key in keys::all(&[]).filter(|key| !is_shared(key)) {
            let text = match key.section {
                Section::Top => format!("{} = {}\n", key.name, key.example),
                // The text behind a space is a key whose value is a table.
                section => section.heading().split(' ').next().unwrap_or_default().to_owned(),
            };
            let problems =
                wattline_govern::config::Config::parse(&text, "x", POLICIES).unwrap_err();
            let message = problems.to_string();
            assert!(
                message.contains("belongs in the configuration of a router"),
                "{text}: {message}"
            );
            checked += 1;
        }
        assert!(checked > 30, "{checked}");
    }
}
