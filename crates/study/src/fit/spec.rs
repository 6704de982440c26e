//! Power of whole servers by their size and year, from published results of SPECpower_ssj2008.
//!
//! Idle and full power are fitted in logarithms to cores, processors, memory and the date. The load
//! was Java, not packets, and each server was tuned by its maker. So a fit gives a range for
//! similar servers, not a measurement of one.

use super::Estimate;
use super::error::FitError;
use crate::columns::Findings;
use nalgebra::{DMatrix, DVector};
use serde::{Deserialize, Serialize};
use wattline_files::{MOST_TEXT, read_text};
use wattline_server::{InvalidFile, LoadError, ProblemKind};
use wattline_units::named;

/// One published result.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct SpecResult {
    /// Month of publication, as `Nov-2008`.
    pub published: String,
    /// Name of the server.
    pub system: String,
    /// Name of the processor.
    pub cpu: String,
    /// Processors.
    pub chips: usize,
    /// Cores of all processors.
    pub cores: usize,
    /// Nominal frequency in MHz.
    pub processor_mhz: f64,
    /// Memory in GB.
    pub memory_gb: f64,
    /// Power at full load in W.
    pub watts_full: f64,
    /// Power at active idle in W.
    pub watts_idle: f64,
    /// Number of the row, from 1.
    #[serde(skip)]
    pub row: usize,
    /// Date of publication in years.
    #[serde(skip)]
    pub year: f64,
}

/// Results of a file.
#[derive(Debug, Clone, PartialEq)]
pub struct SpecResults {
    /// Plausible rows.
    pub rows: Vec<SpecResult>,
    /// Contradictory rows by number, with the reason; they are left out.
    pub refused: Vec<(usize, String)>,
}

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Returns a month such as `Nov-2008` in years.
fn year_of(text: &str) -> Option<f64> {
    let (month, year) = text.split_once('-')?;
    let month = MONTHS.iter().position(|name| *name == month)?;
    let year = year.parse::<u16>().ok().filter(|year| (2000..=2100).contains(year))?;
    Some(f64::from(year) + month as f64 / 12.0)
}

impl SpecResult {
    /// Returns the contradiction in a row, if there is one.
    fn contradiction(&self) -> Option<String> {
        let Self { chips, cores, watts_full, watts_idle, .. } = self;
        let positive = [self.processor_mhz, self.memory_gb, *watts_idle, *watts_full];
        if *chips == 0 || *cores == 0 || !positive.iter().all(|v| v.is_finite() && *v > 0.0) {
            return Some("has figures that are not above zero".to_owned());
        }
        if watts_idle >= watts_full {
            return Some(format!(
                "idles at {watts_idle} W, not below its {watts_full} W at full load"
            ));
        }
        if watts_full / (*chips as f64) < LEAST_WATTS {
            return Some(format!(
                "claims {chips} processors at {watts_full} W, less than {LEAST_WATTS} W each"
            ));
        }
        if self.memory_gb / (*cores as f64) < LEAST_MEMORY {
            let memory = self.memory_gb;
            return Some(format!("has {memory} GB for {cores} cores: another unit than GB"));
        }
        (cores % chips != 0).then(|| format!("{cores} cores are no multiple of {chips} processors"))
    }

    fn features(&self) -> [f64; FEATURES] {
        let decades = (self.year - 2015.0) / 10.0;
        let logarithm = |value: f64| value.ln();
        [
            1.0,
            logarithm(self.cores as f64),
            logarithm(self.chips as f64),
            logarithm(self.memory_gb),
            decades,
            decades * decades,
        ]
    }
}

/// Least power of a processor at full load, with its share of the server, in W: a ninth of the
/// least in all other published results.
const LEAST_WATTS: f64 = 5.0;
/// Least memory per core in GB: an eighth of the least in other results. Results given in terabytes
/// have far less.
const LEAST_MEMORY: f64 = 1.0 / 16.0;
/// Results averaged for a prediction without a model.
const NEIGHBOURS: usize = 5;

