//! A number of a model file together with where it comes from.

use serde::Serialize;

/// Where a figure of a model comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// Printed in the source that the file names.
    Published,
    /// Computed from published figures alone.
    Derived,
    /// Chosen so that the model meets published or measured figures.
    Fitted,
    /// Nobody published or measured it; the note says why this value is sensible.
    Assumed,
    /// Measured on the machine that the file describes.
    Measured,
    /// Given by the person who wrote the file.
    User,
}

impl Origin {
    /// All origins with the words that files use; the first is a file's default.
    pub const NAMES: [(&'static str, Self); 6] = [
        ("user", Self::User),
        ("published", Self::Published),
        ("derived", Self::Derived),
        ("fitted", Self::Fitted),
        ("assumed", Self::Assumed),
        ("measured", Self::Measured),
    ];

    /// The word that files use.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, origin)| *origin == self).map_or("user", |(name, _)| name)
    }
}

/// What a file says about one figure.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FigureValue {
    /// One number, in the unit that ends the field's name.
    Number(f64),
    /// A list of numbers, in the unit that ends the field's name.
    List(Vec<f64>),
    /// The source does not give it; the user must. Holds the reason.
    Missing(String),
}

/// One figure of a model file: every number of it is kept as one, for tables and reports.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figure {
    /// The field with its section, such as `power.core_awake_watts`.
    pub field: String,
    /// The number or the reason for its absence.
    pub value: FigureValue,
    /// Where the number comes from.
    pub origin: Origin,
    /// Why this value, where the file says so.
    pub note: Option<String>,
    /// Line of the file, counted from 1.
    pub line: usize,
}
