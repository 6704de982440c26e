//! Power, the operating point and its knobs.

use crate::decision::Decision;
use crate::moderation::Moderation;
use crate::settable::CanSet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use wattline_units::{Accuracy, Source, named};

/// The governor's figures: power, energy, operating point, decisions and knobs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Power {
    /// Platform of the governor.
    pub platform: PlatformName,
    /// Name of the policy.
    pub policy: String,
    /// Name or file of the server model; only for a router.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// Work per packet assumed by the model; only for a router.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub application: Option<String>,
    /// Slow-down factor on platform `scale`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale: Option<u32>,
    /// Source of power and energy.
    pub source: Source,
    /// Their accuracy.
    pub accuracy: Accuracy,
    /// Mean power of the last five seconds, or of the whole run at its end; null if unknown.
    pub power_watts: Option<f64>,
    /// The same by component.
    pub power_by_component_watts: BTreeMap<String, f64>,
    /// Power that no component accounts for.
    pub power_rest_watts: Option<f64>,
    /// Latency of the same seconds: of packets in model time on platform `scale`, of requests for a
    /// governor with a source of latency.
    #[serde(flatten)]
    pub latency: Latency,
    /// Latency since the start, in model time, on platform `scale`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_histogram: Option<LatencyHistogram>,
    /// Energy since the start; null if unknown.
    pub energy_joules: Option<f64>,
    /// The same by component.
    pub energy_by_component_joules: BTreeMap<String, f64>,
    /// Time without metered energy since the meters' first figure: a meter was rejected or did not
    /// answer, or no governor ran while ports changed. `energy_joules` lacks its energy.
    pub energy_unmetered_seconds: f64,
    /// Model time since the start, on platform `scale`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_seconds: Option<f64>,
    /// Packets that arrived, dropped ones included.
    pub offered_packets: u64,
    /// Packets that were served.
    pub forwarded_packets: u64,
    /// Packets that found their ring full.
    pub dropped_packets: u64,
    /// Cores that can forward.
    pub cores: usize,
    /// Cores that receive packets.
    pub cores_active: usize,
    /// Frequency by core; empty if it is not governed.
    pub frequency_hertz: Vec<f64>,
    /// Deepest allowed idle state by core; null if it is not governed. Only for a governor without
    /// a router.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deepest_idle_state: Option<Vec<Option<String>>>,
    /// Interrupt moderation; only for a governor without a router.
    #[serde(flatten)]
    pub moderation: Moderation,
    /// Knobs that can be set; only for a governor without a router.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub can: Option<CanSet>,
    /// Changes of the operating point: `core_changes` and `frequency_changes`.
    pub transitions: u64,
    /// Changes of the set of active cores.
    pub core_changes: u64,
    /// Changes of frequencies.
    pub frequency_changes: u64,
    /// Calls of the policy.
    pub decisions: u64,
    /// Reason of the last change of the operating point.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Last changes requested by the policy, the oldest first.
    pub last_changes: Vec<Decision>,
    /// Entries of indirection tables that were moved.
    pub entries_moved: u64,
    /// Steps taken.
    pub steps: u64,
    /// Steps for which the machine chose another value.
    pub steps_altered: u64,
    /// Steps that failed, or were skipped because another program holds the knob.
    pub steps_failed: u64,
    /// Results of the steps, by knob.
    pub knobs: Vec<KnobSteps>,
    /// Reason why a configured governor does not run now: ports have changed and it could not
    /// restart. Counts and energy are then outdated, and all cores serve.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits_because: Option<String>,
    /// Figures of one platform only.
    #[serde(flatten)]
    pub details: Details,
}

/// Platform of a governor.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PlatformName {
    /// Nothing.
    #[default]
    None,
    /// Workers that behave like the cores of a server model.
    Scale,
    /// The knobs of this machine.
    Host,
}

impl PlatformName {
    /// Returns the name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Scale => "scale",
            Self::Host => "host",
        }
    }
}

/// A distribution of latencies; unknown figures are absent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Latency {
    /// Mean.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_mean_seconds: Option<f64>,
    /// Median.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_p50_seconds: Option<f64>,
    /// 95th percentile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_p95_seconds: Option<f64>,
    /// 99th percentile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_p99_seconds: Option<f64>,
    /// Longest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_max_seconds: Option<f64>,
}

/// Latencies since the start, in model time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LatencyHistogram {
    /// Packets.
    pub packets: u64,
    /// Sum of their latencies.
    pub sum_seconds: f64,
    /// Upper bounds in seconds, ascending, each with the number of packets up to it.
    pub buckets: Vec<(f64, u64)>,
}

// In the order in which knobs are turned to add capacity.
named! {
    /// A knob of the operating point.
    #[derive(
        Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
    )]
    #[serde(rename_all = "kebab-case")]
    pub enum Knob {
        /// Upper limit of the uncore's frequency.
        Uncore = "uncore",
        /// Frequencies of cores.
        Frequency = "frequency",
        /// Deepest idle state of a core.
        IdleLimit = "idle-limit",
        /// Wait mode of a core.
        Wait = "wait",
        /// Interrupt moderation.
        Moderation = "moderation",
        /// Packets of a batch.
        Batch = "batch",
        /// Set of active cores: waking, parking, indirection tables.
        Cores = "cores",
    }
}

impl Knob {
    /// Returns the knob with a name.
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|knob| knob.name() == name)
    }
}

