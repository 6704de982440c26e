//! Problems of a configuration.

use std::fmt;
use std::path::PathBuf;

/// Key of problems with the text as a whole.
pub(super) const SYNTAX: &str = "syntax";

/// Reason why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read at all.
    #[error("{named_by}cannot open {path}: {source}")]
    Unreadable {
        /// Key that names the file, to start a message with; empty for the configuration itself.
        named_by: &'static str,
        /// The file.
        path: PathBuf,
        /// Cause.
        source: std::io::Error,
    },
    /// The file can be read, but is invalid.
    #[error(transparent)]
    Invalid(#[from] Problems),
}

/// All problems of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problems {
    /// The file.
    pub file: String,
    /// Problems in the order of lines; never empty.
    pub list: Vec<Problem>,
    /// Problems of a file that this file names.
    pub included: Option<Box<Self>>,
}

/// A problem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Line in the file, from 1.
    pub line: usize,
    /// The key with its section, such as `[[port]] mtu`.
    pub key: String,
    /// Value as written in the file; empty if something is missing.
    pub value: String,
    /// Problem, allowed values and remedy.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.value.is_empty() {
            write!(out, "{}: {}", self.key, self.message)
        } else {
            write!(out, "{} = {}: {}", self.key, self.value, self.message)
        }
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.list.iter().enumerate() {
            if index > 0 {
                writeln!(out)?;
            }
            write!(out, "{}:{}: {problem}", self.file, problem.line)?;
        }
        match &self.included {
            Some(included) => write!(out, "\n{included}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Problems {}
