//! Arguments of the commands that simulate, and their parsing.

use super::server_errors;
use std::fmt::Display;
use wattline::exit::ExitError;
use wattline_cores::ModelError;
use wattline_policies::POLICIES;
use wattline_policy::PolicySpec;
use wattline_server::{Application, MeasuredCosts, Path, Scaling, ServerFile, ServerModel};
use wattline_sim::{KnobBehaviour, SimError};
use wattline_traffic::Spec;
use wattline_traffic::capture::{CaptureError, Problem};
use wattline_traffic::rates::RatesError;
use wattline_traffic::spec::BuildError;
use wattline_units::Span;

/// Parses the time span of an option.
pub fn span(text: &str) -> Result<Span, String> {
    text.parse().map_err(|error: wattline_units::ParseQuantityError| error.to_string())
}

/// Parses the application of an option.
pub fn application(text: &str) -> Result<Application, String> {
    text.parse().map_err(|error: wattline_server::UnknownApplication| error.to_string())
}

/// Largest number of threads.
const MOST_THREADS: usize = 1024;

/// Parses the number of threads of an option.
pub fn threads(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| *number <= MOST_THREADS);
    number.ok_or_else(|| {
        format!("allowed is 0, for one per core of this machine, or a number up to {MOST_THREADS}")
    })
}

/// Collects the problems of a command line, so that all are reported at once.
#[derive(Default)]
pub struct Problems {
    code: Option<u8>,
    lines: Vec<String>,
}

impl Problems {
    /// Adds a problem with its exit code; the first problem's code is the command's.
    pub fn note(&mut self, code: u8, problem: impl Display) {
        self.code.get_or_insert(code);
        self.lines.push(problem.to_string());
    }

    /// Returns the value of a result, or adds its problem.
    pub fn keep<T>(&mut self, result: Result<T, ExitError>) -> Option<T> {
        result.map_err(|error| self.note(error.code, error.message)).ok()
    }

    /// Fails if there is any problem.
    pub fn check(self) -> Result<(), ExitError> {
        match self.code {
            Some(code) => Err(ExitError::new(code, self.lines.join("\n"))),
            None => Ok(()),
        }
    }
}

/// Returns the server model of this name or in this file.
pub fn server(name: &str) -> Result<ServerModel, ExitError> {
    let file = ServerFile::load(name).map_err(server_errors::config_error)?;
    file.model().cloned().map_err(|error| ExitError::new(ExitError::CONFIG, error))
}

/// Returns the model with the costs that an option names: `model` for its own, otherwise a file of
/// measured costs and, after a colon, the method of scaling.
pub fn with_costs(server: &ServerModel, text: &str) -> Result<ServerModel, ExitError> {
    if text == "model" {
        return Ok(server.clone());
    }
    let suffix = |scaling: &Scaling| {
        text.strip_suffix(scaling.name())?.strip_suffix(':').map(|name| (name, *scaling))
    };
    let (name, scaling) = Scaling::ALL.iter().find_map(suffix).unwrap_or((text, Scaling::Ratio));
    let costs = MeasuredCosts::load(name).map_err(server_errors::config_error)?;
    costs.on(server, scaling).map_err(|error| ExitError::new(ExitError::CONFIG, error))
}

/// Returns the model whose packets take this path.
pub fn on_path(server: &ServerModel, path: Path) -> Result<ServerModel, ExitError> {
    server.on_path(path).map_err(|error| ExitError::new(ExitError::CONFIG, error))
}

/// Splits a list of policies or traffics; a `KEY=VALUE` after a comma belongs to the entry before.
pub fn split(text: &str) -> Vec<String> {
    let mut items: Vec<String> = Vec::new();
    for piece in text.split(',') {
        let name = piece.split(':').next().unwrap_or_default();
        match items.last_mut() {
            Some(last) if name.contains('=') => {
                last.push(',');
                last.push_str(piece);
            }
            _ => items.push(piece.trim().to_owned()),
        }
    }
    items
}

/// Returns the policy of this text.
pub fn policy(text: &str) -> Result<PolicySpec, ExitError> {
    POLICIES.parse(text).map_err(|error| ExitError::new(ExitError::USAGE, error))
}

/// Parses the behaviour of a simulated server's knobs.
pub fn knobs(text: &str) -> Result<KnobBehaviour, ExitError> {
    KnobBehaviour::parse(text)
        .map_err(|error| ExitError::new(ExitError::USAGE, format!("--knob-faults: {error}")))
}

/// Returns the traffic of this text, or of the TOML file that it names.
pub fn traffic(text: &str) -> Result<Spec, ExitError> {
    let spec = if text.ends_with(".toml") {
        let content = wattline_files::read_text(text.as_ref(), wattline_files::MOST_TEXT)
            .map_err(|error| ExitError::no_input(text.as_ref(), &error))?;
        Spec::from_toml(&content)
    } else {
        Spec::parse(text)
    };
    spec.map_err(|error| {
        let lines: Vec<String> =
            error.to_string().lines().map(|l| format!("traffic: {l}")).collect();
        ExitError::new(ExitError::USAGE, lines.join("\n"))
    })
}

/// Returns the exit code and message of this error.
pub fn simulation_error(error: SimError) -> ExitError {
    let code = match &error {
        SimError::Traffic(capture) | SimError::Source(BuildError::Capture(capture)) => {
            code_of_capture(capture)
        }
        SimError::Source(BuildError::Rates(rates)) => code_of_rates(rates),
        SimError::Model(error) => code_of_model(error),
        SimError::Duration
        | SimError::Interval
        | SimError::BeyondLinks { .. }
        | SimError::Path(_)
        | SimError::EndsInWarmUp { .. }
        | SimError::NothingMeasured { .. }
        | SimError::Source(BuildError::Spec(_)) => ExitError::USAGE,
    };
    ExitError::new(code, error)
}

/// Returns the exit code and message of this error.
pub fn rates_error(error: RatesError) -> ExitError {
    ExitError::new(code_of_rates(&error), error)
}

fn code_of_rates(error: &RatesError) -> u8 {
    match error {
        RatesError::Unreadable { .. } => ExitError::NO_INPUT,
        RatesError::Invalid(_) => ExitError::DATA,
    }
}

/// Returns the exit code and message of this error.
pub fn model_error(error: ModelError) -> ExitError {
    ExitError::new(code_of_model(&error), error)
}

fn code_of_model(error: &ModelError) -> u8 {
    match error {
        ModelError::Platform(_) | ModelError::Application { .. } => ExitError::CONFIG,
        ModelError::Policy(_) => ExitError::USAGE,
    }
}

fn code_of_capture(error: &CaptureError) -> u8 {
    match error.problem {
        Problem::Open(_) => ExitError::NO_INPUT,
        Problem::Io(_) => ExitError::IO,
        _ => ExitError::DATA,
    }
}
