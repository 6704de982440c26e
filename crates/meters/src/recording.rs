//! Recorded readings: CSV, a row per meter and tick, as `wattline meter record` writes them.

use crate::reading::{Description, Reading, Rejection, Scope};
use serde::{Deserialize, Serialize};
use std::io::Read;
use wattline_units::{Accuracy, Provenance, Source, Time};

/// Largest number of bad rows listed.
const MOST_LISTED: usize = 20;

/// Answer of one meter at one time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Time since the recording began, in seconds.
    pub time_seconds: f64,
    /// The meter.
    pub meter: String,
    /// Mean power since its last valid reading, or the power shown; none if rejected.
    pub power_watts: Option<f64>,
    /// Energy since its last valid reading, if it counts energy.
    pub energy_joules: Option<f64>,
    /// The time that the reading covers.
    pub elapsed_seconds: Option<f64>,
    /// Source of the figures.
    pub source: Source,
    /// Accuracy of the figures.
    pub accuracy: Accuracy,
    /// Reason for a missing figure, by [`Rejection::name`].
    pub rejected: Option<String>,
    /// Part that the meter sees.
    pub sees: Scope,
    /// The meter that already includes this one's part.
    pub part_of: Option<String>,
}

impl Row {
    /// Creates the row of an answer.
    pub fn new(at: Time, meter: &Description, result: &Result<Reading, Rejection>) -> Self {
        let reading = result.as_ref().ok();
        let provenance = reading.map_or(Provenance::UNAVAILABLE, |reading| reading.provenance);
        Self {
            // Microseconds are more than enough, and easier to read.
            time_seconds: (at.as_seconds() * 1e6).round() / 1e6,
            meter: meter.id.clone(),
            power_watts: reading.map(|reading| reading.power.get()),
            energy_joules: reading.and_then(|reading| Some(reading.energy?.get())),
            elapsed_seconds: reading.map(|reading| reading.elapsed.as_seconds()),
            source: provenance.source,
            accuracy: provenance.accuracy,
            rejected: result.as_ref().err().map(|why| why.name().to_owned()),
            sees: meter.scope,
            part_of: meter.part_of.clone(),
        }
    }
}

/// Invalid rows, with their lines.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.join("\n"))]
pub struct BadRows(Vec<String>);

/// Reads a recording.
///
/// # Errors
/// [`BadRows`] with all of them; also for a figure that is not finite.
pub fn read(from: impl Read) -> Result<Vec<Row>, BadRows> {
    let (mut rows, mut bad) = (Vec::new(), Vec::new());
    let mut reader = csv::Reader::from_reader(from);
    for row in reader.deserialize::<Row>() {
        match row {
            Ok(row) => match row.check() {
                Ok(()) => rows.push(row),
                Err(why) => bad.push(format!("at {} s, {}: {why}", row.time_seconds, row.meter)),
            },
            Err(error) => {
                let fatal = matches!(error.kind(), csv::ErrorKind::Io(_));
                bad.push(error.to_string());
                if fatal {
                    break;
                }
            }
        }
        if bad.len() >= MOST_LISTED {
            break;
        }
    }
    if bad.is_empty() { Ok(rows) } else { Err(BadRows(bad)) }
}

impl Row {
    fn check(&self) -> Result<(), String> {
        for (name, value) in [
            ("time_seconds", Some(self.time_seconds)),
            ("power_watts", self.power_watts),
            ("energy_joules", self.energy_joules),
            ("elapsed_seconds", self.elapsed_seconds),
        ] {
            if value.is_some_and(|value| !value.is_finite()) {
                return Err(format!("{name} is not a finite number"));
            }
        }
        match (self.power_watts, self.elapsed_seconds) {
            (Some(_), None) => Err("a power without elapsed_seconds".to_owned()),
            (_, Some(elapsed)) if elapsed < 0.0 => Err("elapsed_seconds is below 0".to_owned()),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HEAD: &str = "time_seconds,meter,power_watts,energy_joules,elapsed_seconds,source,\
                        accuracy,rejected,sees,part_of\n";

    #[test]
    fn rows_read_back_and_bad_ones_are_named() {
        let good = "0,a,,,,unavailable,unavailable,first,package,\n\
                    1,\"b,c\",20.5,41,2,measured,silver,,memory,d\n";
        let rows = read(format!("{HEAD}{good}").as_bytes()).unwrap();
        assert_eq!(rows[0].rejected.as_deref(), Some("first"));
        assert_eq!((rows[1].meter.as_str(), rows[1].power_watts), ("b,c", Some(20.5)));
        let mut writer = csv::Writer::from_writer(Vec::new());
        rows.iter().for_each(|row| writer.serialize(row).unwrap());
        assert_eq!(read(&writer.into_inner().unwrap()[..]).unwrap(), rows);

        let bad = "1,a,NaN,,1,measured,gold,,package,\n1,a,x,,1,measured,gold,,package,\n\
                   1,a,5,,-1,measured,gold,,package,\n1,a,5,,1,measured,gold,,fridge,\n";
        let error = read(format!("{HEAD}{bad}").as_bytes()).unwrap_err().to_string();
        for part in ["power_watts is not a finite", "line: 3", "below 0", "fridge"] {
            assert!(error.contains(part), "{part}: {error}");
        }
        let other = read("time,watts\n1,2\n".as_bytes()).unwrap_err().to_string();
        assert!(other.contains("time_seconds"), "{other}");
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>, rest in "[-0-9a-z,.\n\"]{0,200}") {
            let _ = read(&bytes[..]);
            let _ = read(format!("{HEAD}{rest}").as_bytes());
        }
    }
}
