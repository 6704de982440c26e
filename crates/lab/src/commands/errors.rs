//! Exit codes of failures in the laboratory.

use crate::commands::simulation::{model_error, simulation_error};
use wattline::exit::ExitError;
use wattline_sim::SimError;

/// Returns the exit code and message of this error.
pub fn demo_error(error: wattline_demo::Error) -> ExitError {
    use wattline_demo::Error;
    use wattline_scale::ScaleError;
    let code = match error {
        Error::Testbed(error) => return testbed_error(error),
        Error::Simulation(error) => return simulation_error(error),
        Error::Scale(ScaleError::Model(error)) => return model_error(error),
        Error::Traffic(error) => return simulation_error(SimError::Traffic(error)),
        Error::Scale(ScaleError::Workers { .. }) => ExitError::CONFIG,
        Error::Scale(ScaleError::System(_) | ScaleError::Silent) => ExitError::IO,
    };
    ExitError::new(code, error)
}

/// Returns the exit code and message of this error.
pub fn testbed_error(error: wattline_testbed::Error) -> ExitError {
    use wattline_testbed::Error;
    let code = match error {
        Error::Privilege { .. } | Error::Forbidden { .. } => ExitError::NO_PERMISSION,
        Error::ProgramMissing { .. } | Error::Namespace(_) | Error::Rig { .. } => {
            ExitError::UNAVAILABLE
        }
        Error::Data { .. } | Error::Capture(_) => ExitError::DATA,
        Error::ProgramFailed { .. }
        | Error::ProgramHangs { .. }
        | Error::Io { .. }
        | Error::Generator { .. }
        | Error::Router { .. } => ExitError::IO,
    };
    ExitError::new(code, error)
}
