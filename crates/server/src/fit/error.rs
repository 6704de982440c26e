//! Why there is no fit.

use thiserror::Error;

/// Why there is no fit.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum FitError {
    /// The rows are right but do not determine the model.
    #[error("{0}")]
    Unidentified(String),
    /// An option is outside its range.
    #[error("{field} = {value}: must be {allowed}")]
    BadOption {
        /// The option.
        field: &'static str,
        /// As it was given.
        value: String,
        /// Its range.
        allowed: &'static str,
    },
}
