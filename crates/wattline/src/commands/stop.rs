//! `wattline stop`: the end of a router.

use super::ask::Daemon;
use super::block;
use crate::exit::ExitError;
use crate::output;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::net::sockopt::socket_peercred;
use rustix::process::{PidfdFlags, pidfd_open};
use std::io::{self, Write};
use std::path::Path;
use wattline_daemon::socket::{self, Request, SocketError, connect};

/// A router with idle ports ends in tenths of a second; a hanging driver gets more time.
const SECONDS: i64 = 60;

/// Router to stop.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Let the kernel then forward IPsec traffic in clear, until the next start. If no router runs,
    /// this ends all blocks in this network namespace.
    #[arg(long)]
    open: bool,
    #[command(flatten)]
    daemon: Daemon,
}

/// Runs the command: returns once the router has ended, so that another may be started.
pub fn run(args: &Args, json: bool) -> Result<(), ExitError> {
    let path = match args.daemon.path() {
        Err(SocketError::None(_)) if args.open => return block::open(json),
        path => path?,
    };
    // No router listens there.
    if args.open && connect(&path).is_err_and(|error| is_absent(&error)) {
        return block::open(json);
    }
    // Opened before the router is asked to stop; in another PID namespace it has no number here.
    let process = process_of(&path);
    let answer = socket::ask(&path, if args.open { Request::StopAndOpen } else { Request::Stop })?;
    let limit = Timespec { tv_sec: SECONDS, tv_nsec: 0 };
    if let Some(process) = process
        && poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&limit)) == Ok(0)
    {
        let why = format!("it is about to end, and has not within {SECONDS} s: see its log");
        return Err(ExitError::new(ExitError::IO, why));
    }
    if json {
        writeln!(output::stdout(), "{answer:#}")?;
    }
    Ok(())
}

/// Returns the process that listens at a socket; the descriptor is readable once it has ended.
fn process_of(path: &Path) -> Option<OwnedFd> {
    let stream = connect(path).ok()?;
    let process = socket_peercred(&stream).ok()?.pid;
    pidfd_open(process, PidfdFlags::empty()).ok()
}

fn is_absent(error: &SocketError) -> bool {
    use io::ErrorKind::{ConnectionRefused, NotFound};
    matches!(error, SocketError::Silent { source, .. } if matches!(source.kind(), NotFound | ConnectionRefused))
}
