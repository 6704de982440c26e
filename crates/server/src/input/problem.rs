//! What is wrong with a file that a person wrote, said so that it can be mended.

use std::fmt;
use thiserror::Error;

/// One thing wrong at one place of a file.
#[derive(Debug, Clone, PartialEq)]
pub struct Problem {
    /// Line of the file, counted from 1; `None` where the whole file is meant.
    pub line: Option<usize>,
    /// The field with its section, such as `power.core_awake_watts`; empty for the whole file.
    pub field: String,
    /// The value as it was read, where there is one.
    pub value: Option<String>,
    /// What is wrong and what is allowed.
    pub kind: ProblemKind,
}

/// What is wrong, and what would be right.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum ProblemKind {
    /// Not the format at all.
    #[error("{0}")]
    Syntax(String),
    /// A number outside its range.
    #[error("must be {allowed}")]
    OutOfRange {
        /// The range in words.
        allowed: String,
    },
    /// A string where a number belongs, and the like.
    #[error("must be {expected}")]
    WrongType {
        /// What belongs there.
        expected: String,
    },
    /// A key that means nothing here.
    #[error("unknown; {suggestion}")]
    Unknown {
        /// The nearest known key, or all of them.
        suggestion: String,
    },
    /// A required key that is absent.
    #[error("missing; give {expected}")]
    Missing {
        /// What belongs there.
        expected: String,
    },
    /// Values that are each allowed but cannot be true together.
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

/// Everything that is wrong with a file, in the order of its lines.
#[derive(Debug, Clone, PartialEq, Error)]
pub struct InvalidFile {
    /// The file as it was named, or the name of a shipped one.
    pub file: String,
    /// At least one.
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

/// Why a file could not be loaded.
#[derive(Debug, Error)]
pub enum LoadError {
    /// It cannot be opened or read.
    #[error("{file}: {cause}{hint}")]
    Unreadable {
        /// The file as it was named.
        file: String,
        /// What the operating system said.
        cause: std::io::Error,
        /// What the caller may have meant.
        hint: String,
    },
    /// It can be read but is wrong.
    #[error(transparent)]
    Invalid(#[from] InvalidFile),
    /// It is right, but what is asked of it needs figures that it does not have.
    #[error(transparent)]
    Incomplete(#[from] Incomplete),
}

/// Figures that a use of a model needs and that its file does not have.
#[derive(Debug, Clone, PartialEq, Error)]
pub struct Incomplete {
    /// Name of the model.
    pub name: String,
    /// What the figures are needed for.
    pub purpose: &'static str,
    /// Each field with the reason that the file gives for its absence.
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
        for (field, reason) in &self.missing {
            write!(f, "\n  {field}: {reason}")?;
        }
        Ok(())
    }
}
