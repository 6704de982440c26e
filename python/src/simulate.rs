//! Simulations, one or many.

use crate::errors::{of_sim, wrong};
use crate::models::{Server, Traffic};
use crate::policy::{Governor, PythonPolicy};
use crate::stop::{Stop, Watched};
use pyo3::prelude::*;
use serde::Serialize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use wattline_cores::ModelError;
use wattline_policies::POLICIES;
use wattline_policy::{AskAgain, BuildContext, Observation, OperatingPoint, Policy, build};
use wattline_server::{Application, Path, ServerModel};
use wattline_sim::{KnobBehaviour, Report, Scenario, Setting, SimError};
use wattline_units::Span;

/// The document of `wattline sim --json`.
#[derive(Serialize)]
struct Output<'a> {
    server: &'a str,
    policy: &'a str,
    traffic: &'a str,
    application: Application,
    seed: u64,
    path: Path,
    output_links: bool,
    #[serde(skip_serializing_if = "str::is_empty")]
    knob_faults: &'a str,
    notes: Vec<String>,
    #[serde(flatten)]
    report: Report,
}

/// Options common to all runs of a sweep.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Options {
    duration: String,
    warmup: String,
    interval: Option<String>,
    path: String,
    output_links: bool,
    knob_faults: String,
}

/// The same, parsed.
struct Run {
    duration: Span,
    warmup: Span,
    interval: Option<Span>,
    path: Path,
    output_links: bool,
    knob_faults: String,
}

impl Run {
    fn new(options: Options) -> PyResult<Self> {
        let span = |name: &str, text: &str| {
            text.parse::<Span>().map_err(|error| wrong(format_args!("{name}: {error}")))
        };
        KnobBehaviour::parse(&options.knob_faults)
            .map_err(|error| wrong(format_args!("knob_faults: {error}")))?;
        Ok(Self {
            duration: span("duration", &options.duration)?,
            warmup: span("warmup", &options.warmup)?,
            interval: options.interval.map(|text| span("interval", &text)).transpose()?,
            path: options.path.parse().map_err(|error| wrong(format_args!("path: {error}")))?,
            output_links: options.output_links,
            knob_faults: options.knob_faults,
        })
    }
}

/// One run.
struct Case<'a> {
    server: &'a ServerModel,
    traffic: &'a Traffic,
    governor: Governor,
    name: String,
    application: Application,
    seed: u64,
}

impl Case<'_> {
    /// The document of its result; without the interpreter, which other threads may have.
    fn run(&self, run: &Run, stop: &Stop, show: Option<Py<PyAny>>) -> Result<String, SimError> {
        let policy = match &self.governor {
            Governor::Named(spec) => spec.clone(),
            // Not asked: the object takes its place.
            Governor::Python(_) => POLICIES.parse("performance").map_err(ModelError::from)?,
        };
        let setting = Setting {
            application: self.application,
            warmup: run.warmup,
            interval: run.interval,
            output_links: run.output_links,
            seed: self.seed,
            // Checked when the run was described.
            knobs: KnobBehaviour::parse(&run.knob_faults).unwrap_or_default(),
            ..Setting::new(self.server, policy, run.duration)
        };
        let scenario = Scenario { setting, traffic: &self.traffic.spec };
        let end = (run.warmup + run.duration).as_picos();
        let progress = show.map(|show| (show, end));
        let watch = |source| -> Box<dyn wattline_traffic::Source> {
            Box::new(Watched::new(source, stop.clone(), progress))
        };
        let make = |context: &BuildContext<'_>| -> Result<Box<dyn Policy>, SimError> {
            let object = match &self.governor {
                Governor::Named(spec) => {
                    return Ok(build(spec, context).map_err(ModelError::from)?);
                }
                Governor::Python(object) => object,
            };
            Ok(Python::attach(|py| {
                match PythonPolicy::new(py, object.clone_ref(py), context.platform, stop.clone()) {
                    Ok(policy) => Box::new(policy) as Box<dyn Policy>,
                    Err(error) => {
                        stop.set(error);
                        Box::new(Nobody)
                    }
                }
            }))
        };
        let output = Output {
            server: &self.server.name,
            policy: &self.name,
            traffic: &self.traffic.text,
            application: self.application,
            seed: self.seed,
            path: run.path,
            output_links: run.output_links,
            knob_faults: &run.knob_faults,
            notes: self.traffic.spec.notes(),
            report: scenario.run_watched(watch, make)?,
        };
        Ok(serde_json::to_string(&output).unwrap_or_default())
    }
}

/// Stands in for a policy that could not be made, until the run has ended.
struct Nobody;