/// Constant, cores, chips, memory, date and its square.
const FEATURES: usize = 6;

impl SpecResults {
    /// Reads a file of results.
    ///
    /// # Errors
    /// A file that cannot be read, or with cells that are not numbers.
    pub fn load(path: &str) -> Result<Self, LoadError> {
        let text = read_text(path.as_ref(), MOST_TEXT).map_err(|cause| LoadError::Unreadable {
            file: path.to_string(),
            cause,
            hint: String::new(),
        })?;
        Ok(Self::parse(path, &text)?)
    }

    /// Parses CSV text with the columns published, system, cpu, chips, cores, processor_mhz,
    /// memory_gb, watts_full and watts_idle. Other columns are ignored.
    ///
    /// # Errors
    /// Lists all lines with cells that are not numbers.
    pub fn parse(file: &str, text: &str) -> Result<Self, InvalidFile> {
        let mut found = Findings::default();
        let mut results = Self { rows: Vec::new(), refused: Vec::new() };
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        for (index, read) in reader.deserialize::<SpecResult>().enumerate() {
            let row = index + 1;
            let result = match read {
                Ok(result) => result,
                Err(error) => {
                    found.note(Some(row + 1), "", None, ProblemKind::Syntax(error.to_string()));
                    continue;
                }
            };
            let Some(year) = year_of(&result.published) else {
                let kind = ProblemKind::Syntax("must be a month such as Nov-2008".to_owned());
                found.note(Some(row + 1), "published", Some(&result.published), kind);
                continue;
            };
            match result.contradiction() {
                Some(why) => results.refused.push((row, why)),
                None => results.rows.push(SpecResult { row, year, ..result }),
            }
        }
        found.finish(file, results)
    }

    /// Returns a row by its number.
    pub fn row(&self, number: usize) -> Option<&SpecResult> {
        self.rows.iter().find(|result| result.row == number)
    }
}

named! {
    /// Power to fit.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Load {
        /// Active idle.
        Idle = "idle",
        /// Full load.
        Full = "full load",
    }
}

impl Load {
    /// Returns the published power in W.
    pub fn watts(self, result: &SpecResult) -> f64 {
        match self {
            Self::Idle => result.watts_idle,
            Self::Full => result.watts_full,
        }
    }
}

/// A fit of one power.
#[derive(Debug, Clone)]
pub struct SpecFit {
    coefficients: DVector<f64>,
    inverse: DMatrix<f64>,
    deviation: f64,
    freedom: usize,
}

impl SpecFit {
    /// Fits one power to results.
    ///
    /// # Errors
    /// Too few results, or results that are too similar.
    pub fn new(results: &[&SpecResult], load: Load) -> Result<Self, FitError> {
        let unidentified = || {
            FitError::Unidentified(format!(
                "{} results cannot fix {FEATURES} parameters: they need different numbers of \
                 cores, processors, memories and dates",
                results.len()
            ))
        };
        let freedom = results
            .len()
            .checked_sub(FEATURES)
            .filter(|rest| *rest > 0)
            .ok_or_else(unidentified)?;
        let features = results.iter().flat_map(|result| result.features());
        let design = DMatrix::from_row_iterator(results.len(), FEATURES, features);
        let logarithms = results.iter().map(|result| load.watts(result).ln());
        let target = DVector::from_iterator(results.len(), logarithms);
        let inverse = (design.transpose() * &design).try_inverse().ok_or_else(unidentified)?;
        let coefficients = &inverse * design.transpose() * &target;
        let squares = (&target - &design * &coefficients).norm_squared();
        let deviation = (squares / freedom as f64).sqrt();
        if !deviation.is_finite() || !coefficients.iter().all(|value| value.is_finite()) {
            return Err(unidentified());
        }
        Ok(Self { coefficients, inverse, deviation, freedom })
    }

