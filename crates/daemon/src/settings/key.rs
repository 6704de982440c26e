//! A key of a configuration: its place and allowed values.

use std::fmt;
use std::ops::RangeInclusive;

/// Section of a file that contains a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Section {
    /// Before the first section.
    Top,
    /// A section, as written in the file: `[log]`, or with two brackets if it may be repeated.
    Named(&'static str),
}

impl Section {
    /// Returns the heading of the section in the file.
    pub const fn heading(self) -> &'static str {
        match self {
            Self::Top => "top level",
            Self::Named(heading) => heading,
        }
    }
}

/// One key.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// Section of the key.
    pub section: Section,
    /// Name of the key.
    pub name: &'static str,
    /// Default as TOML; `None` if it has none (see `doc`).
    pub default: Option<&'static str>,
    /// Example value as TOML, for keys without a default.
    pub example: &'static str,
    /// Allowed values.
    pub allowed: Allowed,
    /// Meaning of the key.
    pub doc: &'static str,
    /// True if only readers of the file may see its value.
    pub secret: bool,
}

impl Key {
    /// Creates a key whose allowed values are described in words, in the order of the fields.
    pub const fn new(
        section: Section,
        name: &'static str,
        default: Option<&'static str>,
        example: &'static str,
        allowed: &'static str,
        doc: &'static str,
    ) -> Self {
        Self {
            section,
            name,
            default,
            example,
            allowed: Allowed::Words(allowed),
            doc,
            secret: false,
        }
    }

    /// Creates a key for a whole number in a range, which [`crate::settings::Reader::number`]
    /// checks.
    pub const fn whole(
        section: Section,
        name: &'static str,
        default: Option<&'static str>,
        example: &'static str,
        range: RangeInclusive<u32>,
        doc: &'static str,
    ) -> Self {
        let allowed = Allowed::Whole(*range.start(), *range.end());
        Self { section, name, default, example, allowed, doc, secret: false }
    }

    /// Creates a key for a duration in a range (shortest, longest, an example for messages), which
    /// [`crate::settings::Reader::duration`] checks.
    pub const fn duration(
        section: Section,
        name: &'static str,
        default: Option<&'static str>,
        example: &'static str,
        (shortest, longest, such_as): (&'static str, &'static str, &'static str),
        doc: &'static str,
    ) -> Self {
        let allowed = Allowed::Duration { shortest, longest, such_as };
        Self { section, name, default, example, allowed, doc, secret: false }
    }

    /// Marks the key's value as one that is not shown.
    #[must_use]
    pub const fn secret(mut self) -> Self {
        self.secret = true;
        self
    }
}

/// Allowed values of a key. The text follows "must be" in error messages, and appears in the
/// reference and in `wattline config`; values are checked against the same range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allowed {
    /// A description; the code that reads the key checks it.
    Words(&'static str),
    /// A whole number from the first to the second.
    Whole(u32, u32),
    /// A duration.
    Duration {
        /// Shortest duration, as written in a configuration.
        shortest: &'static str,
        /// Longest duration.
        longest: &'static str,
        /// Example for messages.
        such_as: &'static str,
    },
}

impl fmt::Display for Allowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Words(words) => f.write_str(words),
            Self::Whole(low, high) => write!(f, "a whole number from {low} to {high}"),
            Self::Duration { shortest, longest, such_as } => {
                write!(f, "a duration from \"{shortest}\" to \"{longest}\", such as \"{such_as}\"")
            }
        }
    }
}

impl serde::Serialize for Allowed {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
