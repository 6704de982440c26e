//! Policies written in Python, in place of policies of the registry.

use crate::errors::{PolicyError, wrong};
use crate::limit::Limit;
use crate::machine::Machine;
use crate::setting::Setting;
use crate::stop::Stop;
use crate::view::Before;
use pyo3::exceptions::PyAttributeError;
use pyo3::prelude::*;
use std::time::Duration;
use wattline_policies::POLICIES;
use wattline_policy::{
    AskAgain, Looks, Observation, OperatingPoint, Platform, Policy, PolicySpec, Trigger,
};
use wattline_units::{Span, Time};

/// Policy of a run.
pub enum Governor {
    /// A policy of the registry, by its text.
    Named(PolicySpec),
    /// An object of Python with a method `decide`.
    Python(Py<PyAny>),
}

impl Governor {
    /// Takes a text, a class (of which it makes an object) or an object.
    pub fn new(policy: &Bound<'_, PyAny>) -> PyResult<Self> {
        if let Ok(text) = policy.extract::<&str>() {
            return Ok(Self::Named(POLICIES.parse(text).map_err(wrong)?));
        }
        let object = if policy.is_instance_of::<pyo3::types::PyType>() {
            policy.call0()?
        } else {
            policy.clone()
        };
        if !object.getattr("decide").is_ok_and(|decide| decide.is_callable()) {
            return Err(wrong(format_args!(
                "policy {}: allowed are a text such as \"queue-length\" and an object with a method \
                 decide",
                object.repr()?
            )));
        }
        // An attribute that is not read would be ignored in silence.
        object.py().import("wattline._policy")?.call_method1("check_names", (&object,))?;
        Ok(Self::Python(object.unbind()))
    }

    /// Returns a policy for another run: an object is copied, so that runs do not share its state.
    pub fn for_another_run(&self, py: Python<'_>) -> PyResult<Self> {
        match self {
            Self::Named(spec) => Ok(Self::Named(spec.clone())),
            Self::Python(object) => {
                let copy = py.import("copy")?.call_method1("deepcopy", (object,))?;
                Ok(Self::Python(copy.unbind()))
            }
        }
    }

    /// Returns the name of the policy in reports.
    pub fn name(&self, py: Python<'_>) -> PyResult<String> {
        match self {
            Self::Named(spec) => Ok(spec.to_string()),
            Self::Python(object) => {
                let module = py.import("wattline._policy")?;
                module.call_method1("name_of", (object,))?.extract()
            }
        }
    }
}

/// A policy written in Python.
pub struct PythonPolicy {
    object: Py<PyAny>,
    machine: Py<Machine>,
    every: Span,
    /// Fill of a queue at which it wants to be asked, too.
    at_fill: Option<u32>,
    looks: Looks,
    before: Before,
    limit: Option<Limit>,
    stop: Stop,
}

/// Longest time for a decision, unless the policy has another.
const RETURNS_WITHIN_SECONDS: f64 = 60.0;

/// The limit that a policy has: no number means none.
fn limit(policy: &Bound<'_, PyAny>) -> PyResult<Option<Limit>> {
    let name = "returns_within_seconds";
    let seconds = match attribute(policy, name)? {
        None if policy.hasattr(name)? => return Ok(None),
        seconds => seconds.unwrap_or(RETURNS_WITHIN_SECONDS),
    };
    let length = Duration::try_from_secs_f64(seconds).ok().filter(|length| !length.is_zero());
    let Some(length) = length.filter(|_| seconds <= 1e9) else {
        return Err(wrong(format_args!(
            "{name}={seconds}: allowed are numbers above 0, up to 1e9, and None for no limit"
        )));
    };
    let limit = Limit::new(length);
    Ok(Some(limit.map_err(|error| wrong(format_args!("{name}: no thread to watch: {error}")))?))
}

impl PythonPolicy {
    /// The policy of this object for this machine. Its errors go to `stop`.
    pub fn new(
        py: Python<'_>,
        object: Py<PyAny>,
        platform: &Platform,
        stop: Stop,
    ) -> PyResult<Self> {
        let bound = object.bind(py);
        let every = attribute(bound, "every_seconds")?.unwrap_or(1e-3);
        if !(1e-6..=86_400.0).contains(&every) {
            return Err(wrong(format_args!(
                "every_seconds={every}: allowed are 0.000001 to 86400"
            )));
        }
        let mut looks = Looks::WHOLE;
        if attribute(bound, "looks_at_latency")?.unwrap_or(false) {
            looks = looks.and_latency();
        }
        if let Some(seconds) = attribute(bound, "late_after_seconds")? {
            looks = looks.and_late(Span::from_seconds(seconds));
        }
        if attribute(bound, "looks_at_power")?.unwrap_or(false) {
            looks = looks.and_power();
        }
        let at_fill = attribute(bound, "at_fill")?;
        let machine = Py::new(py, Machine::of(platform))?;
        let every = Span::from_seconds(every);
        let limit = limit(bound)?;
        let before = Before::default();
        Ok(Self { object, machine, every, at_fill, looks, before, limit, stop })
    }