    /// Predicts the power of a server in W, with the prediction interval of a single new result.
    pub fn predict(&self, result: &SpecResult) -> Estimate {
        let features = DVector::from_row_slice(&result.features());
        let spread = 1.0 + (features.transpose() * &self.inverse * &features)[(0, 0)];
        let value = self.coefficients.dot(&features);
        Estimate::new(value, self.deviation * spread.sqrt(), self.freedom).exponential()
    }
}

/// Predicts the power of a server in W without a model: geometric mean of the most similar results, by
/// cores, processors, memory, frequency and date, each in standard deviations.
fn nearest(results: &[&SpecResult], of: &SpecResult, load: Load) -> f64 {
    let place = |it: &SpecResult| {
        let [_, cores, chips, memory, date, _] = it.features();
        [cores, chips, memory, date, it.processor_mhz.ln()]
    };
    let count = results.len() as f64;
    let scale: [f64; 5] = std::array::from_fn(|axis| {
        let mean = results.iter().map(|it| place(it)[axis]).sum::<f64>() / count;
        let squares: f64 = results.iter().map(|it| (place(it)[axis] - mean).powi(2)).sum();
        (squares / count).sqrt().max(f64::MIN_POSITIVE)
    });
    let own = place(of);
    let distance = |it: &SpecResult| {
        let there = place(it);
        (0..5).map(|axis| ((there[axis] - own[axis]) / scale[axis]).powi(2)).sum::<f64>()
    };
    let mut near: Vec<(f64, f64)> =
        results.iter().map(|it| (distance(it), load.watts(it).ln())).collect();
    near.sort_by(|one, other| one.0.total_cmp(&other.0));
    near.truncate(NEIGHBOURS);
    (near.iter().map(|(_, watts)| watts).sum::<f64>() / near.len() as f64).exp()
}

/// Errors of a fit on unseen results.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SpecError {
    /// Number of fitted results.
    pub fitted: usize,
    /// Number of predicted results.
    pub predicted: usize,
    /// Half of the errors are smaller, as a fraction of the published power.
    pub median: f64,
    /// Nine of ten errors are smaller.
    pub nine_tenths: f64,
    /// Half of the errors of the mean of the most similar results are smaller.
    pub nearest_median: f64,
    /// Share of results within the interval of [`super::CONFIDENCE`].
    pub within: f64,
}

impl SpecError {
    /// Fits the results that `seen` selects, and predicts the others.
    ///
    /// # Errors
    /// As [`SpecFit::new`], and if no result is left to predict.
    pub fn measure(
        results: &[SpecResult],
        load: Load,
        seen: impl Fn(&SpecResult) -> bool,
    ) -> Result<Self, FitError> {
        let (fitted, others): (Vec<&SpecResult>, Vec<&SpecResult>) =
            results.iter().partition(|result| seen(result));
        if others.is_empty() {
            return Err(FitError::Unidentified("no result is left to predict".to_owned()));
        }
        let fit = SpecFit::new(&fitted, load)?;
        let mut errors = Vec::with_capacity(others.len());
        let mut of_nearest = Vec::with_capacity(others.len());
        let mut within = 0;
        for result in &others {
            let (estimate, watts) = (fit.predict(result), load.watts(result));
            errors.push((estimate.value / watts - 1.0).abs());
            of_nearest.push((nearest(&fitted, result, load) / watts - 1.0).abs());
            within += usize::from(estimate.contains(watts));
        }
        errors.sort_by(f64::total_cmp);
        of_nearest.sort_by(f64::total_cmp);
        let at = |share: f64| {
            let index = (share * errors.len() as f64) as usize;
            errors[index.min(errors.len() - 1)]
        };
        Ok(Self {
            fitted: fitted.len(),
            predicted: others.len(),
            median: at(0.5),
            nine_tenths: at(0.9),
            nearest_median: of_nearest[of_nearest.len() / 2],
            within: within as f64 / others.len() as f64,
        })
    }
}