/// Results of the steps of one knob.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KnobSteps {
    /// The knob.
    pub knob: Knob,
    /// Steps taken.
    pub steps: u64,
    /// Steps for which the machine chose another value.
    pub altered: u64,
    /// Steps not taken because another program had changed the setting.
    pub foreign: u64,
    /// Steps that were refused or failed.
    pub failed: u64,
    /// Message of the last step that was not done as requested.
    pub last_problem: Option<String>,
    /// False once several steps were taken and none was done as requested.
    pub effective: bool,
}

/// Figures of one platform only.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Details {
    /// The knobs and meters of this machine, on platform `host`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<HostStatus>,
    /// Lag of threads behind the model, on platform `scale`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disturbance: Option<Disturbance>,
    /// Packets held back to keep flows in order while tables were rewritten, on platform `scale`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holds: Option<Holds>,
}

/// The state of this machine's knobs and meters.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostStatus {
    /// Knobs that a policy lacks here, with reasons.
    #[serde(default)]
    pub missing: Vec<String>,
    /// Problems, each once while it lasts: foreign changes, CPUs and queues that went; the latest
    /// hundred.
    #[serde(default)]
    pub troubles: Vec<String>,
    /// Packets in the rings of queues when these lost entries of an indirection table: at most so
    /// many were overtaken by later packets of their flow. Packets inside a card are not seen.
    pub waited_at_moves_packets: u64,
    /// Settings whose driver hangs: they are skipped until it answers.
    #[serde(default)]
    pub stuck: Vec<Stuck>,
    /// Meters, with true if the last reading gave a figure.
    #[serde(default)]
    pub sensors: BTreeMap<String, bool>,
    /// Writes by knob, and there by outcome: `done`, `altered`, `foreign`, `failed`.
    #[serde(default)]
    pub writes: BTreeMap<String, BTreeMap<String, u64>>,
    /// The kernel's share of the workers' CPUs in the last second.
    #[serde(default)]
    pub kernel: Vec<KernelShare>,
}

/// A setting that has not answered yet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stuck {
    /// The setting.
    pub setting: String,
    /// Time since the request.
    pub stuck_seconds: f64,
}

/// The kernel's shares of a CPU's time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KernelShare {
    /// Number of the worker.
    pub worker: usize,
    /// Its CPU.
    pub cpu: u32,
    /// Share of its time in softirq context, 0 to 1.
    pub softirq_share: f64,
    /// Share of its time in ksoftirqd, 0 to 1; kernels that count by ticks also include it in the
    /// other share.
    pub ksoftirqd_share: f64,
    /// Share of its time in threads of NAPI instances, 0 to 1.
    #[serde(default)]
    pub napi_share: f64,
}

impl KernelShare {
    /// Returns the share of its time in which the kernel worked for packets.
    pub fn work(&self) -> f64 {
        // If the kernel counts by ticks, the time of ksoftirqd counts as soft interrupts, too.
        (self.softirq_share.max(self.ksoftirqd_share) + self.napi_share).min(1.0)
    }
}

/// Lag of threads behind the emulated model. Lateness is real time, lags of orders are model time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Disturbance {
    /// Timed waits of all threads.
    pub waits: u64,
    /// Mean time by which a thread woke too late.
    pub lateness_mean_seconds: f64,
    /// Longest time by which a thread woke too late.
    pub lateness_max_seconds: f64,
    /// Frames received.
    pub frames: u64,
    /// Frames that arrived after the core had polled for them.
    pub late_frames: u64,
    /// Orders to cores.
    pub orders: u64,
    /// Orders that reached a core after their time.
    pub late_orders: u64,
    /// Mean lag of all orders.
    pub order_lag_mean_seconds: f64,
    /// Longest lag.
    pub order_lag_max_seconds: f64,
}

/// Packets held back to keep flows in order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Holds {
    /// Longest time from a move until the old core had no moved packets left.
    pub handover_max_seconds: f64,
    /// Packets held back meanwhile.
    pub held_packets: u64,
    /// Mean time of holding back a packet.
    pub hold_mean_seconds: f64,
    /// Longest time.
    pub hold_max_seconds: f64,
    /// Rewritings of tables delayed until the previous one was over; on interfaces.
    pub deferred_moves: u64,
    /// Longest such delay.
    pub deferral_max_seconds: f64,
}

impl Power {
    /// Describes the power and its origin.
    pub fn watts_in_words(&self) -> String {
        let Self { source, accuracy, .. } = self;
        match self.power_watts {
            Some(watts) => format!("{watts:.2} W ({source}, {accuracy})"),
            None if *source == Source::Unavailable => "power unknown: no meter".to_owned(),
            None => format!("power unknown ({source}, {accuracy})"),
        }
    }
}

impl Disturbance {
    /// Returns reasons to doubt the figures because threads lagged behind the model: more than one
    /// frame in a hundred was there too late, or some core had advanced more than 10 us of the
    /// model, about two batches, before an order reached it.
    pub fn reasons(&self) -> Vec<String> {
        let mut reasons = Vec::new();
        if self.late_frames * 100 > self.frames {
            let percent = 100.0 * self.late_frames as f64 / self.frames.max(1) as f64;
            reasons.push(format!("{percent:.1} % of the frames came after their core had polled"));
        }
        if self.order_lag_max_seconds > 10e-6 {
            let micros = self.order_lag_max_seconds * 1e6;
            reasons.push(format!("an order reached a core {micros:.0} us of the model too late"));
        }
        reasons
    }

    /// Returns true if there is such a reason.
    pub fn is_disturbed(&self) -> bool {
        !self.reasons().is_empty()
    }
}
