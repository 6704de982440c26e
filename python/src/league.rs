//! A league whose pieces are played one by one, on any machine.

use crate::errors::{unreadable, wrong};
use pyo3::prelude::*;
use serde::Serialize;
use wattline_league::{LeagueError, Plan, Results, Scattered, Standing, is_page, page, standings};
use wattline_units::Build;

/// The document of `wattline league --json`.
#[derive(Serialize)]
struct Output {
    build: Build,
    #[serde(flatten)]
    results: Results,
    standings: Vec<Standing>,
}

/// A league file, or a built-in one.
#[pyclass(frozen, module = "wattline._wattline")]
pub struct League {
    plan: Plan,
    text: String,
    name: String,
}

#[pymethods]
impl League {
    /// Reads the text of a file; `name` is used in messages.
    #[new]
    fn new(text: &str, name: &str) -> PyResult<Self> {
        let plan = Plan::parse(name, text).map_err(of_league)?;
        Ok(Self { plan, text: text.to_owned(), name: name.to_owned() })
    }

    /// The built-in league of this name: `quick`, `full` or `tuned`.
    #[staticmethod]
    fn built_in(name: &str) -> PyResult<Self> {
        let text = Plan::built_in(name).ok_or_else(|| wrong(format_args!("no league {name}")))?;
        Self::new(text, name)
    }

    /// Its file, or the name of the built-in one.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// Pickles it with its text: another machine need not have the file.
    fn __reduce__<'py>(&self, py: Python<'py>) -> (Bound<'py, PyAny>, (&str, &str)) {
        (py.get_type::<Self>().into_any(), (&self.text, &self.name))
    }

    /// Lists everything that the results of the pieces depend on but the build.
    fn keys(&self) -> PyResult<Vec<String>> {
        Scattered::new(&self.plan).and_then(|league| league.keys()).map_err(of_league)
    }

    /// Plays the piece of this number.
    fn play(&self, number: usize, py: Python<'_>) -> PyResult<String> {
        let play = || Scattered::new(&self.plan)?.play(number);
        py.detach(play).map_err(of_league)
    }

    /// Document and page of a league from the results of its pieces, in their order; `again` is the
    /// call that makes the page.
    fn join(&self, played: Vec<String>, again: &str) -> PyResult<(String, String)> {
        let results =
            Scattered::new(&self.plan).and_then(|it| it.join(&played)).map_err(of_league)?;
        let page = page(&self.plan, &results, again).end();
        let output = Output { build: Build::default(), standings: standings(&results), results };
        Ok((serde_json::to_string(&output).map_err(wrong)?, page))
    }
}

/// True if a text is the page of a league, which another one may replace.
#[pyfunction]
pub fn is_league_page(text: &str) -> bool {
    is_page(text)
}

/// A league that cannot be played.
fn of_league(error: LeagueError) -> PyErr {
    match &error {
        LeagueError::Io { path, source } => unreadable(path, source),
        _ => wrong(error),
    }
}
