//! Settings that a policy written in Python asks for, and their translation to an operating point.

use crate::errors::wrong;
use pyo3::prelude::*;
use wattline_policy::{CoreSet, OperatingPoint, Platform, Wait};
use wattline_units::{Hertz, Span};

/// Active cores: a count, or their numbers.
#[derive(Debug, Clone)]
enum Cores {
    First(i64),
    These(Vec<i64>),
}

impl<'py> FromPyObject<'_, 'py> for Cores {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(count) = object.extract() {
            return Ok(Self::First(count));
        }
        match object.extract() {
            Ok(list) => Ok(Self::These(list)),
            Err(_) => Err(wrong(format_args!(
                "cores={}: allowed are a number of cores, such as 2, and a list of their numbers, \
                 such as [0, 3]",
                object.repr()?
            ))),
        }
    }
}

/// Wait mode of cores: its name, or seconds of sleep.
#[derive(Debug, Clone)]
enum Waiting {
    Named(String),
    Seconds(f64),
}

impl<'py> FromPyObject<'_, 'py> for Waiting {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(name) = object.extract() {
            return Ok(Self::Named(name));
        }
        match object.extract() {
            Ok(seconds) => Ok(Self::Seconds(seconds)),
            Err(_) => Err(wrong(format_args!("wait={}: {WAYS}", object.repr()?))),
        }
    }
}

/// Wait modes, for errors.
const WAYS: &str = "allowed are \"poll\", \"pause\", \"interrupt\" and seconds of sleep";

/// Settings that a policy asks for; settings that it leaves out stay as they are.
///
/// - `cores`: how many are active, or a list of their numbers.
/// - `frequency_ghz`: of the active cores. Between two frequencies of the machine it is the faster one.
/// - `idle_state`, `parked_idle_state`: names of the deepest idle states of active and of other cores.
/// - `wait`: how active cores wait for packets: "poll", "pause", "interrupt", or seconds of sleep.
/// - `moderation_us`: the least span between two interrupts of a queue, in microseconds.
/// - `batch`: how many packets a core takes from a queue at once.
/// - `again_seconds`: when `decide` is called next, once, in place of the class's `every_seconds`.
#[pyclass(frozen, module = "wattline")]
#[derive(Debug, Clone)]
pub struct Setting {
    cores: Option<Cores>,
    frequency_ghz: Option<f64>,
    idle_state: Option<String>,
    parked_idle_state: Option<String>,
    wait: Option<Waiting>,
    moderation_us: Option<f64>,
    batch: Option<i64>,
    /// When it wants to be asked again, in seconds from now.
    pub again_seconds: Option<f64>,
}

#[pymethods]
impl Setting {
    #[new]
    #[pyo3(signature = (
        cores = None, *, frequency_ghz = None, idle_state = None, parked_idle_state = None,
        wait = None, moderation_us = None, batch = None, again_seconds = None
    ))]
    #[allow(clippy::too_many_arguments, reason = "keywords of a Python constructor")]
    fn new(
        cores: Option<Cores>,
        frequency_ghz: Option<f64>,
        idle_state: Option<String>,
        parked_idle_state: Option<String>,
        wait: Option<Waiting>,
        moderation_us: Option<f64>,
        batch: Option<i64>,
        again_seconds: Option<f64>,
    ) -> Self {
        Self {
            cores,
            frequency_ghz,
            idle_state,
            parked_idle_state,
            wait,
            moderation_us,
            batch,
            again_seconds,
        }
    }

    fn __repr__(&self) -> String {
        let mut parts = Vec::new();
        match &self.cores {
            Some(Cores::First(count)) => parts.push(format!("cores={count}")),
            Some(Cores::These(list)) => parts.push(format!("cores={list:?}")),
            None => {}
        }
        parts.extend(self.frequency_ghz.map(|it| format!("frequency_ghz={it}")));
        parts.extend(self.idle_state.as_ref().map(|it| format!("idle_state={it:?}")));
        parts.extend(self.parked_idle_state.as_ref().map(|it| format!("parked_idle_state={it:?}")));
        match &self.wait {
            Some(Waiting::Named(name)) => parts.push(format!("wait={name:?}")),
            Some(Waiting::Seconds(seconds)) => parts.push(format!("wait={seconds}")),
            None => {}
        }
        parts.extend(self.moderation_us.map(|it| format!("moderation_us={it}")));
        parts.extend(self.batch.map(|it| format!("batch={it}")));
        parts.extend(self.again_seconds.map(|it| format!("again_seconds={it}")));
        format!("Setting({})", parts.join(", "))
    }
}

