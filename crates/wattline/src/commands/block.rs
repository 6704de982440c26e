//! `wattline block`: traffic that the kernel must not forward in clear while no router runs.

use crate::applications;
use crate::exit::ExitError;
use crate::output;
use serde::Serialize;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use wattline_daemon::settings::ConfigError;
use wattline_router::config::Config;
use wattline_status::applications::{BlockPlan, BlockedTraffic, KernelBlock};

/// Configuration to follow.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The configuration (TOML) whose [[ipsec_policy]] sections the kernel is to follow. Without
    /// it, print the present blocks.
    config: Option<PathBuf>,
}

/// Runs the command.
pub fn run(args: &Args, json: bool) -> Result<(), ExitError> {
    let Some(path) = &args.config else {
        let blocked = kernel::list().map_err(|error| refused(&error))?;
        return output::print(&List { blocked }, json, print_list);
    };
    let config = applications::load(path);
    let outcome = kernel::follow(path, &config).map_err(|error| refused(&error))?;
    output::print(&outcome, json, print_followed)?;
    match config {
        Err(error) if !is_absent(&error) => Err(ExitError::from(error).after_result()),
        _ => Ok(()),
    }
}

/// Blocks before any part of the router can fail. Errors are only logged: a running router is worth
/// more than none.
pub fn at_start(path: &Path) {
    let config = applications::load(path);
    // Without a configuration the router does not start; it is not treated as an empty one.
    if config.as_ref().is_err_and(is_absent) {
        return;
    }
    match kernel::follow(path, &config) {
        Ok(outcome) => {
            for note in &outcome.notes {
                tracing::debug!("block: {note}");
            }
        }
        Err(error) => tracing::warn!(
            "cannot keep the kernel from forwarding protected packets unencrypted before the start: {}",
            refused(&error).message
        ),
    }
}

/// Lets the kernel forward again everything that it has blocked for any configuration.
pub fn open(json: bool) -> Result<(), ExitError> {
    let removed = kernel::open().map_err(|error| refused(&error))?;
    output::print(&Opened { removed }, json, |out, _| match removed {
        0 => writeln!(out, "no router runs, and the kernel blocks nothing"),
        _ => writeln!(
            out,
            "no router runs; the kernel blocks nothing any more ({removed} policies removed)"
        ),
    })
}

/// Describes the traffic that a configuration blocks, if any.
pub fn plan(config: &Config) -> Option<BlockPlan> {
    kernel::plan(config)
}

/// Prints the description of a plan.
pub fn print_plan(out: &mut impl Write, plan: &BlockPlan) -> io::Result<()> {
    match plan.block.when_stopped {
        true => writeln!(out, "while no router runs, the kernel blocks:")?,
        false => writeln!(out, "while the router runs, and after a crash, the kernel blocks:")?,
    }
    let block = &plan.block.block;
    pairs(out, &block.blocked)?;
    match plan.blocked_now {
        Some(0) => writeln!(out, "now it blocks nothing for this configuration"),
        Some(now) => writeln!(out, "now it blocks {now} of them (owner {})", block.owner),
        None => Ok(()),
    }
}

/// All blocks of the kernel.
#[derive(Serialize)]
struct List {
    blocked: Vec<KernelBlock>,
}

/// Number of policies that were removed.
#[derive(Serialize)]
struct Opened {
    removed: usize,
}

/// Traffic that the kernel blocks for a configuration, and remarks.
#[derive(Serialize)]
struct Followed {
    #[serde(skip_serializing_if = "Option::is_none")]
    configuration: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<u32>,
    blocked: Vec<BlockedTraffic>,
    notes: Vec<String>,
}

fn print_list(out: &mut impl Write, list: &List) -> io::Result<()> {
    if list.blocked.is_empty() {
        writeln!(out, "the kernel blocks nothing")?;
    }
    list.blocked.iter().try_for_each(|it| {
        let BlockedTraffic { source, destination } = &it.traffic;
        let unknown = "a configuration that is not known";
        let configuration = it.configuration.as_deref().unwrap_or(unknown);
        let owner = it.owner;
        writeln!(out, "blocked: {source} -> {destination} for {configuration} (owner {owner})")
    })
}

fn print_followed(out: &mut impl Write, followed: &Followed) -> io::Result<()> {
    pairs(out, &followed.blocked)?;
    followed.notes.iter().try_for_each(|note| writeln!(out, "note: {note}"))
}

fn pairs(out: &mut impl Write, blocked: &[BlockedTraffic]) -> io::Result<()> {
    blocked.iter().try_for_each(|BlockedTraffic { source, destination }| {
        writeln!(out, "blocked: {source} -> {destination}")
    })
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
    use super::{Config, ConfigError, Followed, Path, io};
    pub use wattline_ipsec::block::{is_missing, list, open, plan};

    pub fn follow(path: &Path, config: &Result<Config, ConfigError>) -> io::Result<Followed> {
        let outcome = wattline_ipsec::block::follow(path, config)?;
        let block = wattline_ipsec::block::describe(path, &outcome.blocked);
        let (configuration, owner) = (Some(block.configuration), Some(block.owner));
        Ok(Followed { configuration, owner, blocked: block.blocked, notes: outcome.notes })
    }
}

/// Without IPsec nothing is protected.
#[cfg(not(feature = "ipsec"))]
mod kernel {
    use super::{BlockPlan, Config, ConfigError, Followed, KernelBlock, Path, io};

    pub fn follow(_: &Path, _: &Result<Config, ConfigError>) -> io::Result<Followed> {
        let notes = vec!["this program was built without IPsec".to_owned()];
        Ok(Followed { configuration: None, owner: None, blocked: Vec::new(), notes })
    }

    pub fn list() -> io::Result<Vec<KernelBlock>> {
        Ok(Vec::new())
    }

    pub fn open() -> io::Result<usize> {
        Ok(0)
    }

    pub fn plan(_: &Config) -> Option<BlockPlan> {
        None
    }

    pub fn is_missing(_: &io::Error) -> bool {
        false
    }
}
