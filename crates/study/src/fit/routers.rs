//! Power of routers under traffic, from the laboratory rows of NetPowerBench, compared with its own
//! models.
//!
//! In a snake test every port of a router forwards packets of one length at one rate. Power is
//! fitted as a constant, an energy per bit and an energy per packet. The error is measured at
//! lengths that the fit did not see.

use super::{FitError, linear};
use nalgebra::{DMatrix, DVector};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use wattline_files::{MOST_TEXT, read_text};

/// Mean of a row of a snake test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SnakeRow {
    /// Ports under traffic.
    pub ports: f64,
    /// Length of the packets in bytes.
    pub bytes: f64,
    /// Rate of each port in Gbit/s.
    pub gbps: f64,
    /// Mean measured power in W.
    pub watts: f64,
}

impl SnakeRow {
    fn bits(&self) -> f64 {
        self.ports * self.gbps * 1e9
    }

    fn packets(&self) -> f64 {
        self.bits() / (8.0 * self.bytes)
    }
}

/// Published model of a port's kind.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Published {
    base: f64,
    port: f64,
    transceiver: f64,
    offset: f64,
    bit: f64,
    packet: f64,
}

impl Published {
    fn predict(&self, row: &SnakeRow) -> f64 {
        let up = self.port + self.transceiver + self.offset;
        self.base + row.ports * up + self.bit * row.bits() + self.packet * row.packets()
    }
}

/// Rows of one router with one kind of port.
#[derive(Debug, Clone, PartialEq)]
pub struct SnakeTest {
    /// Name of the router.
    pub device: String,
    /// Kind of port, transceiver and speed.
    pub kind: String,
    /// The rows.
    pub rows: Vec<SnakeRow>,
    published: Option<Published>,
}

/// Mean absolute errors of power.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SnakeErrors {
    /// Difference between the highest and the lowest power in W.
    pub swing_watts: f64,
    /// Error of our fit at unseen lengths, in W.
    pub unseen_watts: f64,
    /// Error of the published model in W; `None` without a model.
    pub published_watts: Option<f64>,
    /// Error without the constant part, which other ports shift.
    pub published_shape_watts: Option<f64>,
}

impl SnakeTest {
    /// Reads all routers below a directory, each from `power_data.yml` and `power_model.yml`.
    ///
    /// # Errors
    /// A directory or file that cannot be read.
    pub fn load_all(directory: &Path) -> Result<Vec<Self>, FitError> {
        let failed = |path: &Path, error: &dyn std::fmt::Display| {
            FitError::Unidentified(format!("{}: {error}", path.display()))
        };
        let entries = std::fs::read_dir(directory).map_err(|error| failed(directory, &error))?;
        let mut folders: Vec<_> =
            entries.filter_map(Result::ok).map(|entry| entry.path()).collect();
        folders.sort();
        let mut all = Vec::new();
        for folder in folders.iter().filter(|folder| folder.join("power_data.yml").exists()) {
            let read = |name: &str| {
                let path = folder.join(name);
                let text = read_text(&path, MOST_TEXT).map_err(|error| failed(&path, &error))?;
                parse(&text).map_err(|error| failed(&path, &error))
            };
            let device = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let model = if folder.join("power_model.yml").exists() {
                read("power_model.yml")?
            } else {
                Value::Null
            };
            all.extend(Self::collect(&device, &read("power_data.yml")?, &model));
        }
        Ok(all)
    }

    /// Collects the snake tests of one router.
    fn collect(device: &str, data: &Value, model: &Value) -> Vec<Self> {
        let mut all = Vec::new();
        for (port, transceivers) in entries(data) {
            for (transceiver, tests) in entries(transceivers) {
                for (speed, by_ports) in entries(&tests["snake-test"]) {
                    let rows = rows(by_ports);
                    if rows.is_empty() {
                        continue;
                    }
                    // Some files name the port's kind differently in the model (QSFP, QSFP28).
                    let own = &model[port][transceiver][speed];
                    let other = entries(model).map(|(_, kinds)| &kinds[transceiver][speed]);
                    let found = [own].into_iter().chain(other).find_map(published);
                    all.push(Self {
                        device: device.to_owned(),
                        kind: format!("{port} {transceiver} {speed}"),
                        rows,
                        published: found,
                    });
                }
            }
        }
        all
    }

    /// Fits constant, energy of a bit and energy of a packet.
    fn fit(rows: &[&SnakeRow]) -> Option<[f64; 3]> {
        // Columns of similar size: W, W per Tbit/s, W per Gpps.
        let features = rows.iter().flat_map(|row| [1.0, row.bits() / 1e12, row.packets() / 1e9]);
        let design = DMatrix::from_row_iterator(rows.len(), 3, features);
        let target = DVector::from_iterator(rows.len(), rows.iter().map(|row| row.watts));
        let values = linear::solve(&design, &target)?.estimates;
        Some([values[0].value, values[1].value, values[2].value])
    }

