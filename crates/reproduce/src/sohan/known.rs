//! Inputs shared by several figures.

use crate::error::ReproduceError;
use wattline_report::{Check, Grounds};
use wattline_server::ComponentFile;
use wattline_server::components::NicCard;

pub(super) fn cards() -> Result<ComponentFile, ReproduceError> {
    Ok(ComponentFile::load("sohan-2010-nics")?)
}

/// Returns the card with this name.
pub(super) fn card<'f>(file: &'f ComponentFile, name: &str) -> Result<&'f NicCard, ReproduceError> {
    file.card(name).ok_or_else(|| lacks(&format!("the card {name}")))
}

pub(super) fn lacks(what: &str) -> ReproduceError {
    ReproduceError::Model(format!(
        "crates/server/servers/components/sohan-2010-nics.toml lacks {what}"
    ))
}

/// Returns a value of a card, or an error that names the missing value.
pub(super) fn known(value: Option<f64>, card: &NicCard, what: &str) -> Result<f64, ReproduceError> {
    value.ok_or_else(|| lacks(&format!("{what} of {}", card.name)))
}

/// Lists cards with their metric, in the given order.
pub(super) fn names(ranked: &[(&NicCard, f64)]) -> String {
    let shown = ranked.iter().map(|(card, metric)| format!("{} {metric:.3}", card.name));
    shown.collect::<Vec<_>>().join(", ")
}

pub(super) fn on_tables(checks: Vec<Check>) -> Vec<Check> {
    checks.into_iter().map(|check| check.on(Grounds::Tables)).collect()
}
