//! The `[log]` section.

use super::key::{Key, Section};
use super::reader::{Reader, Table, defaulted};
use super::tables::single_or_empty;

/// Name of the section at the top level.
pub const NAME: &str = "log";
/// The section.
pub const SECTION: Section = Section::Named("[log]");

/// Its keys, in the order of the reference.
#[rustfmt::skip]
pub const KEYS: &[Key] = &[
    Key::new(SECTION, "level", Some("\"info\""), "\"debug\"", "\"error\", \"warn\", \"info\", \"debug\" or \"trace\"",
        "Level of the log on standard error."),
];

/// Amount of logging.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogLevel {
    /// Only errors that stop the daemon.
    Error,
    /// Also conditions that need an operator's attention.
    Warn,
    /// Also changes in the daemon's life cycle.
    Info,
    /// Also every change of state.
    Debug,
    /// Also everything else.
    Trace,
}

/// Reads the section. Returns the level.
pub fn read(reader: &mut Reader, root: &Table) -> LogLevel {
    let log = single_or_empty(reader, root, SECTION, NAME);
    reader.refuse_unknown(&log);
    defaulted(reader.parsed(&log, "level", parse_level))
}

fn parse_level(text: &str) -> Option<LogLevel> {
    match text {
        "error" => Some(LogLevel::Error),
        "warn" => Some(LogLevel::Warn),
        "info" => Some(LogLevel::Info),
        "debug" => Some(LogLevel::Debug),
        "trace" => Some(LogLevel::Trace),
        _ => None,
    }
}
