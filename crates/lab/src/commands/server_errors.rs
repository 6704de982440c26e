//! Exit codes for errors of `wattline-server`.

use wattline::exit::ExitError;
use wattline_server::LoadError;

/// Returns the error of a server or component file: a person wrote it, so its mistakes count as
/// configuration errors.
pub fn config_error(error: LoadError) -> ExitError {
    load_error(error, ExitError::CONFIG)
}

/// Returns the error of a file of measurements or a trace.
pub fn data_error(error: LoadError) -> ExitError {
    load_error(error, ExitError::DATA)
}

fn load_error(error: LoadError, mistake: u8) -> ExitError {
    let code = match error {
        LoadError::Unreadable { .. } => ExitError::NO_INPUT,
        LoadError::Invalid(_) | LoadError::Incomplete(_) => mistake,
    };
    ExitError::new(code, error)
}
