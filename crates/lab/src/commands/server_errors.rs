//! Exit codes for what `wattline-server` refuses.

use wattline::exit::ExitError;
use wattline_server::LoadError;

/// For a server or component file: a person wrote it, so its mistakes are of configuration.
pub fn of_model(error: LoadError) -> ExitError {
    let code = match error {
        LoadError::Unreadable { .. } => ExitError::NO_INPUT,
        LoadError::Invalid(_) | LoadError::Incomplete(_) => ExitError::CONFIG,
    };
    ExitError::new(code, error)
}

/// For a file of measurements or a trace.
pub fn of_data(error: LoadError) -> ExitError {
    let code = match error {
        LoadError::Unreadable { .. } => ExitError::NO_INPUT,
        LoadError::Invalid(_) | LoadError::Incomplete(_) => ExitError::DATA,
    };
    ExitError::new(code, error)
}
