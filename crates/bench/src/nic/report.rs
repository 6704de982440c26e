//! The result.

use super::method::Measured;
use super::probe::Card;
use serde::Serialize;

/// The cards, and what a pair of them carried where that was asked for.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// The interfaces.
    pub cards: Vec<Card>,
    /// The pair.
    pub measured: Option<Measured>,
}