impl Setting {
    /// Changes `point` to what is asked for.
    ///
    /// # Errors
    /// If the platform lacks a setting; `point` must not be used then.
    pub fn apply(&self, platform: &Platform, point: &mut OperatingPoint) -> PyResult<()> {
        if let Some(cores) = &self.cores {
            point.active = active(cores, platform)?;
        }
        if let Some(ghz) = self.frequency_ghz {
            point.set_frequency(frequency(ghz, platform)?);
        }
        let idle = |name: &Option<String>, what| {
            name.as_ref().map(|name| idle_state(name, what, platform)).transpose()
        };
        let nap = idle(&self.idle_state, "idle_state")?;
        let park = idle(&self.parked_idle_state, "parked_idle_state")?;
        for (number, core) in point.cores.iter_mut().enumerate() {
            let limit = if point.active.contains(number) { nap } else { park };
            core.idle_limit = limit.unwrap_or(core.idle_limit);
        }
        if let Some(waiting) = &self.wait {
            point.set_wait(wait(waiting)?);
        }
        if let Some(micros) = self.moderation_us {
            let (least, most) = platform.moderation;
            let (low, high) = (least.as_seconds() * 1e6, most.as_seconds() * 1e6);
            if !(low..=high).contains(&micros) {
                return Err(outside("moderation_us", micros, low, high));
            }
            point.set_moderation(platform, Span::from_seconds(micros * 1e-6));
        }
        if let Some(batch) = self.batch {
            point.batch = u32::try_from(batch)
                .ok()
                .filter(|batch| (1..=4096).contains(batch))
                .ok_or_else(|| outside("batch", batch, 1, 4096))?;
        }
        Ok(())
    }

    /// The time until it wants to be asked again, where it says one.
    pub fn again(&self) -> PyResult<Option<Span>> {
        let allowed = |seconds: &f64| (1e-6..=86_400.0).contains(seconds);
        match self.again_seconds {
            Some(seconds) if !allowed(&seconds) => {
                Err(outside("again_seconds", seconds, "0.000001", 86_400))
            }
            seconds => Ok(seconds.map(Span::from_seconds)),
        }
    }
}

fn outside(
    what: &str,
    value: impl std::fmt::Display,
    low: impl std::fmt::Display,
    high: impl std::fmt::Display,
) -> PyErr {
    wrong(format_args!("{what}={value}: allowed are {low} to {high}"))
}

fn active(cores: &Cores, platform: &Platform) -> PyResult<CoreSet> {
    let most = platform.cores as i64;
    match cores {
        Cores::First(count) if (1..=most).contains(count) => Ok(CoreSet::first(*count as usize)),
        Cores::First(count) => Err(outside("cores", count, 1, most)),
        Cores::These(list) if list.is_empty() => {
            Err(wrong("cores=[]: at least one core has to be active"))
        }
        Cores::These(list) => match list.iter().find(|core| !(0..most).contains(*core)) {
            Some(core) => Err(outside("core number", core, 0, most - 1)),
            None => Ok(list.iter().map(|&core| core as usize).collect()),
        },
    }
}

/// The slowest frequency that is not below what is asked for; a rounded figure of the list is
/// that one.
fn frequency(ghz: f64, platform: &Platform) -> PyResult<usize> {
    let steps = &platform.frequencies;
    let slack = 1.0 + 1e-3;
    let (low, high) = (steps[0].0 / 1e9, steps[platform.fastest()].0 / 1e9);
    if !(low / slack..=high * slack).contains(&ghz) {
        return Err(wrong(format_args!("frequency_ghz={ghz}: allowed are {low:.3} to {high:.3}")));
    }
    Ok(platform.at_least(Hertz(ghz * 1e9 / slack)))
}

fn idle_state(name: &str, what: &str, platform: &Platform) -> PyResult<usize> {
    platform.idle_state(name).ok_or_else(|| {
        let names: Vec<&str> = platform.idle_states.iter().map(|it| it.name.as_str()).collect();
        wrong(format_args!("{what}={name:?}: allowed are {}", names.join(", ")))
    })
}

fn wait(waiting: &Waiting) -> PyResult<Wait> {
    match waiting {
        Waiting::Named(name) => match name.as_str() {
            "poll" => Ok(Wait::Poll),
            "pause" => Ok(Wait::Pause),
            "interrupt" => Ok(Wait::Interrupt),
            other => Err(wrong(format_args!("wait={other:?}: {WAYS}"))),
        },
        Waiting::Seconds(seconds) if (1e-9..=1.0).contains(seconds) => {
            Ok(Wait::Sleep(Span::from_seconds(*seconds)))
        }
        Waiting::Seconds(seconds) => Err(outside("wait", seconds, "0.000000001", 1)),
    }
}
