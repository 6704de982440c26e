//! Blocking policies in the kernel (XFRM) for the traffic that a configuration protects.
//!
//! They keep the kernel from forwarding this traffic in clear: before the router starts, when it
//! cannot start, when it has ended or was killed, and while it runs, on interfaces that are no ports.
//! They belong to the configuration, not to a process: its path names their owner.

mod partial;
mod protected;
mod registry;

pub use protected::Protected;

use crate::section::IpsecSettings;
use ipnet::IpNet;
use partial::Partial;
use rustix::io::Errno;
use std::io;
use std::path::{Path, PathBuf};
use wattline_daemon::settings::ConfigError;
use wattline_linux::netlink::xfrm::{self, BlockOwner, Blocked, PolicyDirection};
use wattline_router::config::{Config, PortSettings};
use wattline_status::applications::{Block, BlockPlan, BlockStats, BlockedTraffic, KernelBlock};

/// Result of [`follow`].
#[derive(Debug, PartialEq)]
pub struct Outcome {
    /// The traffic that is blocked for this configuration.
    pub blocked: Protected,
    /// Remarks for the operator.
    pub notes: Vec<String>,
}

impl Outcome {
    fn nothing(note: &str) -> Self {
        Self { blocked: Protected::default(), notes: vec![note.to_owned()] }
    }
}

/// Returns the absolute path of a configuration file. The file itself may be missing, or be a link
/// to one file today and to another tomorrow.
fn absolute(file: &Path) -> PathBuf {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let folder = std::fs::canonicalize(folder)
        .or_else(|_| std::path::absolute(folder))
        .unwrap_or_else(|_| folder.to_owned());
    folder.join(file.file_name().unwrap_or_default())
}

/// Returns the owner of the policies of a configuration file.
pub fn owner(file: &Path) -> BlockOwner {
    BlockOwner::named(absolute(file).as_os_str().as_encoded_bytes())
}

/// Adds these policies for a configuration file.
///
/// # Errors
/// As [`follow`].
fn add(file: &Path, blocks: &[xfrm::Block]) -> io::Result<()> {
    let owner = owner(file);
    if !blocks.is_empty() {
        // First: nothing else records the policies' owner.
        registry::note(owner, &absolute(file));
    }
    owner.install(blocks).map(drop)
}

/// Makes these policies the only ones of a configuration file, and removes those of configurations
/// that do not exist any more. Returns the number of removed policies.
///
/// # Errors
/// As [`follow`].
pub fn set(file: &Path, blocks: &[xfrm::Block]) -> io::Result<usize> {
    let owner = owner(file);
    add(file, blocks)?;
    let mut removed = owner.retain(blocks)?;
    if blocks.is_empty() {
        registry::forget(owner);
    }
    for other in BlockOwner::all()? {
        if other != owner && registry::is_removed(other) && !other.is_in_use()? {
            removed += other.retain(&[])?;
            registry::forget(other);
        }
    }
    Ok(removed)
}

