//! A key of a configuration: where it stands and what it allows.

use std::fmt;
use std::ops::RangeInclusive;

/// Section of a file in which a key stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Section {
    /// Before the first section.
    Top,
    /// A section, by how it is written in the file: `[log]`, or with two brackets where it may be
    /// repeated.
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
    /// Its name.
    pub name: &'static str,
    /// Its default as TOML; `None` when it has none (see `doc`).
    pub default: Option<&'static str>,
    /// An example value as TOML, for keys without a default.
    pub example: &'static str,
    /// Allowed values.
    pub allowed: Allowed,
    /// Meaning of the key.
    pub doc: &'static str,
    /// True if nobody but the reader of the file may see its value.
    pub secret: bool,
}

impl Key {
    /// A key whose allowed values are told in words, in the order of the fields.
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

    /// A whole number in a range, which [`crate::settings::Reader::number`] checks.
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

    /// A duration in a range (shortest, longest, an example for messages), which
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

    /// The same key with a value that is not shown.
    #[must_use]
    pub const fn secret(mut self) -> Self {
        self.secret = true;
        self
    }
}

/// Allowed values of a key. The text stands in error messages after "must be", in the reference and
/// in `wattline config`; values are checked against the same range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allowed {
    /// In words; the code that reads the key checks it.
    Words(&'static str),
    /// A whole number from the first to the second.
    Whole(u32, u32),
    /// A duration.
    Duration {
        /// The shortest, as a configuration has it.
        shortest: &'static str,
        /// The longest.
        longest: &'static str,
        /// An example for messages.
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
