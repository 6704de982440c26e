//! Meters of a command.

use super::external::ExternalMeter;
use crate::commands::root::Root;
use crate::exit::ExitError;
use wattline_meters::{Meter, Missing, Survey, survey};

/// Selection of meters.
#[derive(Debug, clap::Args)]
pub(super) struct Meters {
    #[command(flatten)]
    root: Root,
    #[command(flatten)]
    external: ExternalMeter,
}

impl Meters {
    pub(super) fn open(&self) -> Result<Survey, ExitError> {
        let mut survey = survey(&self.root.tree()?);
        survey.meters.extend(self.external.open()?);
        Ok(survey)
    }

    /// Returns at least one meter, or the reason why there is none.
    pub(super) fn some(&self) -> Result<Vec<Box<dyn Meter>>, ExitError> {
        let Survey { meters, missing } = self.open()?;
        if !meters.is_empty() {
            return Ok(meters);
        }
        Err(unavailable(&missing))
    }
}

/// Returns the error of a command that needs a meter on a machine without one, with advice.
pub(in crate::commands) fn unavailable(missing: &[Missing]) -> ExitError {
    let mut message = String::from("power is unavailable: no meter can be read");
    for Missing { what, why, remedy, .. } in missing {
        message.push_str(&format!("\n{what}: {why}; {remedy}"));
    }
    // If the right to read is missing, other hardware is no remedy.
    let denied = missing.iter().any(|missing| missing.permission);
    let code = if denied { ExitError::NO_PERMISSION } else { ExitError::UNAVAILABLE };
    ExitError::new(code, message)
}
