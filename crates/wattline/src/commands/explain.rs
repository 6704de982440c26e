//! `wattline explain`: why a machine runs as it does.

use super::ask::{Daemon, print_json};
use crate::exit::ExitError;
use crate::output;
use std::io::{self, Write};
use wattline_daemon::socket::Request;
use wattline_status::{Decision, Explanation, Stats};

/// Router or governor to explain.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    daemon: Daemon,
}

/// Runs the command.
pub fn run(args: &Args, json: bool) -> Result<(), ExitError> {
    let stats: Stats = args.daemon.ask(Request::Stats)?;
    let Some(power) = stats.power() else {
        return Err(ExitError::new(
            ExitError::UNAVAILABLE,
            "nothing is governed there: a router decides on power where its configuration has \
             [power] platform = \"host\" or \"scale\"",
        ));
    };
    let mut out = output::stdout();
    if json {
        let explanation = Explanation {
            policy: power.policy.clone(),
            rule: match &stats {
                Stats::Governor(stats) => stats.govern.rule,
                _ => None,
            },
            reason: power.reason.clone(),
            last_changes: power.last_changes.clone(),
        };
        return Ok(print_json(&mut out, &explanation)?);
    }
    writeln!(out, "policy {}", power.policy)?;
    Ok(print(&power.last_changes, &mut out)?)
}

/// Prints the changes as lines, the last one at the end.
///
/// # Errors
/// Fails if `out` cannot be written.
pub fn print(changes: &[Decision], out: &mut impl Write) -> io::Result<()> {
    let Some(first) = changes.first() else {
        return writeln!(out, "no change of the operating point so far");
    };
    if first.number > 1 {
        writeln!(out, "{} changes before are not kept", first.number - 1)?;
    }
    for change in changes {
        writeln!(out, "{:>8} {:>14.6} s  {change}", change.number, change.at_seconds)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattline_status::Waiting;

    #[test]
    fn changes_are_lines_and_lost_ones_are_counted() {
        let one = Decision {
            number: 8,
            at_seconds: 1.25,
            cores_active: 3,
            frequency_hertz: Some((1.6e9, 1.6e9)),
            wait: Waiting::Sleep,
            nap_seconds: Some(77e-6),
            reason: "for 8.000 Mpps, the load exceeded the capacity".to_owned(),
        };
        let mut out = Vec::new();
        print(&[one], &mut out).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "7 changes before are not kept\n       8       1.250000 s  3 cores at 1.60 GHz, naps \
             of 77.0 us: for 8.000 Mpps, the load exceeded the capacity\n"
        );
        let mut out = Vec::new();
        print(&[], &mut out).unwrap();
        assert_eq!(out, b"no change of the operating point so far\n");
    }
}
