//! Exit codes for errors of `wattline-server`.

use wattline::exit::ExitError;
use wattline_server::LoadError;

/// Returns the error of a server or component file: a person wrote it, so its mistakes count as
/// configuration errors.
pub fn of_model(error: LoadError) -> ExitError {
    let code = match error {
        LoadError::Unreadable { .. } => ExitError::NO_INPUT,
        LoadError::Invalid(_) | LoadError::Incomplete(_) => ExitError::CONFIG,
    };
    ExitError::new(code, error)
}

/// Returns the error of a file of measurements or a trace.
pub fn of_data(error: LoadError) -> ExitError {
    let code = match error {
        LoadError::Unreadable { .. } => ExitError::NO_INPUT,
        LoadError::Invalid(_) | LoadError::Incomplete(_) => ExitError::DATA,
    };
    ExitError::new(code, error)
}
