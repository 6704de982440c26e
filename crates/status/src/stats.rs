//! The answer to `stats`.

use crate::contract::{Contract, Document};
use crate::governor::GovernorStats;
use crate::power::Power;
use crate::router::RouterStats;
use crate::stages::DemonstrationStats;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wattline_units::Build;

/// Statistics of a daemon.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "daemon", rename_all = "kebab-case")]
pub enum Stats {
    /// Statistics of a router.
    Router(Box<RouterStats>),
    /// Statistics of a governor without a router.
    Governor(Box<GovernorStats>),
    /// Statistics of a demonstration.
    Demonstration(Box<DemonstrationStats>),
}

impl Document for Stats {
    const NAME: &'static str = "stats";
}

impl Stats {
    /// Returns the number of the contract.
    pub fn contract(&self) -> Contract {
        match self {
            Self::Router(stats) => stats.contract,
            Self::Governor(stats) => stats.contract,
            Self::Demonstration(stats) => stats.contract,
        }
    }

    /// Returns the build of the daemon.
    pub fn build(&self) -> &Build {
        match self {
            Self::Router(stats) => &stats.build,
            Self::Governor(stats) => &stats.build,
            Self::Demonstration(stats) => &stats.build,
        }
    }

    /// Returns the time since the daemon was started.
    pub fn uptime_seconds(&self) -> f64 {
        match self {
            Self::Router(stats) => stats.uptime_seconds,
            Self::Governor(stats) => stats.uptime_seconds,
            Self::Demonstration(stats) => stats.uptime_seconds,
        }
    }

    /// Returns the figures of its governor, if it has one.
    pub fn power(&self) -> Option<&Power> {
        match self {
            Self::Router(stats) => stats.power.as_ref(),
            Self::Governor(stats) => stats.power.as_ref(),
            Self::Demonstration(stats) => stats.power.as_ref(),
        }
    }

    /// Returns the parts of the configuration that are not in force before a restart.
    pub fn needs_restart(&self) -> &[String] {
        match self {
            Self::Router(stats) => &stats.needs_restart,
            Self::Governor(stats) => &stats.needs_restart,
            Self::Demonstration(_) => &[],
        }
    }

    /// Returns the number of lost log lines.
    pub fn log_lines_lost(&self) -> u64 {
        match self {
            Self::Router(stats) => stats.log_lines_lost,
            Self::Governor(stats) => stats.log_lines_lost,
            Self::Demonstration(_) => 0,
        }
    }
}
