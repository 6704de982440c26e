//! Exit codes of what fails in the laboratory.

use crate::exit::ExitError;

impl From<wattline_demo::Error> for ExitError {
    fn from(error: wattline_demo::Error) -> Self {
        use wattline_demo::Error;
        use wattline_scale::ScaleError;
        let code = match error {
            Error::Testbed(error) => return error.into(),
            Error::Simulation(error) => return error.into(),
            Error::Scale(ScaleError::Model(error)) => return error.into(),
            Error::Traffic(error) => return wattline_sim::SimError::Traffic(error).into(),
            Error::Scale(ScaleError::Workers { .. }) => Self::CONFIG,
            Error::Scale(ScaleError::System(_) | ScaleError::Silent) => Self::IO,
        };
        Self::new(code, error)
    }
}

impl From<wattline_testbed::Error> for ExitError {
    fn from(error: wattline_testbed::Error) -> Self {
        use wattline_testbed::Error;
        let code = match error {
            Error::Privilege { .. } | Error::Forbidden { .. } => Self::NO_PERMISSION,
            Error::ProgramMissing { .. } | Error::Namespace(_) | Error::Rig { .. } => {
                Self::UNAVAILABLE
            }
            Error::Data { .. } | Error::Capture(_) => Self::DATA,
            Error::ProgramFailed { .. }
            | Error::ProgramHangs { .. }
            | Error::Io { .. }
            | Error::Generator { .. }
            | Error::Router { .. } => Self::IO,
        };
        Self::new(code, error)
    }
}
