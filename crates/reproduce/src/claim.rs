//! The rows of `crates/reproduce/published/claims.csv`.

use crate::error::ReproduceError;
use serde::{Deserialize, Serialize};

const CLAIMS: &str = include_str!("../published/claims.csv");

/// One row of the table of claims.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Claim {
    /// Identifier, such as `PS-027`.
    pub id: String,
    /// Name of the paper.
    pub paper: String,
    /// Section or figure that makes the claim.
    pub section_or_figure: String,
    /// Kind of claim: result, parameter, equation, method or algorithm.
    pub kind: String,
    /// Quantity that the claim is about.
    pub quantity: String,
    /// Value as printed.
    pub value: String,
    /// Unit of the value.
    pub unit: String,
    /// Conditions under which the value holds.
    pub conditions: String,
    /// Suggestion of how a program could check the claim.
    pub how_a_program_could_check_it: String,
}

/// Returns all rows, in the order of the file.
pub(super) fn all() -> Result<Vec<Claim>, ReproduceError> {
    let mut reader = csv::Reader::from_reader(CLAIMS.as_bytes());
    Ok(reader.deserialize().collect::<Result<_, _>>()?)
}

/// Returns the row with this id; `None` if there is none.
pub(super) fn find(id: &str) -> Result<Option<Claim>, ReproduceError> {
    Ok(all()?.into_iter().find(|claim| claim.id == id))
}
