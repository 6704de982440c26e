//! The power model of a software router by Bolla et al. It is fitted to measurements of a whole
//! machine instead of being composed of its parts. `docs/explanation/bolla.md` explains the reading
//! of its equations where the print is garbled.

mod chi;
pub mod equations;
mod model;
mod section;

pub use chi::{Chi, ChiDifference, PRINTED_COEFFICIENTS};
pub use model::{BollaModel, CoreLoad, FrequencyPoint};
