//! Servers, traffic and policies by name, file or text.

use crate::errors::{of_load, unreadable, wrong};
use pyo3::prelude::*;
use serde_json::json;
use wattline_policies::POLICIES;
use wattline_server::library::{self, Kind};
use wattline_server::{ServerFile, ServerModel};
use wattline_traffic::Spec;
use wattline_traffic::source::DayProfile;

/// Constructor that pickle calls, and its arguments.
type Remade<'py> = (Bound<'py, PyAny>, (String, String));

/// A server model.
#[pyclass(frozen, module = "wattline")]
pub struct Server {
    file: ServerFile,
    /// The name or path that it was asked for by, which errors show.
    asked: String,
    /// The whole file, so that another process can have the same model without the file.
    toml: String,
}

impl Server {
    /// Returns the model if it has all the figures that a simulation needs.
    pub fn model(&self) -> PyResult<&ServerModel> {
        self.file.model().map_err(wrong)
    }
}

#[pymethods]
impl Server {
    #[new]
    fn new(name: &str) -> PyResult<Self> {
        if let Some(text) = library::text_of(name, Kind::Servers) {
            return Self::from_toml(text, name);
        }
        match std::fs::read_to_string(name) {
            Ok(text) => Self::from_toml(&text, name),
            // It says which name may have been meant.
            Err(error) => {
                Err(ServerFile::load(name).map_or_else(of_load, |_| unreadable(name, &error)))
            }
        }
    }

    #[staticmethod]
    #[pyo3(signature = (text, name = "text"))]
    fn from_toml(text: &str, name: &str) -> PyResult<Self> {
        let file = ServerFile::parse(name, text).map_err(wrong)?;
        Ok(Self { file, asked: name.to_owned(), toml: text.to_owned() })
    }

    /// The text of its file.
    #[getter]
    fn toml(&self) -> &str {
        &self.toml
    }

    /// Pickles it with its text: another machine need not have the file.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Remade<'py>> {
        Ok((py.get_type::<Self>().getattr("from_toml")?, (self.toml.clone(), self.asked.clone())))
    }

    #[getter]
    fn name(&self) -> &str {
        &self.file.name
    }

    #[getter]
    fn description(&self) -> &str {
        &self.file.description
    }

    #[getter]
    fn source(&self) -> &str {
        &self.file.source
    }

    /// True if the model has all the figures that a simulation needs.
    #[getter]
    fn complete(&self) -> bool {
        self.file.model().is_ok()
    }

    fn figures_json(&self) -> String {
        json!(self.file.figures).to_string()
    }

    fn __repr__(&self) -> String {
        format!("Server({:?})", self.file.name)
    }
}

/// Names of the shipped server models.
#[pyfunction]
pub fn servers() -> Vec<&'static str> {
    library::names(Kind::Servers).collect()
}

/// The policies with their parameters, as JSON.
#[pyfunction]
pub fn policies() -> String {
    json!(&*POLICIES).to_string()
}

/// Refuses a text that is no policy.
#[pyfunction]
pub fn check_policy(text: &str) -> PyResult<()> {
    POLICIES.parse(text).map(|_| ()).map_err(wrong)
}

/// A description of packets in time.
#[pyclass(frozen, module = "wattline")]
pub struct Traffic {
    /// The argument: a file's name or the text.
    pub text: String,
    /// The parsed description.
    pub spec: Spec,
    /// Its description: the text, or the content of the file in TOML.
    description: String,
    /// True if the description is TOML.
    toml: bool,
}

impl Traffic {
    fn described(text: &str, description: String, toml: bool) -> PyResult<Self> {
        let spec = if toml { Spec::from_toml(&description) } else { Spec::parse(&description) };
        let spec = spec.map_err(|error| wrong(format_args!("traffic: {error}")))?;
        Ok(Self { text: text.to_owned(), spec, description, toml })
    }
}

#[pymethods]
impl Traffic {
    #[new]
    fn new(text: &str) -> PyResult<Self> {
        let toml = text.ends_with(".toml");
        let description = if toml {
            std::fs::read_to_string(text).map_err(|error| unreadable(text, &error))?
        } else {
            text.to_owned()
        };
        Self::described(text, description, toml)
    }

    #[staticmethod]
    #[pyo3(signature = (text, name = "text"))]
    fn from_toml(text: &str, name: &str) -> PyResult<Self> {
        Self::described(name, text.to_owned(), true)
    }

    /// The description: the text, or the content of the file in TOML.
    #[getter]
    fn description(&self) -> &str {
        &self.description
    }

    /// Pickles it with its description: another machine needs only the captures that it names.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Remade<'py>> {
        let class = py.get_type::<Self>();
        let make = class.getattr(if self.toml { "from_toml" } else { "from_text" })?;
        Ok((make, (self.description.clone(), self.text.clone())))
    }

    #[staticmethod]
    fn from_text(text: &str, name: &str) -> PyResult<Self> {
        Self::described(name, text.to_owned(), false)
    }

    #[getter]
    fn text(&self) -> &str {
        &self.text
    }

    /// Mean rate in packets per second, if the description has it.
    #[getter]
    fn rate_pps(&self) -> Option<f64> {
        self.spec.packet_rate().map(|rate| rate.0)
    }

    /// Mean rate in bits per second, if the description has it.
    #[getter]
    fn rate_bits_per_second(&self) -> Option<f64> {
        self.spec.bit_rate().map(|rate| rate.0)
    }

    fn __repr__(&self) -> String {
        format!("Traffic({:?})", self.text)
    }
}

/// The rates of the built-in day, one for each of its 288 steps of five minutes; the mean is exact.
#[pyfunction]
pub fn day_rates(mean: f64, highest: f64, spikes: u32, seed: u64) -> PyResult<Vec<f64>> {
    if !(mean > 0.0 && mean < highest && highest.is_finite()) {
        return Err(wrong(format_args!(
            "mean={mean}, highest={highest}: the mean must be above 0 and below the highest"
        )));
    }
    if spikes > 1000 {
        return Err(wrong(format_args!("spikes={spikes}: allowed are 0 to 1000")));
    }
    Ok(DayProfile::new(mean, highest, 86_400.0, spikes, seed).rates().to_vec())
}
