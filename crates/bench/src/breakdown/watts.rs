//! Power of components by subtraction (Liao and Bhuyan, section 4.1: dynamic power is the power
//! under load less the power when idle), from this machine's meters.
//!
//! Three scenarios: nothing runs, the link is up, data flows. The first difference is the power of
//! the link, the second the power of the data. On a machine without meters there are no figures,
//! and the report lists the missing meters with the reasons.

use serde::Serialize;
use std::path::Path;
use std::time::{Duration, Instant};
use wattline_linux::sysfs::Tree;
use wattline_meters::external::{External, Options};
use wattline_meters::{Meter, Missing, Scope, disjoint, survey};
use wattline_testbed::Error;
use wattline_units::{Span, Time};

/// Time between readings: the counters of processors wrap within a minute, and sensors update once
/// a second.
const PERIOD: Duration = Duration::from_millis(500);

/// Interval between two checks for the end of the work.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Mean power of one meter in one scenario.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MeterPower {
    /// The meter.
    pub meter: String,
    /// Part of the machine that the component covers.
    pub scope: Scope,
    /// Source of the figure.
    pub source: String,
    /// Accuracy class of the figure.
    pub accuracy: String,
    /// Watts; `None` if every reading was rejected.
    pub power_watts: Option<f64>,
}

/// Power of one component, as differences between scenarios.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ComponentPower {
    /// The meter.
    pub meter: String,
    /// Part of the machine that the meter covers.
    pub scope: Scope,
    /// Source of the meter's figures.
    pub source: String,
    /// Accuracy class of the meter; differences are less accurate.
    pub accuracy: String,
    /// Power when nothing runs.
    pub idle_watts: f64,
    /// Additional power of the link.
    pub link_watts: f64,
    /// Additional power of the data.
    pub data_watts: f64,
    /// Additional energy per packet of data.
    pub data_joules_per_packet: f64,
}

/// This machine's meters.
pub struct Meters {
    meters: Vec<Box<dyn Meter>>,
    /// Missing meters, in words; empty if there are meters.
    pub missing: String,
    began: Instant,
}

impl Meters {
    /// Finds the meters.
    pub fn find(tree: &Tree) -> Self {
        let found = survey(tree);
        let missing = match found.meters.is_empty() {
            false => String::new(),
            true => {
                let reason = |missing: &Missing| format!("{} ({})", missing.what, missing.why);
                let reasons: Vec<String> = found.missing.iter().map(reason).collect();
                format!("no meter on this machine: {}", reasons.join("; "))
            }
        };
        Self { meters: found.meters, missing, began: Instant::now() }
    }

    /// Returns the name of a device's meter. `name` is a meter of this machine or the file of an
    /// external meter, which is then read as well.
    ///
    /// # Errors
    /// Fails when there is neither.
    pub fn device_meter(&mut self, name: &str, shunt_ohms: Option<f64>) -> Result<String, Error> {
        if self.meters.iter().any(|meter| meter.description().id == name) {
            return Ok(name.to_owned());
        }
        let options = Options { shunt_ohms, scope: Scope::Device, ..Options::default() };
        let meter = External::open(Path::new(name), options).map_err(|error| Error::Data {
            path: name.into(),
            reason: format!("no meter of `wattline meter list`, nor the file of one: {error}"),
        })?;
        let id = meter.description().id.clone();
        self.meters.push(Box::new(meter));
        self.missing.clear();
        Ok(id)
    }

    /// Returns the names of the meters whose sum is the server's metered power.
    pub fn server_meters(&self) -> Vec<String> {
        let all = self.meters.iter().map(|meter| meter.description());
        disjoint(all).into_iter().map(|meter| meter.id.clone()).collect()
    }

    /// Reads the meters while `work` runs, from its beginning to its end.
    pub fn during<T: Send>(&mut self, work: impl FnOnce() -> T + Send) -> (T, Vec<MeterPower>) {
        if self.meters.is_empty() {
            return (work(), Vec::new());
        }
        std::thread::scope(|scope| {
            let working = scope.spawn(work);
            // The first reading of a counter has no interval; the last one covers the rest.
            let mut sums = vec![Sum::default(); self.meters.len()];
            self.read(&mut sums, true);
            let mut last = Instant::now();
            loop {
                std::thread::sleep(POLL_INTERVAL);
                let ended = working.is_finished();
                if ended || last.elapsed() >= PERIOD {
                    self.read(&mut sums, false);
                    last = Instant::now();
                }
                if ended {
                    break;
                }
            }
            let result = working.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            let powers = self.meters.iter().zip(sums).map(|(meter, sum)| {
                let meter = meter.description();
                MeterPower {
                    meter: meter.id.clone(),
                    scope: meter.scope,
                    source: meter.provenance.source.to_string(),
                    accuracy: meter.provenance.accuracy.to_string(),
                    power_watts: sum.mean(),
                }
            });
            (result, powers.collect())
        })
    }

