//! Meters of a machine, and missing ones with remedies.

use crate::reading::{Description, Meter, Scope};
use crate::registration::{Finding, Registration};
use wattline_linux::missing::Missing;
use wattline_linux::sysfs::Tree;

/// The meters of a machine.
pub struct Survey {
    /// Usable meters.
    pub meters: Vec<Box<dyn Meter>>,
    /// Unusable meters.
    pub missing: Vec<Missing>,
}

/// Searches for these kinds of meters, in order.
pub fn survey_of(kinds: &[&Registration], tree: &Tree) -> Survey {
    let mut survey = Survey { meters: Vec::new(), missing: Vec::new() };
    for kind in kinds {
        let known: Vec<&Description> =
            survey.meters.iter().map(|meter| meter.description()).collect();
        let Finding { meters, missing } = (kind.find)(tree, &known);
        survey.meters.extend(meters);
        survey.missing.extend(missing);
    }
    survey
}

/// Returns the meters whose figures may be added up: no two see the same part. The whole platform
/// is used if it is measured, by all of its supplies or domains of one kind; otherwise packages and
/// memory.
pub fn disjoint<'a>(all: impl IntoIterator<Item = &'a Description>) -> Vec<&'a Description> {
    let whole = |meter: &&Description| meter.part_of.is_none();
    let all: Vec<&Description> = all.into_iter().filter(whole).collect();
    let platform = |meter: &&&Description| meter.scope == Scope::Platform;
    // Two kinds of meters may see the same platform.
    let Some(kind) = all.iter().find(platform).map(|meter| meter.source) else {
        let part = |meter: &&Description| matches!(meter.scope, Scope::Package | Scope::Memory);
        return all.into_iter().filter(part).collect();
    };
    all.into_iter().filter(|meter| platform(&meter) && meter.source == kind).collect()
}
