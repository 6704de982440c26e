//! Errors in a file written by a person, worded so that they can be corrected.

use std::fmt;
use thiserror::Error;

/// One error at one place of a file.
#[derive(Debug, Clone, PartialEq)]
pub struct Problem {
    /// Line number, from 1; `None` for the whole file.
    pub line: Option<usize>,
    /// Field with its section, such as `power.core_awake_watts`; empty for the whole file.
    pub field: String,
    /// Value as read, if there is one.
    pub value: Option<String>,
    /// Kind of the error, with the allowed values.
    pub kind: ProblemKind,
}

/// Kind of an error, with the allowed values.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum ProblemKind {
    /// The text is not valid TOML.
    #[error("{0}")]
    Syntax(String),
    /// A number is outside its range.
    #[error("must be {allowed}")]
    OutOfRange {
        /// Allowed range in words.
        allowed: String,
    },
    /// The value has another type, such as a string in place of a number.
    #[error("must be {expected}")]
    WrongType {
        /// Expected type.
        expected: String,
    },
    /// The key is unknown here.
    #[error("unknown; {suggestion}")]
    Unknown {
        /// Nearest known key, or all of them.
        suggestion: String,
    },
    /// A required key is absent.
    #[error("missing; give {expected}")]
    Missing {
        /// Expected value.
        expected: String,
    },
    /// Values that are each allowed cannot be true together.
    #[error("{0}")]
    Contradiction(String),
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.field)?;
        if let Some(value) = &self.value {
            write!(f, " = {value}")?;
        }
        if !self.field.is_empty() || self.value.is_some() {
            f.write_str(": ")?;
        }
        write!(f, "{}", self.kind)
    }
}

/// All errors of a file, in the order of its lines.
#[derive(Debug, Clone, PartialEq, Error)]
pub struct InvalidFile {
    /// Name of the file as given, or name of the shipped file.
    pub file: String,
    /// The errors; at least one.
    pub problems: Vec<Problem>,
}

impl fmt::Display for InvalidFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            match problem.line {
                Some(line) => write!(f, "{}:{line}: {problem}", self.file)?,
                None => write!(f, "{}: {problem}", self.file)?,
            }
        }
        Ok(())
    }
}

/// Reasons why a file could not be loaded.
#[derive(Debug, Error)]
pub enum LoadError {
    /// The file cannot be opened or read.
    #[error("{file}: {cause}{hint}")]
    Unreadable {
        /// Name of the file as given.
        file: String,
        /// Error of the operating system.
        cause: std::io::Error,
        /// Suggestion of the intended name.
        hint: String,
    },
    /// The file can be read but is invalid.
    #[error(transparent)]
    Invalid(#[from] InvalidFile),
    /// The file is valid, but lacks figures that are needed.
    #[error(transparent)]
    Incomplete(#[from] Incomplete),
}

/// Missing figures that a use of a model needs.
#[derive(Debug, Clone, PartialEq, Error)]
pub struct Incomplete {
    /// Name of the model.
    pub name: String,
    /// Use for which the figures are needed.
    pub purpose: &'static str,
    /// True if the file has a fit, which can be completed from another model.
    pub fitted: bool,
    /// Each missing field, with the reason that the file gives for its absence.
    pub missing: Vec<(String, String)>,
}

impl fmt::Display for Incomplete {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "server model {:?} cannot be used for {}: {} figures are missing; \
             copy its file, fill them in from measurements of your machine and name that file",
            self.name,
            self.purpose,
            self.missing.len()
        )?;
        if self.fitted {
            f.write_str(
                ", or repeat the fit with --like NAME, which borrows them from a model like it",
            )?;
        }
        for (field, reason) in &self.missing {
            write!(f, "\n  {field}: {reason}")?;
        }
        Ok(())
    }
}
