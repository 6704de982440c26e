//! Servers, traffic and policies by name, file or text.

use crate::errors::{of_load, unreadable, wrong};
use pyo3::prelude::*;
use serde_json::json;
use wattline_policy::{POLICIES, PolicySpec};
use wattline_server::library::{self, Kind};
use wattline_server::{ServerFile, ServerModel};
use wattline_traffic::Spec;

/// A server model.
#[pyclass(frozen, module = "wattline")]
pub struct Server {
    file: ServerFile,
}

impl Server {
    /// The model, where it has all the figures that a simulation needs.
    pub fn model(&self) -> PyResult<&ServerModel> {
        self.file.model().map_err(wrong)
    }
}

#[pymethods]
impl Server {
    #[new]
    fn new(name: &str) -> PyResult<Self> {
        Ok(Self { file: ServerFile::load(name).map_err(of_load)? })
    }

    #[staticmethod]
    #[pyo3(signature = (text, name = "text"))]
    fn from_toml(text: &str, name: &str) -> PyResult<Self> {
        Ok(Self { file: ServerFile::parse(name, text).map_err(wrong)? })
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

    /// Whether it has all the figures that a simulation needs.
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
    json!(POLICIES).to_string()
}

/// Refuses a text that is no policy.
#[pyfunction]
pub fn check_policy(text: &str) -> PyResult<()> {
    PolicySpec::parse(text).map(|_| ()).map_err(wrong)
}

/// A description of packets in time.
#[pyclass(frozen, module = "wattline")]
pub struct Traffic {
    /// As it was given: a file's name or the text.
    pub text: String,
    /// As it was understood.
    pub spec: Spec,
}

#[pymethods]
impl Traffic {
    #[new]
    fn new(text: &str) -> PyResult<Self> {
        let spec = if text.ends_with(".toml") {
            let content =
                std::fs::read_to_string(text).map_err(|error| unreadable(text, &error))?;
            Spec::from_toml(&content)
        } else {
            Spec::parse(text)
        };
        let spec = spec.map_err(|error| wrong(format_args!("traffic: {error}")))?;
        Ok(Self { text: text.to_owned(), spec })
    }

    #[staticmethod]
    fn from_toml(text: &str) -> PyResult<Self> {
        let spec = Spec::from_toml(text);
        let spec = spec.map_err(|error| wrong(format_args!("traffic: {error}")))?;
        Ok(Self { text: "text".to_owned(), spec })
    }

    #[getter]
    fn text(&self) -> &str {
        &self.text
    }

    /// Mean rate in packets per second, where the description tells it.
    #[getter]
    fn rate_pps(&self) -> Option<f64> {
        self.spec.packet_rate().map(|rate| rate.0)
    }

    /// Mean rate in bits per second, where the description tells it.
    #[getter]
    fn rate_bits_per_second(&self) -> Option<f64> {
        self.spec.bit_rate().map(|rate| rate.0)
    }

    fn __repr__(&self) -> String {
        format!("Traffic({:?})", self.text)
    }
}
