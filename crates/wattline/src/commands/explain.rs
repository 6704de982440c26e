//! `wattline explain`: why a machine runs as it does.

use super::ask::Which;
use crate::exit::ExitError;
use crate::output;
use serde::Deserialize;
use serde_json::{Value, json};
use std::io::{self, Write};
use wattline_daemon::socket::Request;
use wattline_governor::decisions::Decision;

/// Which router or governor.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    which: Which,
}

/// Runs the command.
pub fn run(args: &Args, json: bool) -> Result<(), ExitError> {
    let stats = args.which.ask(Request::Stats)?;
    let power = &stats["power"];
    if !power.is_object() {
        return Err(ExitError::new(
            ExitError::UNAVAILABLE,
            "nothing is governed there: a router decides on power where its configuration has \
             [power] platform = \"host\" or \"scale\"",
        ));
    }
    let mut out = output::stdout();
    if json {
        let of = |key: &str| power[key].clone();
        let told = json!({ "policy": of("policy"), "rule": stats["govern"]["rule"],
            "reason": of("reason"), "last_changes": of("last_changes") });
        writeln!(out, "{told:#}")?;
        return Ok(());
    }
    writeln!(out, "policy {}", power["policy"].as_str().unwrap_or_default())?;
    print(&changes(&power["last_changes"]), &mut out)?;
    Ok(())
}

/// Those that can be read; a router of another version may tell other things.
fn changes(list: &Value) -> Vec<Decision> {
    let read = |value: &Value| Decision::deserialize(value).ok();
    list.as_array().into_iter().flatten().filter_map(read).collect()
}

/// The changes as lines, the last one at the end.
pub(super) fn print(changes: &[Decision], out: &mut impl Write) -> io::Result<()> {
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

    #[test]
    fn changes_are_lines_and_what_is_not_kept_is_said() {
        let one = json!({ "number": 8, "at_seconds": 1.25, "cores_active": 3,
            "frequency_hertz": [1.6e9, 1.6e9], "wait": "sleep", "nap_seconds": 77e-6,
            "reason": "for 8.000 Mpps, the load exceeded the capacity" });
        let list = json!([one, { "of": "another version" }]);
        let mut out = Vec::new();
        print(&changes(&list), &mut out).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "7 changes before are not kept\n       8       1.250000 s  3 cores at 1.60 GHz, naps \
             of 77.0 us: for 8.000 Mpps, the load exceeded the capacity\n"
        );
        let mut out = Vec::new();
        print(&changes(&Value::Null), &mut out).unwrap();
        assert_eq!(out, b"no change of the operating point so far\n");
    }
}