impl Policy for Nobody {
    fn decide(&mut self, _: &Observation<'_>, _: &mut OperatingPoint) -> AskAgain {
        AskAgain::NEVER
    }
}

fn application(name: &str) -> PyResult<Application> {
    name.parse().map_err(|error| wrong(format_args!("app: {error}")))
}

/// The result of a run, unless a policy or a signal ended it.
fn outcome(result: Result<String, SimError>, stop: &Stop) -> PyResult<String> {
    match stop.take() {
        Some(error) => Err(error),
        None => result.map_err(of_sim),
    }
}

/// Runs one simulation and gives its document; calls `progress` with the share that is done.
#[pyfunction]
pub fn simulate(
    server: &Bound<'_, Server>,
    policy: &Bound<'_, PyAny>,
    traffic: &Bound<'_, Traffic>,
    app: &str,
    seed: u64,
    options: Options,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let py = policy.py();
    let run = Run::new(options)?;
    let model = server.get().model()?.on_path(run.path).map_err(wrong)?;
    let governor = Governor::new(policy)?;
    let case = Case {
        server: &model,
        traffic: traffic.get(),
        name: governor.name(py)?,
        governor,
        application: application(app)?,
        seed,
    };
    let stop = Stop::default();
    let result = py.detach(|| case.run(&run, &stop, progress));
    outcome(result, &stop)
}

/// Runs every server under every policy with every traffic, application and seed, and gives their
/// documents in that order; calls `progress` with the share of runs that are done.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "keywords of a Python function")]
pub fn sweep<'py>(
    servers: Vec<Bound<'py, Server>>,
    policies: Vec<Bound<'py, PyAny>>,
    traffics: Vec<Bound<'py, Traffic>>,
    apps: Vec<String>,
    seeds: Vec<u64>,
    options: Options,
    threads: usize,
    progress: Option<Bound<'py, PyAny>>,
    py: Python<'py>,
) -> PyResult<Vec<String>> {
    let apps = apps.iter().map(|app| application(app)).collect::<PyResult<Vec<_>>>()?;
    let governors = policies.iter().map(Governor::new).collect::<PyResult<Vec<_>>>()?;
    let run = Run::new(options)?;
    let models = servers.iter().map(|it| it.get().model()?.on_path(run.path).map_err(wrong));
    let models = models.collect::<PyResult<Vec<_>>>()?;
    let mut cases = Vec::new();
    for server in &models {
        for governor in &governors {
            let name = governor.name(py)?;
            for traffic in &traffics {
                for &application in &apps {
                    for &seed in &seeds {
                        cases.push(Case {
                            server,
                            traffic: traffic.get(),
                            governor: governor.for_another_run(py)?,
                            name: name.clone(),
                            application,
                            seed,
                        });
                    }
                }
            }
        }
    }
    let stop = Stop::default();
    let done = AtomicUsize::new(0);
    let results = std::thread::scope(|scope| {
        let (sender, receiver) = sync_channel(1);
        let receiver = Mutex::new(receiver);
        let (cases, run, stop, done) = (&cases, &run, &stop, &done);
        scope.spawn(move || {
            let work = |case: &Case<'_>| {
                let result = case.run(run, stop, None);
                // A failed run ends the others, whose results would be discarded.
                if let (Err(error), false) = (&result, stop.is_set()) {
                    stop.set(wrong(error));
                }
                result
            };
            let count = || {
                done.fetch_add(1, Ordering::Relaxed);
            };
            let _ = sender.send(wattline_sim::sweep(cases, threads, work, count));
        });
        // Signals reach this thread alone.
        let mut ending = None;
        loop {
            let wait = || {
                let receiver = receiver.lock().unwrap_or_else(PoisonError::into_inner);
                receiver.recv_timeout(Duration::from_millis(50))
            };
            match py.detach(wait) {
                Ok(results) => return Ok(results),
                Err(RecvTimeoutError::Disconnected) => return Err(wrong("a thread panicked")),
                Err(RecvTimeoutError::Timeout) => {}
            }
            let shown = py.check_signals().and_then(|()| match &progress {
                Some(show) => {
                    let share = done.load(Ordering::Relaxed) as f64 / cases.len().max(1) as f64;
                    show.call1((share,)).map(|_| ())
                }
                None => Ok(()),
            });
            if let Err(error) = shown.and_then(|()| stop.interrupt(py, &mut ending)) {
                stop.set(error);
            }
        }
    })?;
    if let Some(error) = stop.take() {
        return Err(error);
    }
    let results = results.map_err(wrong)?;
    results.into_iter().map(|result| result.map_err(of_sim)).collect()
}
