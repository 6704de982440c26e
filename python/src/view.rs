//! Observation that a policy written in Python gets. Everything is a copy: it may be kept.

use crate::machine::Machine;
use pyo3::exceptions::PyAttributeError;
use pyo3::prelude::*;
use wattline_policy::{
    CoreView, LatencyView, Looks, Observation, OperatingPoint, QueueView, Trigger,
};
use wattline_units::{Span, Time};

/// Observation that a policy gets when it is asked.
///
/// - `time_seconds`, `since_seconds`: time since the run began, and since the last decision (0 at the
///   start).
/// - `trigger`: why the policy is asked: "start", "timer" or "fill".
/// - `machine`: the machine, a `Machine`.
/// - `rate_pps`, `drops`: packets per second that arrived, and packets dropped, since the last decision.
/// - `load`: share of that time in which the active cores had work, 0 to 1.
/// - `fill`: packets that wait in all rings now.
/// - `active_cores`, `frequency_ghz`: numbers of the active cores, and their fastest frequency.
/// - `queues`, `cores`: a `Queue` for each queue and a `Core` for each core, by number.
/// - `latency`: a `Latency` of the packets that left since the last decision; only with
///   `looks_at_latency`.
/// - `power_watts`: mean power since the last decision; only with `looks_at_power`.
#[pyclass(frozen, module = "wattline")]
pub struct View {
    /// Time since the run began.
    #[pyo3(get)]
    pub time_seconds: f64,
    /// Time since the policy was asked last; 0 at the start.
    #[pyo3(get)]
    pub since_seconds: f64,
    /// Reason for asking: "start", "timer" or "fill".
    #[pyo3(get)]
    pub trigger: &'static str,
    /// The machine.
    #[pyo3(get)]
    pub machine: Py<Machine>,
    /// Packets per second that arrived since it was asked last.
    #[pyo3(get)]
    pub rate_pps: f64,
    /// Share of that time in which the active cores had work, 0 to 1.
    #[pyo3(get)]
    pub load: f64,
    /// Packets that were dropped since it was asked last.
    #[pyo3(get)]
    pub drops: u64,
    /// Packets that wait in all rings.
    #[pyo3(get)]
    pub fill: u64,
    /// Numbers of the active cores.
    #[pyo3(get)]
    pub active_cores: Vec<usize>,
    /// The fastest frequency that an active core asks for, in gigahertz.
    #[pyo3(get)]
    pub frequency_ghz: f64,
    /// By number of the queue.
    #[pyo3(get)]
    pub queues: Vec<Queue>,
    /// By number of the core.
    #[pyo3(get)]
    pub cores: Vec<Core>,
    /// Latency of the packets that left since it was asked last, where the policy looks at it.
    latency: Option<Latency>,
    /// Mean power since it was asked last, in watts, where the policy looks at it.
    power_watts: Option<f64>,
    /// Parts of the observation that the policy uses.
    looks: Looks,
}

#[pymethods]
impl View {
    #[getter]
    fn latency(&self) -> PyResult<Option<Latency>> {
        match self.looks.latency {
            true => Ok(self.latency.clone()),
            false => Err(not_looked_at("latency", "looks_at_latency")),
        }
    }

    #[getter]
    fn power_watts(&self) -> PyResult<Option<f64>> {
        match self.looks.power {
            true => Ok(self.power_watts),
            false => Err(not_looked_at("power_watts", "looks_at_power")),
        }
    }

    fn __repr__(&self) -> String {
        format!(
            "View(time_seconds={}, trigger={:?}, rate_pps={:.0}, load={:.3}, fill={})",
            self.time_seconds, self.trigger, self.rate_pps, self.load, self.fill
        )
    }
}

/// For a figure that costs time to find, and that the policy did not ask for.
fn not_looked_at(figure: &str, attribute: &str) -> PyErr {
    PyAttributeError::new_err(format!(
        "view.{figure} is there only for a policy with the class attribute {attribute} = True"
    ))
}

/// A receive queue.
#[pyclass(frozen, get_all, module = "wattline")]
#[derive(Clone)]
pub struct Queue {
    /// Packets that wait in the ring.
    pub fill: u32,
    /// Packets that arrived since the run began, dropped ones included.
    pub arrivals: u64,
    /// Packets dropped since the run began because the ring was full.
    pub drops: u64,
}

impl From<&QueueView> for Queue {
    fn from(view: &QueueView) -> Self {
        Self { fill: view.fill, arrivals: view.arrivals, drops: view.drops }
    }
}

