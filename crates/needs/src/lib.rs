//! Requirements of tests. A test whose requirement is missing is skipped, and says so in one way:
//!
//! ```text
//! skipped: reachability::ping needs traceroute: `make tools` installs it
//! ```
//!
//! The line bypasses the capture of the test harness, so that a skipped test does not look like a
//! passed one. [`REQUIRE`] names the kinds of needs for which no test may be skipped; a test that
//! would be skipped for one of these fails. `make test` sets it to the tools that `make tools`
//! found or installed.
#![forbid(unsafe_code)]

pub mod browser;
mod kill;
mod program;
mod stop;
mod wait;

pub use kill::KillOnDrop;
pub use program::program;
pub use stop::StopOnDrop;
pub use wait::{Awaited, PATIENCE, until, until_or};

use std::fmt::Display;
use std::io::Write as _;
use std::panic::Location;

/// Environment variable with the kinds of needs, separated by commas, or `all`.
pub const REQUIRE: &str = "WATTLINE_REQUIRE";

/// Kinds of needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// A program or library that `make tools` installs.
    Tool,
    /// Root, or a capability.
    Rights,
    /// Data outside the project.
    Data,
    /// A feature of the kernel, the processor or the system that not every machine has.
    Machine,
}

impl Need {
    const ALL: [Self; 4] = [Self::Tool, Self::Rights, Self::Data, Self::Machine];

    /// Returns its name in [`REQUIRE`].
    fn name(self) -> &'static str {
        match self {
            Self::Tool => "tools",
            Self::Rights => "rights",
            Self::Data => "data",
            Self::Machine => "machine",
        }
    }

    fn remedy(self) -> &'static str {
        match self {
            Self::Tool => "`make tools` installs it",
            Self::Rights => "run it as root, with all capabilities",
            Self::Data => "set WATTLINE_DATA to the folder with it",
            Self::Machine => "it is skipped on this one",
        }
    }
}

/// Skips the test of this thread for lack of a tool.
///
/// # Panics
/// If [`REQUIRE`] forbids it, like the next three functions.
#[track_caller]
pub fn tool(what: impl Display) {
    skip(None, Need::Tool, what);
}

/// Skips the test for lack of rights.
#[track_caller]
pub fn rights(what: impl Display) {
    skip(None, Need::Rights, what);
}

/// Skips the test for lack of data.
#[track_caller]
pub fn data(what: impl Display) {
    skip(None, Need::Data, what);
}

/// Skips the test because the machine lacks a feature.
#[track_caller]
pub fn machine(what: impl Display) {
    skip(None, Need::Machine, what);
}

/// Skips a test because a need is missing; without a name, the test of this thread.
///
/// # Panics
/// If [`REQUIRE`] forbids it.
#[track_caller]
pub fn skip(test: Option<&str>, need: Need, what: impl Display) {
    let thread = std::thread::current();
    let location = Location::caller();
    // If all tests share one thread, this is the name of the harness's thread.
    let own = thread.name().filter(|name| *name != "main");
    let place = format!("{}:{}", location.file(), location.line());
    let test = test.or(own).unwrap_or(&place);
    let required = std::env::var(REQUIRE).unwrap_or_default();
    match outcome(test, need, &what.to_string(), &required) {
        // Written directly: the harness captures the output of macros and hides it if the test
        // passes. The harness may be in the middle of a line.
        Ok(line) => {
            let begin = if thread.name() == Some("main") { "\n" } else { "" };
            let _ = writeln!(std::io::stderr(), "{begin}{line}");
        }
        Err(why) => panic!("{why}"),
    }
}

fn outcome(test: &str, need: Need, what: &str, required: &str) -> Result<String, String> {
    let words = required.split(',').map(str::trim).filter(|word| !word.is_empty());
    let mut forbidden = false;
    for word in words {
        let known = Need::ALL.into_iter().find(|need| need.name() == word);
        if known.is_none() && word != "all" {
            let names = Need::ALL.map(Need::name).join(", ");
            return Err(format!(
                "{REQUIRE}={required}: {word:?} is unknown; allowed: all, {names}"
            ));
        }
        forbidden |= known.is_none_or(|known| known == need);
    }
    let (what, remedy) = (what.trim(), need.remedy());
    let said = match need {
        Need::Tool | Need::Data => format!("{test} needs {what}: {remedy}"),
        Need::Rights => format!("{test} needs more rights ({what}): {remedy}"),
        Need::Machine => format!("{test} needs another machine ({what}): {remedy}"),
    };
    if forbidden {
        return Err(format!("{said}; {REQUIRE}={required} does not let it be skipped"));
    }
    Ok(format!("skipped: {said}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skip_reports_the_missing_need_and_advice() {
        let said = outcome("a::test", Need::Tool, "ping", "").unwrap();
        assert_eq!(said, "skipped: a::test needs ping: `make tools` installs it");
    }

    #[test]
    fn required_kinds_are_not_skipped() {
        for (required, skipped) in [("tools", false), ("rights, tools", false), ("all", false)] {
            assert_eq!(outcome("a", Need::Tool, "ping", required).is_ok(), skipped, "{required}");
        }
        for required in ["", "rights", "data,machine"] {
            assert!(outcome("a", Need::Tool, "ping", required).is_ok(), "{required}");
        }
        let error = outcome("a", Need::Data, "captures", "tool").unwrap_err();
        assert!(error.contains("allowed: all, tools, rights, data, machine"), "{error}");
    }

    /// `scripts/skip` is for tests that are scripts.
    #[test]
    fn scripts_are_skipped_in_the_same_way() {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/skip");
        if !std::path::Path::new(script).exists() {
            return data("scripts/skip: the crate is tested without the repository around it");
        }
        for need in Need::ALL {
            for required in ["", "tools", "rights, data", "all", "machine", "tool"] {
                let run = std::process::Command::new(script)
                    .args(["a-test", need.name(), "it"])
                    .env(REQUIRE, required)
                    .output()
                    .unwrap();
                let message = String::from_utf8_lossy(&run.stderr);
                let message = message.trim_end().to_owned();
                let expected = outcome("a-test", need, "it", required);
                let found = if run.status.success() { Ok(message) } else { Err(message) };
                assert_eq!(found, expected, "{need:?} with {required:?}");
            }
        }
    }
}