    fn ask(
        &mut self,
        py: Python<'_>,
        seen: &Observation<'_>,
        point: &mut OperatingPoint,
    ) -> PyResult<AskAgain> {
        let now = seen.now;
        let view = self.before.view(self.machine.clone_ref(py), now, seen, point, self.looks);
        let decide = || self.object.call_method1(py, "decide", (view,));
        let decided = self.stop.ask(py, |thread| match &self.limit {
            Some(limit) => limit.ask(py, thread, decide, |place, length| late(place, length, now)),
            None => decide(),
        });
        let decided = decided.map_err(|error| self.noted(py, error, now))?;
        let mut span = self.every;
        if !decided.is_none(py) {
            let Ok(setting) = decided.cast_bound::<Setting>(py) else {
                let (value, kind) = (decided.bind(py).repr()?, decided.bind(py).get_type().name()?);
                let problem = format!("returned {value} ({kind}); allowed are Setting and None");
                return Err(self.nonsense(py, &problem, now));
            };
            let asked = setting.get();
            let applied = asked.apply(seen.platform, point).and_then(|()| asked.again());
            let again =
                applied.map_err(|error| self.nonsense(py, &error.value(py).to_string(), now))?;
            span = again.unwrap_or(span);
        }
        let again = AskAgain::at(now + span);
        Ok(match self.at_fill {
            Some(packets) => again.and_on_fill(seen.platform.all_cores(), packets.max(1)),
            None => again,
        })
    }

    /// An error for a decision that cannot be carried out, with the place of the callback.
    fn nonsense(&self, py: Python<'_>, problem: &str, now: Time) -> PyErr {
        let place = place(self.object.bind(py)).unwrap_or_default();
        PolicyError::new_err(format!("{place}decide at {} s: {problem}", now.as_seconds()))
    }

    /// Adds the simulated time to the callback's exception as a note; its traceback has the line.
    fn noted(&self, py: Python<'_>, error: PyErr, now: Time) -> PyErr {
        let note = format!("raised by decide at {} s of simulated time", now.as_seconds());
        // Python 3.10 has no notes; the error itself is what counts.
        let _ = error.value(py).call_method1("add_note", (note,));
        error
    }
}

/// An error for a decision that was interrupted.
fn late(place: Option<String>, length: Duration, now: Time) -> PyErr {
    let place = place.map(|place| place + ": ").unwrap_or_default();
    PolicyError::new_err(format!(
        "{place}decide at {} s of simulated time had not returned after {length:?}; the limit is the policy's attribute \
         returns_within_seconds, 60 unless it is set, None for no limit",
        now.as_seconds()
    ))
}

/// An attribute that may be missing or None.
fn attribute<'py, T: for<'a> FromPyObject<'a, 'py>>(
    object: &Bound<'py, PyAny>,
    name: &str,
) -> PyResult<Option<T>> {
    match object.getattr(name) {
        Ok(value) if value.is_none() => Ok(None),
        Ok(value) => {
            let read = value.extract::<T>();
            read.map(Some).map_err(|error| {
                let error: PyErr = error.into();
                wrong(format_args!("{name}: {error}"))
            })
        }
        Err(error) if error.is_instance_of::<PyAttributeError>(object.py()) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the place where the callback is defined, as `FILE:LINE: `.
fn place(object: &Bound<'_, PyAny>) -> PyResult<String> {
    let code = object.getattr("decide")?.getattr("__code__")?;
    Ok(format!("{}:{}: ", code.getattr("co_filename")?, code.getattr("co_firstlineno")?))
}

impl Policy for PythonPolicy {
    fn looks_at(&self) -> Looks {
        self.looks
    }

    fn decide(&mut self, observation: &Observation<'_>, point: &mut OperatingPoint) -> AskAgain {
        // The run ends with the next packets; until then nothing is asked any more.
        if self.stop.is_set() {
            return AskAgain::NEVER;
        }
        let decided = Python::attach(|py| self.ask(py, observation, point));
        decided.unwrap_or_else(|error| {
            self.stop.set(error);
            if observation.trigger == Trigger::Start {
                *point = OperatingPoint::full(observation.platform);
            }
            AskAgain::NEVER
        })
    }
}
