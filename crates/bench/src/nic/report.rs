//! The result.

use super::method::Measured;
use super::probe::Card;
use serde::Serialize;

/// The cards, and the measurement of a pair if requested.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// The interfaces.
    pub cards: Vec<Card>,
    /// The pair.
    pub measured: Option<Measured>,
}
