//! End of a command that failed: a message and an exit code.

use std::fmt;
use std::io;
use std::path::Path;
use wattline_daemon::settings::ConfigError;

/// A message for the user and the exit code that goes with it (after sysexits.h).
#[derive(Debug)]
pub struct ExitError {
    /// One of the constants below.
    pub code: u8,
    /// Problem, place and advice.
    pub message: String,
    /// True if standard output has the result already: with `--json` it gets no second document.
    pub after_result: bool,
}

#[allow(dead_code, reason = "the list is complete, whichever commands are built in")]
impl ExitError {
    /// Two compared things differ, or something needs attention.
    pub const DIFFERENCE: u8 = 1;
    /// Nothing could be compared.
    pub const NOTHING_COMPARED: u8 = 3;
    /// The command line is wrong.
    pub const USAGE: u8 = 2;
    /// A capture, table or measurement contains invalid data.
    pub const DATA: u8 = 65;
    /// An input cannot be opened.
    pub const NO_INPUT: u8 = 66;
    /// Hardware or a kernel feature is missing.
    pub const UNAVAILABLE: u8 = 69;
    /// A defect of the program itself.
    pub const SOFTWARE: u8 = 70;
    /// Reading or writing failed.
    pub const IO: u8 = 74;
    /// Done in part: the rest needs a restart.
    pub const NEEDS_RESTART: u8 = 75;
    /// A capability or permission is missing.
    pub const NO_PERMISSION: u8 = 77;
    /// The configuration is wrong.
    pub const CONFIG: u8 = 78;

    /// Creates an error with a code and a message.
    pub fn new(code: u8, message: impl fmt::Display) -> Self {
        Self { code, message: message.to_string(), after_result: false }
    }

    /// Marks the error as one that follows a printed result.
    #[must_use]
    pub fn after_result(self) -> Self {
        Self { after_result: true, ..self }
    }

    /// Returns the error for an input that cannot be opened.
    pub fn no_input(path: &Path, error: &io::Error) -> Self {
        Self::new(Self::NO_INPUT, format_args!("cannot open {}: {error}", path.display()))
    }
}

impl fmt::Display for ExitError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, line) in self.message.lines().enumerate() {
            let newline = if index == 0 { "" } else { "\n" };
            write!(out, "{newline}wattline: {line}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ExitError {}

impl From<ConfigError> for ExitError {
    fn from(error: ConfigError) -> Self {
        let code = match error {
            ConfigError::Unreadable { .. } => Self::NO_INPUT,
            ConfigError::Invalid(_) => Self::CONFIG,
        };
        Self::new(code, error)
    }
}

/// For results that cannot be written, mostly to standard output. A reader that has gone (a closed
/// pipe) is not an error: it has read all it needed.
impl From<io::Error> for ExitError {
    fn from(error: io::Error) -> Self {
        let code = if error.kind() == io::ErrorKind::BrokenPipe { 0 } else { Self::IO };
        Self::new(code, error)
    }
}