    fn read(&mut self, sums: &mut [Sum], first: bool) {
        let now = Time::ZERO + Span::from(self.began.elapsed());
        for (meter, sum) in self.meters.iter_mut().zip(sums) {
            // Rejected readings are skipped: the next interval begins at the last valid reading.
            if let Ok(reading) = meter.read(now)
                && !first
            {
                sum.add(reading.power.get(), reading.elapsed.as_seconds());
            }
        }
    }
}

/// Power over time.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    joules: f64,
    seconds: f64,
}

impl Sum {
    fn add(&mut self, watts: f64, seconds: f64) {
        // A reading of power alone covers no interval.
        let seconds = if seconds > 0.0 { seconds } else { PERIOD.as_secs_f64() };
        self.joules += watts * seconds;
        self.seconds += seconds;
    }

    fn mean(self) -> Option<f64> {
        (self.seconds > 0.0).then_some(self.joules / self.seconds)
    }
}

/// Computes the power of link and data from meters with a figure in all three scenarios.
pub fn components(
    idle: &[MeterPower],
    link: &[MeterPower],
    load: &[MeterPower],
    rate_pps: f64,
) -> Vec<ComponentPower> {
    let of = |all: &[MeterPower], meter: &str| {
        all.iter().find(|power| power.meter == meter).and_then(|power| power.power_watts)
    };
    idle.iter()
        .filter_map(|power| {
            let (idle, link) = (power.power_watts?, of(link, &power.meter)?);
            let data = of(load, &power.meter)? - link;
            Some(ComponentPower {
                meter: power.meter.clone(),
                scope: power.scope,
                source: power.source.clone(),
                accuracy: power.accuracy.clone(),
                idle_watts: idle,
                link_watts: link - idle,
                data_watts: data,
                data_joules_per_packet: data / rate_pps,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn power(meter: &str, watts: Option<f64>) -> MeterPower {
        MeterPower {
            meter: meter.into(),
            scope: Scope::Package,
            source: "measured".into(),
            accuracy: "gold".into(),
            power_watts: watts,
        }
    }

    #[test]
    fn components_are_differences_of_meters_with_all_figures() {
        let idle = [power("cpu", Some(40.0)), power("memory", Some(5.0)), power("gone", None)];
        let link = [power("cpu", Some(41.0)), power("memory", None), power("gone", Some(1.0))];
        let load = [power("cpu", Some(61.0)), power("memory", Some(9.0)), power("gone", None)];
        let found = components(&idle, &link, &load, 1e6);
        let [cpu] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!((cpu.idle_watts, cpu.link_watts, cpu.data_watts), (40.0, 1.0, 20.0));
        assert!((cpu.data_joules_per_packet - 20e-6).abs() < 1e-12);
    }

    #[test]
    fn missing_meters_are_listed() {
        let root = tempfile::tempdir().unwrap();
        let mut meters = Meters::find(&Tree::at(root.path()));
        assert!(meters.missing.starts_with("no meter on this machine: "), "{}", meters.missing);
        let (answer, powers) = meters.during(|| 7);
        assert_eq!((answer, powers.len()), (7, 0));
    }

    #[test]
    fn sensor_is_read_while_work_runs() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("sys/class/hwmon/hwmon0");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("name"), "power_meter\n").unwrap();
        fs::write(folder.join("power1_average"), "42000000\n").unwrap();
        fs::write(folder.join("power1_input"), "42000000\n").unwrap();
        let mut meters = Meters::find(&Tree::at(root.path()));
        assert_eq!(meters.missing, "");
        let ((), powers) = meters.during(|| std::thread::sleep(Duration::from_millis(1_200)));
        let [power] = powers.as_slice() else { panic!("{powers:?}") };
        assert!((power.power_watts.unwrap() - 42.0).abs() < 0.1, "{power:?}");
    }
}
