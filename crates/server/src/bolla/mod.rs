//! The power model of a software router by Bolla et al., fitted to measurements of a whole
//! machine rather than put together from its parts. `docs/explanation/bolla.md` has the
//! reading of its equations where the paper's print is garbled.

mod chi;
pub mod equations;
mod model;
mod section;

pub use chi::{Chi, ChiDifference, PRINTED_COEFFICIENTS};
pub use model::{BollaModel, CoreLoad, FrequencyPoint};
