//! The options that describe an external meter.

use crate::exit::ExitError;
use std::path::PathBuf;
use wattline_linux::sysfs::ReadError;
use wattline_meters::Meter;
use wattline_meters::external::{External, ExternalError, Options};
use wattline_units::Accuracy;

/// An external meter.
#[derive(Debug, clap::Args)]
pub struct ExternalMeter {
    /// File or pipe of an external meter: CSV with the columns time (s) and watts, or volts and
    /// amperes, or volts and shunt_volts.
    #[arg(long, value_name = "FILE", global = true)]
    external: Option<PathBuf>,
    /// Resistance of its shunt, in ohms.
    #[arg(long, value_name = "OHMS", requires = "external", global = true)]
    shunt_ohms: Option<f64>,
    /// Accuracy of the instrument: gold is within 5 %, silver 10 %, bronze 30 %.
    #[arg(long, value_name = "CLASS", default_value = "bronze", global = true)]
    external_accuracy: Class,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Class {
    Gold,
    Silver,
    Bronze,
}

impl ExternalMeter {
    /// Opens the external meter, if one was requested.
    pub fn open(&self) -> Result<Option<Box<dyn Meter>>, ExitError> {
        let Some(path) = &self.external else { return Ok(None) };
        let accuracy = match self.external_accuracy {
            Class::Gold => Accuracy::Gold,
            Class::Silver => Accuracy::Silver,
            Class::Bronze => Accuracy::Bronze,
        };
        let options = Options { shunt_ohms: self.shunt_ohms, accuracy, ..Options::default() };
        match External::open(path, options) {
            Ok(meter) => Ok(Some(Box::new(meter))),
            Err(error) => {
                let code = match &error {
                    ExternalError::Open(ReadError::NoPermission(_)) => ExitError::NO_PERMISSION,
                    ExternalError::Open(_) => ExitError::NO_INPUT,
                    ExternalError::Columns { .. } => ExitError::DATA,
                };
                Err(ExitError::new(code, error))
            }
        }
    }
}
