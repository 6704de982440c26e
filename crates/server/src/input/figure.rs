//! A number of a model file with its origin.

use serde::Serialize;

/// Origin of a figure in a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// Printed in the source that the file names.
    Published,
    /// Computed from published figures only.
    Derived,
    /// Chosen so that the model meets published or measured figures.
    Fitted,
    /// Neither published nor measured; the note justifies the value.
    Assumed,
    /// Measured on the machine that the file describes.
    Measured,
    /// Taken from the model of another machine; the note names it.
    Borrowed,
    /// Given by the author of the file.
    User,
}

impl Origin {
    /// All origins with their words in files; the first is the default of a file.
    pub const NAMES: [(&'static str, Self); 7] = [
        ("user", Self::User),
        ("published", Self::Published),
        ("derived", Self::Derived),
        ("fitted", Self::Fitted),
        ("assumed", Self::Assumed),
        ("measured", Self::Measured),
        ("borrowed", Self::Borrowed),
    ];

    /// Returns the word for it in files.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, origin)| *origin == self).map_or("user", |(name, _)| name)
    }
}

/// Value of a figure in a file.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FigureValue {
    /// One number in the unit that ends the field's name.
    Number(f64),
    /// A list of numbers in the unit that ends the field's name.
    List(Vec<f64>),
    /// Not given in the source, so the user must supply it; contains the reason.
    Missing(String),
}

/// One number of a model file, for tables and reports.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figure {
    /// The field with its section, such as `power.core_awake_watts`.
    pub field: String,
    /// The value, or the reason for its absence.
    pub value: FigureValue,
    /// Origin of the number.
    pub origin: Origin,
    /// Reason for this value, if the file gives one.
    pub note: Option<String>,
    /// Line of the file, counted from 1.
    pub line: usize,
}
