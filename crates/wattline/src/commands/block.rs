//! `wattline block`: traffic that the kernel must not forward in clear while no router runs.

use crate::applications;
use crate::exit::ExitError;
use crate::output;
use serde_json::{Value, json};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use wattline_router::config::Config;
use wattline_settings::ConfigError;

/// Configuration to be followed.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The configuration (TOML) whose [[ipsec_policy]] sections the kernel is to follow. Without it,
    /// print what the kernel blocks now.
    config: Option<PathBuf>,
}

/// Runs the command.
pub fn run(args: &Args, json: bool) -> Result<(), ExitError> {
    let Some(path) = &args.config else {
        let list = kernel::list().map_err(|error| refused(&error))?;
        return output::print(&list, json, |out, list| print(out, list, true));
    };
    let config = Config::load(path, &applications::sections());
    let outcome = kernel::follow(path, &config).map_err(|error| refused(&error))?;
    output::print(&outcome, json, |out, outcome| print(out, outcome, false))?;
    match config {
        Err(error) if !is_absent(&error) => Err(ExitError::from(error).after_result()),
        _ => Ok(()),
    }
}

/// Blocks before anything of the router can fail. Errors are logged: a router that forwards is worth
/// more than none.
pub fn at_start(path: &Path) {
    let config = Config::load(path, &applications::sections());
    // A router does not start without a configuration, and does not take it for an empty one.
    if config.as_ref().is_err_and(is_absent) {
        return;
    }
    match kernel::follow(path, &config) {
        Ok(outcome) => {
            for note in notes(&outcome) {
                tracing::debug!("block: {note}");
            }
        }
        Err(error) => tracing::warn!(
            "cannot keep the kernel from forwarding protected packets unencrypted before the start: {}",
            refused(&error).message
        ),
    }
}

/// Lets the kernel forward again what it has blocked for any configuration.
pub fn open(json: bool) -> Result<(), ExitError> {
    let removed = kernel::open().map_err(|error| refused(&error))?;
    output::print(&json!({ "removed": removed }), json, |out, _| match removed {
        0 => writeln!(out, "no router runs, and the kernel blocks nothing"),
        _ => writeln!(
            out,
            "no router runs; the kernel blocks nothing any more ({removed} policies removed)"
        ),
    })
}

/// A description of what a configuration blocks, if it does.
pub fn plan(config: &Config) -> Option<Value> {
    kernel::plan(config)
}

/// Prints the description of a plan.
pub fn print_plan(out: &mut impl Write, plan: &Value) -> io::Result<()> {
    match plan["when_stopped"].as_bool() {
        Some(true) => writeln!(out, "while no router runs, the kernel blocks:")?,
        _ => writeln!(out, "while the router runs, and after a crash, the kernel blocks:")?,
    }
    pairs(out, plan)?;
    match plan["blocked_now"].as_u64() {
        Some(0) => writeln!(out, "now it blocks nothing for this configuration"),
        Some(now) => writeln!(out, "now it blocks {now} of them (owner {})", plan["owner"]),
        None => Ok(()),
    }
}

fn print(out: &mut impl Write, outcome: &Value, with_owner: bool) -> io::Result<()> {
    if outcome["blocked"].as_array().is_some_and(Vec::is_empty) && with_owner {
        writeln!(out, "the kernel blocks nothing")?;
    }
    if !with_owner {
        pairs(out, outcome)?;
    } else {
        for it in outcome["blocked"].as_array().into_iter().flatten() {
            writeln!(
                out,
                "blocked: {} -> {} for {} (owner {})",
                text(&it["source"]),
                text(&it["destination"]),
                it["configuration"].as_str().unwrap_or("a configuration that is not known"),
                it["owner"]
            )?;
        }
    }
    notes(outcome).try_for_each(|note| writeln!(out, "note: {note}"))
}

fn pairs(out: &mut impl Write, of: &Value) -> io::Result<()> {
    for it in of["blocked"].as_array().into_iter().flatten() {
        writeln!(out, "blocked: {} -> {}", text(&it["source"]), text(&it["destination"]))?;
    }
    Ok(())
}

fn notes(outcome: &Value) -> impl Iterator<Item = &str> {
    outcome["notes"].as_array().into_iter().flatten().filter_map(Value::as_str)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn is_absent(error: &ConfigError) -> bool {
    matches!(error, ConfigError::Unreadable { source, .. } if source.kind() == io::ErrorKind::NotFound)
}

fn refused(error: &io::Error) -> ExitError {
    if kernel::is_missing(error) {
        let message = "this kernel has no XFRM (CONFIG_XFRM_USER): it cannot keep protected packets from \
             being forwarded unencrypted while no router runs; filter them with nftables instead";
        return ExitError::new(ExitError::UNAVAILABLE, message);
    }
    let message = format!("blocking policies of the kernel (XFRM): {error}");
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            ExitError::new(ExitError::NO_PERMISSION, format!("{message}: it needs CAP_NET_ADMIN"))
        }
        io::ErrorKind::InvalidInput => ExitError::new(ExitError::CONFIG, message),
        _ => ExitError::new(ExitError::IO, message),
    }
}

/// The kernel's policies.
#[cfg(feature = "ipsec")]
mod kernel {
    use super::{Config, ConfigError, Path, Value, io};
    pub use wattline_ipsec::block::{is_missing, list, open, plan};

    pub fn follow(path: &Path, config: &Result<Config, ConfigError>) -> io::Result<Value> {
        let outcome = wattline_ipsec::block::follow(path, config)?;
        let mut described = wattline_ipsec::block::describe(path, &outcome.blocked);
        described["notes"] = outcome.notes.into();
        Ok(described)
    }
}

/// Without IPsec nothing is protected.
#[cfg(not(feature = "ipsec"))]
mod kernel {
    use super::{Config, ConfigError, Path, Value, io, json};

    pub fn follow(_: &Path, _: &Result<Config, ConfigError>) -> io::Result<Value> {
        Ok(json!({ "blocked": [], "notes": ["this program was built without IPsec"] }))
    }

    pub fn list() -> io::Result<Value> {
        Ok(json!({ "blocked": [] }))
    }

    pub fn open() -> io::Result<usize> {
        Ok(0)
    }

    pub fn plan(_: &Config) -> Option<Value> {
        None
    }

    pub fn is_missing(_: &io::Error) -> bool {
        false
    }
}
