//! Statistics of a governor without a router.

use crate::contract::Contract;
use crate::power::Power;
use crate::rule::RuleName;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wattline_units::Build;

/// Statistics of a governor without a router.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GovernorStats {
    /// Number of the contract that this document follows.
    pub contract: Contract,
    /// Build of the daemon.
    pub build: Build,
    /// Time since the governor was started.
    pub uptime_seconds: f64,
    /// Parts of the configuration, as last read, that are not in force before a restart.
    pub needs_restart: Vec<String>,
    /// Lines of the log that could not be written.
    pub log_lines_lost: u64,
    /// Interfaces; absent while nothing is governed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<InterfaceStats>,
    /// CPUs; absent while nothing is governed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workers: Vec<CoreStats>,
    /// Power and operating point; absent while nothing is governed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power: Option<Power>,
    /// Rule in force for the operating point, and its bounds.
    pub govern: GovernStatus,
}

/// An interface, counted by the kernel.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InterfaceStats {
    /// Its name.
    pub name: String,
    /// Operational state; `gone` if the interface no longer exists.
    pub state: String,
    /// Packets that came in.
    pub received_packets: u64,
    /// Bytes of them.
    pub received_bytes: u64,
    /// Packets that went out.
    pub transmitted_packets: u64,
    /// Bytes of them.
    pub transmitted_bytes: u64,
    /// Packets lost for lack of room in the card.
    pub missed_packets: u64,
}

/// A governed CPU, since governing began.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CoreStats {
    /// Number of the CPU.
    pub cpu: Option<u32>,
    /// True: all CPUs serve.
    pub active: bool,
    /// Packets that the kernel's stack took on it.
    pub received: u64,
    /// Time that it was not idle.
    pub busy_seconds: f64,
    /// Time that it was idle.
    pub idle_seconds: f64,
}

/// Rule in force for the operating point, and its bounds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GovernStatus {
    /// Name of the profile.
    pub profile: String,
    /// Keys whose values differ from the profile.
    pub overrides: Vec<String>,
    /// The policy, with its parameters.
    pub policy: String,
    /// The policy's remark on its own work.
    pub policy_remark: Option<String>,
    /// Rule in force; absent while nothing is governed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<RuleName>,
    /// Reason why nothing is governed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits_because: Option<String>,
    /// Target of the 99th percentile.
    pub latency_target_seconds: Option<f64>,
    /// The policy's target of the 95th percentile.
    pub policy_target_seconds: Option<f64>,
    /// Sources of latency.
    #[serde(default)]
    pub latency: Option<Vec<SourceState>>,
    /// Parts of the machine that are not governed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOut>,
    /// Other programs and drivers that set the same knobs.
    pub rivals: Vec<Rival>,
    /// Restarts of governing after changes of the machine or the configuration.
    pub restarts: u64,
    /// Processor time and memory of this process.
    pub process: ProcessStats,
}

/// Origin of latency samples: what they include.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// Clients of the service, by their own measurement; a load generator is one, which counts from
    /// the intended time of sending to the answer.
    #[default]
    Clients,
    /// The application's own histogram: without the network, and mostly without the wait of a
    /// request before the application takes it.
    Application,
    /// TCP's own measurement on the server's connections: the network and both kernels, without the
    /// application.
    RoundTrips,
}

/// A source of latency.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SourceState {
    /// Its name.
    pub name: String,
    /// Origin of its samples.
    pub origin: Origin,
    /// True if it did not report within `latency_silence`.
    pub silent: bool,
    /// Time since its last report; null without any.
    pub heard_seconds_ago: Option<f64>,
    /// Reason for the silence, if known.
    pub problem: Option<String>,
    /// Number of requests behind the figures.
    pub samples: u64,
    /// Age of the newest request.
    pub age_seconds: Option<f64>,
    /// Mean.
    pub latency_mean_seconds: Option<f64>,
    /// Median; null if unknown or beyond the source's range.
    pub latency_p50_seconds: Option<f64>,
    /// 95th percentile.
    pub latency_p95_seconds: Option<f64>,
    /// 99th percentile.
    pub latency_p99_seconds: Option<f64>,
    /// Reports that were refused, by reason.
    pub refused: Refused,
}

macro_rules! refused {
    ($($(#[$doc:meta])* $name:ident = $label:literal,)*) => {
        /// Reports that were refused, by reason.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        pub struct Refused {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Refused {
            /// Returns all reasons, as metrics name them, with their counts.
            pub fn by_reason(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$(($label, self.$name)),*].into_iter()
            }
        }
    };
}

refused! {
    /// Not in the format.
    malformed = "malformed",
    /// Latencies or counts below zero.
    negative = "negative",
    /// Not a number, or infinite.
    not_a_number = "not-a-number",
    /// Latencies above an hour, impossible counts, texts that are too long.
    absurd = "absurd",
    /// From the future.
    future = "future",
    /// From before the source's window.
    old = "old",
    /// Contradictory: a bucket that holds less than one below it, or that shrinks.
    inconsistent = "inconsistent",
}

impl Refused {
    /// Returns the total of all reasons.
    pub fn total(&self) -> u64 {
        self.by_reason().map(|(_, count)| count).sum()
    }
}

/// A part of the machine that is not governed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LeftOut {
    /// CPUs or interfaces.
    pub what: String,
    /// Reason.
    pub why: String,
}

/// A program or driver that sets the same knobs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Rival {
    /// Its name.
    pub name: String,
    /// Knobs that it sets, in words.
    pub sets: String,
    /// Labels of these knobs, as in write counters.
    pub labels: Vec<String>,
    /// Sign of its presence.
    pub seen: String,
    /// Way to stop it.
    pub remedy: String,
}

/// Processor time and memory of a process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProcessStats {
    /// Processor time, in user and in kernel mode.
    pub cpu_seconds: f64,
    /// Resident memory.
    pub resident_bytes: u64,
}
