//! Registrations: the facts about a kind of meter for other files. Each kind's file has one
//! [`Registration`], and [`KINDS`](crate::KINDS) lists them: they determine the survey of a
//! machine, its recording and docs/reference/meters.md.

use crate::reading::{Description, Meter};
use wattline_linux::missing::Missing;
use wattline_linux::sysfs::Tree;

/// Facts about a kind of meter.
#[derive(Debug, Clone, Copy)]
pub struct Registration {
    /// Its rows in the reference.
    pub rows: &'static [Row],
    /// Searches for its meters on a machine; `others` are the meters found already.
    pub find: fn(&Tree, others: &[&Description]) -> Finding,
    /// Files of a machine that its recording contains: directories with names in them; all files of
    /// a directory without names.
    pub recorded: &'static [(&'static str, &'static [&'static str])],
}

/// A row of the reference.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// The meters' names.
    pub meter: &'static str,
    /// Files that they are read from.
    pub files: &'static str,
    /// Part of the machine that they see.
    pub sees: &'static str,
    /// Their class of accuracy, and its source.
    pub class: &'static str,
}

/// Meters found of one kind.
#[derive(Default)]
pub struct Finding {
    /// Meters that can be read.
    pub meters: Vec<Box<dyn Meter>>,
    /// Unusable meters, with the remedy.
    pub missing: Vec<Missing>,
}

impl Finding {
    /// Creates a finding of these meters and missing ones.
    pub fn new<M: Meter + 'static>(meters: Vec<M>, missing: Vec<Missing>) -> Self {
        let boxed = |meter| -> Box<dyn Meter> { Box::new(meter) };
        Self { meters: meters.into_iter().map(boxed).collect(), missing }
    }
}
