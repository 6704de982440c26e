//! The laboratory, a separate program: this program hands its commands over, as git does.

use crate::exit::ExitError;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use wattline_units::Build;

/// Name of the laboratory's program and of its package.
pub const PROGRAM: &str = "wattline-lab";

/// Variable that passes the calling build to the laboratory.
const CALLER: &str = "WATTLINE_CALLER_BUILD";

/// Variable with the process number of the caller, which exec keeps: a process that finds its own
/// number there has called itself.
const PROCESS: &str = "WATTLINE_CALLER_PROCESS";

/// Maximum number of links followed from the name of a call, as in the kernel (path_resolution(7)).
const MOST_LINKS: usize = 40;

/// Commands of the laboratory, in the order of its help.
pub const COMMANDS: [(&str, &str); 16] = [
    (
        "demo",
        "Run a compressed day of traffic under several policies; then compare Wattline with the kernel",
    ),
    ("sim", "Run a policy on a server model in virtual time"),
    ("sweep", "Run many simulations side by side: servers, policies, traffics, seeds"),
    (
        "envelope",
        "Compute the lowest energy for a traffic within a latency bound, and find a schedule close to it",
    ),
    ("league", "Compare all policies with each other and with a lower bound of energy"),
    ("servers", "List the shipped server models, or show one with the origin of its figures"),
    ("nics", "List network cards, compare them, or choose one for a throughput and its budgets"),
    ("fit", "Fit a power and capacity model to measured rows"),
    (
        "characterise",
        "Sweep a simulated, emulated or real router over frequencies, cores and loads, and fit its model",
    ),
    ("optimise", "Find the cheapest frequency and number of cores for a rate or a trace"),
    (
        "load",
        "Send packets through a forwarding device, or requests to memcached or HTTP servers, at a \
         given rate; measure loss and latency",
    ),
    (
        "profile",
        "Measure a server's tail latency and power by load, frequency and interrupt moderation",
    ),
    ("reproduce", "Reproduce the figures and tables of the papers, and compare the results"),
    (
        "receive",
        "Simulate the receive path of a host: cache misses, cycles and watts per packet (Liao)",
    ),
    ("report", "Compare runs, each of several repetitions, with confidence intervals"),
    (
        "bench",
        "Measure forwarding devices by RFC 2544, and the speed of Wattline itself on this machine",
    ),
];

/// Commands that are handed over but not listed in the help.
pub const HIDDEN: [&str; 3] = ["characterize", "generate", "optimize"];

/// Returns true if these arguments request a command of the laboratory, or its help.
pub fn is_asked_for(arguments: &[OsString]) -> bool {
    let mut words = arguments.iter().filter(|word| *word != "--json");
    let word = words.next();
    let word = if word.is_some_and(|word| word == "help") { words.next() } else { word };
    word.and_then(|word| word.to_str()).is_some_and(|word| {
        HIDDEN.contains(&word) || COMMANDS.iter().any(|(name, _)| *name == word)
    })
}

/// Replaces this process by the laboratory, with the same arguments. Uses the program next to this
/// one or next to a link by which this one was called, otherwise the one in `PATH`. Returns only if
/// that fails; the error names `what` as the feature that needs it.
pub fn hand_over(what: &str) -> ExitError {
    let process = std::process::id().to_string();
    if std::env::var_os(PROCESS).is_some_and(|number| number == *process) {
        return ExitError::new(
            ExitError::UNAVAILABLE,
            format_args!(
                "{what} needs {PROGRAM}, but the program of this name calls wattline again: {}",
                advice()
            ),
        );
    }
    let siblings = siblings(PROGRAM);
    let places = siblings.iter().map(|path| path.as_os_str()).chain([OsStr::new(PROGRAM)]);
    let mut tried = Vec::new();
    for place in places {
        let mut command = Command::new(place);
        let error = command
            .args(std::env::args_os().skip(1))
            .env(CALLER, Build::default().to_string())
            .env(PROCESS, &process)
            .exec();
        let place = if place == PROGRAM { "PATH".into() } else { place.to_string_lossy() };
        tried.push(match error.kind() {
            io::ErrorKind::NotFound => format!("{place}: not there"),
            _ => format!("{place}: {error}"),
        });
    }
    ExitError::new(
        ExitError::UNAVAILABLE,
        format_args!(
            "{what} needs {PROGRAM}, which cannot be run ({}): {}",
            tried.join("; "),
            advice()
        ),
    )
}

fn advice() -> String {
    format!("install the package {PROGRAM} of the same build, {}", Build::default())
}

/// Returns the path of the operator's program, for a laboratory that runs routers: the one next to
/// this program or next to a link by which this one was called, otherwise the one in `PATH`.
pub fn operator() -> PathBuf {
    let found = siblings("wattline").into_iter().find(|path| path.exists());
    found.unwrap_or_else(|| PathBuf::from("wattline"))
}

/// Returns possible paths of a program next to this one: in the folder of the file itself, and in
/// the folder of each link from the name of the call to it.
fn siblings(program: &str) -> Vec<PathBuf> {
    let own = std::env::current_exe().ok();
    // A name without a folder was found in `PATH`.
    let called = std::env::args_os().next().map(PathBuf::from);
    let called = called.filter(|path| path.components().count() > 1);
    let links = std::iter::successors(called, |path| {
        let target = std::fs::read_link(path).ok()?;
        Some(path.parent()?.join(target))
    });
    let mut places = Vec::new();
    for path in own.into_iter().chain(links.take(MOST_LINKS)) {
        let place = path.parent().map(|folder| folder.join(program));
        places.extend(place.filter(|place| !places.contains(place)));
    }
    places
}

/// Compares the build that calls the laboratory with that of the laboratory itself.
///
/// # Errors
/// Fails if they differ: results would name one build and come from another.
pub fn check_caller() -> Result<(), ExitError> {
    let Some(caller) = std::env::var_os(CALLER) else { return Ok(()) };
    same_build(&caller.to_string_lossy(), &Build::default().to_string())
}

fn same_build(caller: &str, own: &str) -> Result<(), ExitError> {
    if caller == own {
        return Ok(());
    }
    Err(ExitError::new(
        ExitError::UNAVAILABLE,
        format_args!(
            "{PROGRAM} is of build {own}, but the wattline that calls it is of build {caller}; \
             install wattline and {PROGRAM} of one build"
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asks(line: &str) -> bool {
        let arguments: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        is_asked_for(&arguments)
    }

    #[test]
    fn commands_of_the_laboratory_are_handed_over() {
        for line in ["sim", "--json sim", "help sim", "bench app ipv4", "optimize", "sim --help"] {
            assert!(asks(line), "{line}");
        }
        for line in
            ["", "help", "--help", "--version", "run sim", "stats --json", "simm", "help run"]
        {
            assert!(!asks(line), "{line}");
        }
    }

    #[test]
    fn laboratory_of_another_build_is_refused() {
        same_build("0.1.0 (0123456789)", "0.1.0 (0123456789)").unwrap();
        let error = same_build("0.1.0 (0123456789)", "0.2.0 (9876543210)").unwrap_err();
        assert_eq!(error.code, ExitError::UNAVAILABLE);
        for part in ["0.1.0 (0123456789)", "0.2.0 (9876543210)", "one build"] {
            assert!(error.message.contains(part), "{error}");
        }
    }
}
