//! Registrations: all that other files need to know of a kind of meter. Each kind's file has one
//! [`Registration`], and [`KINDS`](crate::KINDS) lists them: the survey of a machine, its recording
//! and docs/reference/meters.md follow from there.

use crate::reading::{Description, Meter};
use wattline_linux::missing::Missing;
use wattline_linux::sysfs::Tree;

/// A kind of meter, as others know it.
#[derive(Debug, Clone, Copy)]
pub struct Registration {
    /// Its rows in the reference.
    pub rows: &'static [Row],
    /// Looks for its meters on a machine on which the others have been found already.
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
    /// Part that they see.
    pub sees: &'static str,
    /// Their class of accuracy, and whose judgement that is.
    pub class: &'static str,
}

/// Meters found of one kind.
#[derive(Default)]
pub struct Finding {
    /// Meters that can be read.
    pub meters: Vec<Box<dyn Meter>>,
    /// Those that cannot, with the remedy.
    pub missing: Vec<Missing>,
}

impl Finding {
    /// These meters, without those.
    pub fn of<M: Meter + 'static>(meters: Vec<M>, missing: Vec<Missing>) -> Self {
        let boxed = |meter| -> Box<dyn Meter> { Box::new(meter) };
        Self { meters: meters.into_iter().map(boxed).collect(), missing }
    }
}
