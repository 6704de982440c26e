//! Errors of a fit.

use thiserror::Error;

/// Reasons for the failure of a fit.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum FitError {
    /// The rows are valid but do not determine the model.
    #[error("{0}")]
    Unidentified(String),
    /// An option is outside its range.
    #[error("{field} = {value}: must be {allowed}")]
    BadOption {
        /// Name of the option.
        field: &'static str,
        /// Value as given.
        value: String,
        /// Allowed range.
        allowed: &'static str,
    },
}