/// A core; all times count from the start of the run.
#[pyclass(frozen, get_all, module = "wattline")]
#[derive(Clone)]
pub struct Core {
    /// Time awake with work.
    pub useful_seconds: f64,
    /// Time awake without work.
    pub empty_seconds: f64,
    /// Time in an idle state.
    pub asleep_seconds: f64,
    /// Number of times that it fell asleep.
    pub sleeps: u64,
    /// Packets that it served.
    pub packets: u64,
    /// Index of the idle state that it is in; None when awake.
    pub idle_state: Option<usize>,
    /// The frequency that it runs at, in gigahertz.
    pub frequency_ghz: Option<f64>,
}

impl From<&CoreView> for Core {
    fn from(view: &CoreView) -> Self {
        Self {
            useful_seconds: view.useful.as_seconds(),
            empty_seconds: view.empty.as_seconds(),
            asleep_seconds: view.asleep.as_seconds(),
            sleeps: view.sleeps,
            packets: view.packets,
            idle_state: view.idle_state,
            frequency_ghz: view.frequency.map(|hertz| hertz.0 / 1e9),
        }
    }
}

/// Latency of the packets that left since the policy was asked last.
#[pyclass(frozen, get_all, module = "wattline")]
#[derive(Clone)]
pub struct Latency {
    /// Packets that were measured; the rest is 0 without any.
    pub samples: u64,
    /// Measured packets later than `late_after_seconds` of the policy.
    pub late: u64,
    /// Mean.
    pub mean_seconds: f64,
    /// 95th percentile.
    pub p95_seconds: f64,
    /// 99th percentile.
    pub p99_seconds: f64,
}

impl From<LatencyView> for Latency {
    fn from(view: LatencyView) -> Self {
        Self {
            samples: view.samples,
            late: view.late,
            mean_seconds: view.mean.as_seconds(),
            p95_seconds: view.p95.as_seconds(),
            p99_seconds: view.p99.as_seconds(),
        }
    }
}

/// Counts at the previous decision.
#[derive(Default)]
pub struct Before {
    now: Time,
    arrivals: u64,
    drops: u64,
    useful: Vec<Span>,
}

impl Before {
    /// Returns the observation at `now`.
    pub fn view(
        &mut self,
        machine: Py<Machine>,
        now: Time,
        seen: &Observation<'_>,
        point: &OperatingPoint,
        looks: Looks,
    ) -> View {
        let arrivals = seen.arrivals();
        let drops = seen.queues.iter().map(|queue| queue.drops).sum();
        self.useful.resize(seen.cores.len(), Span::ZERO);
        let since = now.since(self.now).as_seconds();
        let mut busy = 0.0;
        for core in point.active.iter().filter(|&core| core < seen.cores.len()) {
            busy += seen.cores[core].useful.as_seconds() - self.useful[core].as_seconds();
        }
        let per_second = |amount: f64| if since > 0.0 { amount / since } else { 0.0 };
        let fastest = seen.platform.frequencies.get(point.fastest_active());
        let view = View {
            time_seconds: now.as_seconds(),
            since_seconds: since,
            trigger: match seen.trigger {
                Trigger::Start => "start",
                Trigger::Timer => "timer",
                Trigger::Batch { .. } => "batch",
                Trigger::Fill { .. } => "fill",
                Trigger::EmptyPolls { .. } => "empty-polls",
                Trigger::Streak { .. } => "streak",
                Trigger::Silence { .. } => "silence",
            },
            machine,
            rate_pps: per_second(arrivals.saturating_sub(self.arrivals) as f64),
            // Work that was booked a moment before or after must not make it more than 1.
            load: (per_second(busy) / point.active.len().max(1) as f64).clamp(0.0, 1.0),
            drops: u64::saturating_sub(drops, self.drops),
            fill: seen.queues.iter().map(|queue| u64::from(queue.fill)).sum(),
            active_cores: point.active.iter().collect(),
            frequency_ghz: fastest.map_or(0.0, |hertz| hertz.0 / 1e9),
            queues: seen.queues.iter().map(Queue::from).collect(),
            cores: seen.cores.iter().map(Core::from).collect(),
            latency: seen.latency.map(Latency::from),
            power_watts: seen.power.map(|power| power.watts.0),
            looks,
        };
        (self.now, self.arrivals, self.drops) = (now, arrivals, drops);
        for (before, core) in self.useful.iter_mut().zip(seen.cores) {
            *before = core.useful;
        }
        view
    }
}