/// Makes the kernel block the protected traffic of a configuration file, and nothing else for it.
/// `config` is the file as it was read. If it has mistakes, policies for its readable parts are
/// only added. If it does not exist, all are removed.
///
/// # Errors
/// When the kernel refuses them, or has no XFRM ([`is_missing`]).
pub fn follow(file: &Path, config: &Result<Config, ConfigError>) -> io::Result<Outcome> {
    // If the state cannot be read, the calls below report the reason.
    if owner(file).is_in_use().unwrap_or(false) {
        return Ok(Outcome::nothing(
            "a router with this configuration runs, and keeps the policies",
        ));
    }
    match config {
        Ok(config) => {
            let settings = config.of::<IpsecSettings>();
            let in_kernel = |port: &PortSettings| port.kind.taken_over().is_some();
            if !config.ports.iter().any(in_kernel) {
                return Ok(Outcome::nothing("no port is an interface, so nothing is blocked"));
            }
            if settings.is_some_and(|settings| !settings.block_when_stopped) {
                return Ok(Outcome::nothing(
                    "block_when_stopped is false, so nothing is blocked while no router runs",
                ));
            }
            let blocked = settings.map(Protected::from_settings).unwrap_or_default();
            let blocks = blocked.blocks(None, false);
            if blocks.is_empty() {
                // Without the right to list policies, no router can start either.
                let removed = match remove_from(file) {
                    Err(error) if error.kind() == io::ErrorKind::PermissionDenied => 0,
                    removed => removed?,
                };
                let note =
                    format!("no policy protects packets; kernel policies removed: {removed}");
                return Ok(Outcome::nothing(&note));
            }
            set(file, &blocks)?;
            let notes = Vec::new();
            Ok(Outcome { blocked, notes })
        }
        Err(ConfigError::Unreadable { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            let removed = remove_from(file)?;
            let note =
                format!("the configuration does not exist; kernel policies removed: {removed}");
            Ok(Outcome::nothing(&note))
        }
        Err(_) => {
            let kept = "existing policies are kept";
            let Ok(bytes) = std::fs::read(file) else { return Ok(Outcome::nothing(kept)) };
            let partial = Partial::read(&String::from_utf8_lossy(&bytes));
            if partial.captures_only || !partial.when_stopped {
                return Ok(Outcome::nothing(kept));
            }
            let mut notes = vec![kept.to_owned()];
            if partial.unreadable > 0 {
                let count = partial.unreadable;
                notes.push(format!(
                    "[[ipsec_policy]]: {count} without a readable prefix cannot be blocked"
                ));
            }
            add(file, &partial.protected.blocks(None, false))?;
            Ok(Outcome { blocked: partial.protected, notes })
        }
    }
}

/// Removes all policies of a configuration that protects nothing; a kernel without XFRM has none.
fn remove_from(file: &Path) -> io::Result<usize> {
    set(file, &[]).or_else(|error| if is_missing(&error) { Ok(0) } else { Err(error) })
}

/// Removes all blocking policies from the kernel of this network namespace; returns their number.
///
/// # Errors
/// When the kernel refuses it.
pub fn open() -> io::Result<usize> {
    match BlockOwner::remove_all() {
        Err(error) if is_missing(&error) => Ok(0),
        removed => removed,
    }
}

/// Returns all blocking policies of any configuration in this network namespace.
///
/// # Errors
/// When the kernel cannot be asked.
pub fn list() -> io::Result<Vec<KernelBlock>> {
    let blocked = match BlockOwner::blocked(PolicyDirection::Out) {
        Err(error) if is_missing(&error) => Vec::new(),
        blocked => blocked?,
    };
    let one = |it: &Blocked| KernelBlock {
        traffic: traffic((it.source, it.destination)),
        owner: it.owner.number(),
        since_seconds: it.added,
        configuration: registry::configuration(it.owner).map(|file| file.display().to_string()),
    };
    Ok(blocked.iter().map(one).collect())
}

/// Describes the traffic that is blocked for a configuration, for statistics and plans.
pub fn describe(file: &Path, blocked: &Protected) -> Block {
    Block {
        configuration: file.display().to_string(),
        owner: owner(file).number(),
        blocked: blocked.prefixes().map(traffic).collect(),
    }
}

fn traffic((source, destination): (IpNet, IpNet)) -> BlockedTraffic {
    BlockedTraffic { source: source.to_string(), destination: destination.to_string() }
}

/// Describes the blocked traffic of a configuration that no router has read, if it protects any.
pub fn plan(config: &Config) -> Option<BlockPlan> {
    let settings = config.of::<IpsecSettings>()?;
    let blocked = Protected::from_settings(settings);
    blocked.prefixes().next()?;
    let block = describe(&config.file, &blocked);
    // Unknown without rights.
    let present = BlockOwner::blocked(PolicyDirection::Out).ok();
    let blocked_now =
        present.map(|it| it.iter().filter(|it| it.owner.number() == block.owner).count());
    let block = BlockStats { block, when_stopped: settings.block_when_stopped };
    Some(BlockPlan { block, blocked_now })
}

/// Returns true if the kernel has no XFRM.
pub fn is_missing(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::PROTONOSUPPORT | Errno::AFNOSUPPORT))
}
