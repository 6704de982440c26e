//! The rows of `published/claims.csv`.

use crate::error::ReproduceError;
use serde::{Deserialize, Serialize};

const CLAIMS: &str = include_str!("../../../published/claims.csv");

/// A claim as it is listed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Claim {
    /// Such as `PS-027`.
    pub id: String,
    /// The paper.
    pub paper: String,
    /// Where it stands.
    pub section_or_figure: String,
    /// Result, parameter, equation, method or algorithm.
    pub kind: String,
    /// What it is about.
    pub quantity: String,
    /// What is printed.
    pub value: String,
    /// In which unit.
    pub unit: String,
    /// Under which conditions.
    pub conditions: String,
    /// How it could be checked.
    pub how_a_program_could_check_it: String,
}

/// Every row, in its order.
pub(super) fn all() -> Result<Vec<Claim>, ReproduceError> {
    let mut reader = csv::Reader::from_reader(CLAIMS.as_bytes());
    Ok(reader.deserialize().collect::<Result<_, _>>()?)
}

/// The row of that id.
pub(super) fn find(id: &str) -> Result<Option<Claim>, ReproduceError> {
    Ok(all()?.into_iter().find(|claim| claim.id == id))
}