/// Selects two of three results pseudorandomly, always the same ones.
pub fn two_of_three(result: &SpecResult) -> bool {
    let hash = (result.row as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (hash ^ (hash >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 33;
    !mixed.is_multiple_of(3)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns results of servers whose power follows a law, with noise of a few percent.
    fn results() -> Vec<SpecResult> {
        (1..=300)
            .map(|row| {
                let chips = 1 + row % 2;
                let cores = chips * [4, 8, 16, 32, 64][row / 2 % 5];
                let memory_gb: f64 = [16.0, 64.0, 256.0][row / 3 % 3];
                let year = 2007.0 + (row * 7 % 19) as f64;
                let noise = 1.0 + 0.05 * ((row * 37 % 101) as f64 / 50.0 - 1.0);
                let watts_full = 30.0 * (cores as f64).powf(0.5) * memory_gb.powf(0.1) * noise;
                SpecResult {
                    published: String::new(),
                    system: String::new(),
                    cpu: String::new(),
                    chips,
                    cores,
                    processor_mhz: 2000.0,
                    memory_gb,
                    watts_full,
                    watts_idle: watts_full / 4.0,
                    row,
                    year,
                }
            })
            .collect()
    }

    #[test]
    fn law_is_recovered_and_its_interval_holds() {
        let results = results();
        for load in Load::ALL {
            for seen in [two_of_three as fn(&SpecResult) -> bool, |result| result.year < 2019.0] {
                let error = SpecError::measure(&results, load, seen).unwrap();
                assert!(error.median < 0.04 && error.nine_tenths < 0.07, "{error:?}");
                assert!(error.within > 0.9 && error.nearest_median < 0.3, "{error:?}");
                assert_eq!(error.fitted + error.predicted, 300);
            }
        }
    }

    #[test]
    fn another_power_is_outside_the_interval() {
        let mut results = results();
        results.iter_mut().filter(|r| !two_of_three(r)).for_each(|r| r.watts_full *= 3.0);
        let error = SpecError::measure(&results, Load::Full, two_of_three).unwrap();
        assert_eq!(error.within, 0.0, "{error:?}");
        assert!(error.median > 0.6, "{error:?}");
    }

    #[test]
    fn contradictory_rows_are_left_out_and_named() {
        let head = "published,system,cpu,chips,cores,processor_mhz,memory_gb,watts_full,watts_idle";
        let rows = [
            "Nov-2008,a,b,2,8,2500,8,170,86",
            "Nov-2008,a,b,2,8,2500,8,86,170",
            "Nov-2008,a,b,2,9,2500,8,170,86",
            "Dec-2021,a,b,384,384,2000,256,269,206",
            "Mar-2025,a,b,4,640,2000,1,1557,300",
        ];
        let text = format!("{head}\n{}\n", rows.join("\n"));
        let results = SpecResults::parse("a.csv", &text).unwrap();
        assert_eq!(results.rows.len(), 1);
        assert_eq!(results.row(1).unwrap().year, 2008.0 + 10.0 / 12.0);
        assert!(results.row(2).is_none());
        let why: Vec<&str> = results.refused.iter().map(|(_, why)| why.as_str()).collect();
        assert!(why[0].contains("idles at 170 W") && why[1].contains("9 cores"), "{why:?}");
        assert!(why[2].contains("384 processors at 269 W"), "{why:?}");
        assert!(why[3].contains("1 GB for 640 cores"), "{why:?}");
        for (wrong, expected) in [("170", "much"), ("Nov-2008", "2008-11")] {
            let error = SpecResults::parse("a.csv", &text.replacen(wrong, expected, 1));
            assert!(error.unwrap_err().to_string().starts_with("a.csv:2"), "{wrong}");
        }
        let few: Vec<&SpecResult> = results.rows.iter().collect();
        assert!(SpecFit::new(&few, Load::Idle).is_err());
    }
}
