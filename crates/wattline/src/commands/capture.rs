//! `wattline capture`: packets that pass a running router, as a capture file.

use super::watch::{WatchArgs, parsed, part, summary};
use crate::exit::ExitError;
use crate::new_file;
use crate::output::{self, note};
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};
use wattline_daemon::socket::Request;
use wattline_daemon::stream::Part;

/// Packets to capture, and the file for them.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    watch: WatchArgs,
    /// The file (pcapng), or - for standard output.
    #[arg(short = 'w', long, value_name = "FILE")]
    write: PathBuf,
    /// Replace the file if it exists.
    #[arg(long)]
    overwrite: bool,
    /// Most bytes of a packet.
    #[arg(long, value_name = "BYTES", default_value_t = u16::MAX, value_parser = clap::value_parser!(u16).range(1..))]
    snap: u16,
}

/// Runs the command.
pub fn run(args: &Args, json: bool) -> Result<(), ExitError> {
    let to_output = args.write == Path::new("-");
    if to_output && io::stdout().is_terminal() {
        let message = "a capture is no text: pipe it on, say to `tcpdump -nr -`, or name a file";
        return Err(ExitError::new(ExitError::USAGE, message));
    }
    let path = args.write.display();
    let there = || ExitError::new(ExitError::IO, format_args!("{path}: {}", new_file::EXISTS));
    if !to_output && new_file::refuses(&args.write, args.overwrite) {
        return Err(there());
    }
    let mut inlet = args.watch.begin(args.snap, Request::Capture)?;
    let mut out: Box<dyn Write> =
        match to_output {
            true => Box::new(io::stdout().lock()),
            false => Box::new(new_file::open(&args.write, args.overwrite).map_err(|error| {
                match error.kind() {
                    ErrorKind::AlreadyExists => there(),
                    _ => {
                        ExitError::new(ExitError::IO, format_args!("cannot write {path}: {error}"))
                    }
                }
            })?),
        };
    loop {
        match part(&mut inlet)? {
            Part::Bytes(bytes) => {
                out.write_all(&bytes)?;
                out.flush()?;
            }
            Part::Event(_) => {}
            Part::End(end) if json && !to_output => {
                return Ok(writeln!(output::stdout(), "{end:#}")?);
            }
            Part::End(end) => {
                note!("{}", summary(&parsed(end)?));
                return Ok(());
            }
        }
    }
}
