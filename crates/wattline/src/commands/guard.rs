//! `wattline guard`: the watchdog of a governor (hidden: `wattline run` starts it).

use super::root::Root;
use crate::exit::ExitError;
use wattline_govern::trial::undo_after;
use wattline_host::guard;
use wattline_knobs::OnExit;

/// Action when the router dies.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// State to leave the machine in: restore, keep or performance.
    #[arg(long, default_value = "restore")]
    on_exit: OnExit,
    /// Commands that undo the setting of a trial, instead of restoring knobs.
    #[arg(long)]
    undo: Option<String>,
    #[command(flatten)]
    root: Root,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), ExitError> {
    // A signal meant for the router also ends this process, since the router's end does. A signal
    // that reaches this process alone (from a terminal, or a service manager that signals the whole
    // group) must not end it.
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        let ignored = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        signal_hook::flag::register(signal, ignored)
            .map_err(|error| ExitError::new(ExitError::IO, error))?;
    }
    let tree = args.root.tree()?;
    if let Some(undo) = &args.undo {
        return undo_after(std::io::stdin().lock(), &tree, undo)
            .map_err(|why| ExitError::new(ExitError::IO, why));
    }
    let report = guard(std::io::stdin().lock(), &tree, &args.root.state(), args.on_exit)?;
    super::restore::verdict(&report)
}
