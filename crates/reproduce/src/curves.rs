//! Measured curves of whole servers, from idle to full load.

use crate::error::ReproduceError;
use std::path::Path;

/// Columns of a measured curve, from idle to full load.
pub(crate) const LEVELS: [&str; 11] =
    ["idle", "p10", "p20", "p30", "p40", "p50", "p60", "p70", "p80", "p90", "p100"];

/// One server's power at eleven levels of load.
#[derive(Debug, Clone)]
pub(crate) struct Curve {
    /// Name of the server.
    pub(crate) system: String,
    /// Name of the processor.
    pub(crate) cpu: String,
    /// Power at each level, as a fraction of the range from idle to full power.
    pub(crate) shape: Vec<f64>,
}

impl Curve {
    /// Reads the curves of a file.
    ///
    /// # Errors
    /// A file that cannot be read, and a row with a missing level or a level not above idle.
    pub(crate) fn load_all(path: &Path) -> Result<Vec<Self>, ReproduceError> {
        let failed =
            |error: csv::Error| ReproduceError::Model(format!("{}: {error}", path.display()));
        let mut reader = csv::Reader::from_path(path).map_err(failed)?;
        let heads = reader.headers().map_err(failed)?.clone();
        let mut curves = Vec::new();
        for record in reader.records() {
            let record = record.map_err(failed)?;
            let cell = |name: &str| {
                let place = heads.iter().position(|head| head == name)?;
                record.get(place)
            };
            let watts: Option<Vec<f64>> =
                LEVELS.iter().map(|name| cell(name)?.trim().parse().ok()).collect();
            let is_usable = |watts: &Vec<f64>| {
                watts.iter().all(|power| power.is_finite()) && watts[LEVELS.len() - 1] > watts[0]
            };
            let [system, cpu] = ["system", "cpu"].map(|name| cell(name).unwrap_or_default());
            let watts = watts.filter(is_usable).ok_or_else(|| {
                ReproduceError::Model(format!("{}: {system} has no curve", path.display()))
            })?;
            curves.push(Self {
                system: system.to_owned(),
                cpu: cpu.to_owned(),
                shape: shape(&watts),
            });
        }
        Ok(curves)
    }
}

/// Returns the power at equal steps of load, as fractions of the range from idle to full power.
pub(crate) fn shape(watts: &[f64]) -> Vec<f64> {
    let (idle, full) = (watts[0], watts[watts.len() - 1]);
    watts.iter().map(|power| (power - idle) / (full - idle)).collect()
}