    /// Returns the errors; `None` if the rows have too few lengths or rates.
    pub fn errors(&self) -> Option<SnakeErrors> {
        let lengths: BTreeSet<u64> = self.rows.iter().map(|row| row.bytes as u64).collect();
        let mut unseen = Vec::new();
        for length in lengths {
            let (out, seen): (Vec<&SnakeRow>, Vec<&SnakeRow>) =
                self.rows.iter().partition(|row| row.bytes as u64 == length);
            let [constant, bit, packet] = Self::fit(&seen)?;
            let predict =
                |row: &SnakeRow| constant + bit * row.bits() / 1e12 + packet * row.packets() / 1e9;
            unseen.extend(out.iter().map(|row| (predict(row) - row.watts).abs()));
        }
        let mean = |errors: &[f64]| errors.iter().sum::<f64>() / errors.len() as f64;
        let published_errors: Option<Vec<f64>> = self.published.map(|published| {
            self.rows.iter().map(|row| published.predict(row) - row.watts).collect()
        });
        let absolute = |errors: &Vec<f64>, from: f64| {
            mean(&errors.iter().map(|error| (error - from).abs()).collect::<Vec<_>>())
        };
        let watts = || self.rows.iter().map(|row| row.watts);
        Some(SnakeErrors {
            swing_watts: watts().fold(f64::MIN, f64::max) - watts().fold(f64::MAX, f64::min),
            unseen_watts: mean(&unseen),
            published_watts: published_errors.as_ref().map(|errors| absolute(errors, 0.0)),
            published_shape_watts: published_errors
                .as_ref()
                .map(|errors| absolute(errors, mean(errors))),
        })
    }
}

/// Parses a file, whose figures may be NaN.
fn parse(text: &str) -> Result<Value, serde_saphyr::Error> {
    let options = serde_saphyr::options! {
        non_finite_float_policy: serde_saphyr::NonFiniteFloatPolicy::PassThrough,
    };
    serde_saphyr::from_str_with_options(text, options)
}

fn entries(value: &Value) -> impl Iterator<Item = (&str, &Value)> {
    value.as_object().into_iter().flatten().map(|(key, value)| (key.as_str(), value))
}

/// Collects the rows below ports, lengths and rates.
fn rows(by_ports: &Value) -> Vec<SnakeRow> {
    let mut all = Vec::new();
    for (ports, by_length) in entries(by_ports) {
        for (bytes, by_rate) in entries(by_length) {
            for (gbps, row) in entries(by_rate) {
                let readings: Vec<f64> = match row["power"].as_array() {
                    Some(readings) => readings.iter().filter_map(Value::as_f64).collect(),
                    None => continue,
                };
                let numbers = [ports, bytes, gbps].map(|text| text.parse::<f64>().ok());
                if let ([Some(ports), Some(bytes), Some(gbps)], false) =
                    (numbers, readings.is_empty())
                {
                    let watts = readings.iter().sum::<f64>() / readings.len() as f64;
                    all.push(SnakeRow { ports, bytes, gbps, watts });
                }
            }
        }
    }
    all
}

fn published(model: &Value) -> Option<Published> {
    let of = |key: &str| model[key].as_f64();
    Some(Published {
        base: of("P_BASE")?,
        port: of("P_PORT")?,
        transceiver: of("P_TRX")?,
        offset: of("P_OFFSET")?,
        bit: of("E_BIT")?,
        packet: of("E_PKT")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATA: &str = "\
QSFP:
  PCC:
    idle:
      4:
        power: [99.0]
    snake-test:
      100G:
        4:
          256:
            10.0: {power: [101.0, 103.0], ts: [a, b]}
            50.0: {power: [112.0], ts: [a]}
          1024:
            10.0: {power: [101.25], ts: [a]}
            50.0: {power: [106.25], ts: [a]}
          4096:
            10.0: {power: [101.0625], ts: [a]}
            50.0: {power: [105.3125], ts: [a]}
base:
  power: [90.0]
";

    #[test]
    fn rows_are_read_and_an_unseen_length_is_predicted() {
        let data = parse(DATA).unwrap();
        let model = parse(
            "QSFP28: {PCC: {100G: {P_BASE: 90, P_PORT: 1, P_TRX: 1, P_OFFSET: .5, E_BIT: 2.5e-11, E_PKT: .nan}}}",
        );
        let tests = SnakeTest::collect("router", &data, &model.unwrap());
        let [test] = tests.as_slice() else { panic!("{tests:?}") };
        assert_eq!((test.kind.as_str(), test.rows.len()), ("QSFP PCC 100G", 6));
        let first = test.rows.iter().find(|row| (row.bytes, row.gbps) == (256.0, 10.0)).unwrap();
        assert_eq!((first.ports, first.watts), (4.0, 102.0));
        assert!(test.published.is_none(), "a model of NaN");
        let errors = test.errors().unwrap();
        assert_eq!(errors.swing_watts, 112.0 - 101.0625);
        assert!(errors.unseen_watts < 0.5 * errors.swing_watts, "{errors:?}");
        assert_eq!(errors.published_watts, None);
    }

    #[test]
    fn published_model_is_compared_with_the_rows() {
        let data = parse(DATA).unwrap();
        let model = parse(
            "QSFP28: {PCC: {100G: {P_BASE: 90, P_PORT: 1, P_TRX: 1, P_OFFSET: .5, E_BIT: 2.5e-11, E_PKT: 0}}}",
        );
        let test = SnakeTest::collect("router", &data, &model.unwrap()).remove(0);
        let errors = test.errors().unwrap();
        // 101 W at 10 Gbit/s of four ports and 105 W at 50.
        let [all, shape] =
            [errors.published_watts, errors.published_shape_watts].map(Option::unwrap);
        assert!(
            (all - (1.0 + 7.0 + 0.25 + 1.25 + 0.0625 + 0.3125) / 6.0).abs() < 1e-9,
            "{errors:?}"
        );
        assert!(shape < 2.0 * all, "{errors:?}");
    }
}
