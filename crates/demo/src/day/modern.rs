//! The same traffic on a server of 2023, only in the simulator: savings on PowerSave's server of
//! 2010 say little about those on today's servers.

use super::settings::Settings;
use serde::Serialize;
use std::time::Duration;
use wattline_policies::POLICIES;
use wattline_policy::PolicySpec;
use wattline_server::ServerFile;
use wattline_units::{Accuracy, Source};

/// The server model.
pub(super) const SERVER: &str = "xeon-platinum-8470";
/// Linux's default on such a server: NAPI, frequencies by its governor, all idle states.
pub(super) const KERNEL: &str = "intel-pstate";

/// A day under one policy.
#[derive(Debug, Clone, Serialize)]
pub struct ModernDay {
    /// Server model.
    pub server: &'static str,
    /// Policy with its parameters.
    pub policy: String,
    /// Mean power.
    pub power_watts: f64,
    /// Origin of the power.
    pub source: Source,
    /// Accuracy of the power.
    pub accuracy: Accuracy,
    /// Energy saved compared with the kernel's default, as a share of its energy.
    pub saving_over_kernel_ratio: f64,
    /// 99th percentile of latency.
    pub latency_p99_seconds: Option<f64>,
    /// Packets dropped because their ring was full.
    pub dropped_packets: u64,
}

/// Shortest simulated day: governors that decide every ten milliseconds would decide nine times in
/// the demonstration's day, and find no low load.
const SHORTEST: Duration = Duration::from_secs(1);

/// Simulates the day, or one of a second, under the kernel's policy and the policies of the
/// settings. Policies that this server does not support are left out.
pub(super) fn days(settings: &Settings) -> Vec<ModernDay> {
    let day = Duration::from_nanos(settings.day().as_picos() / 1_000).max(SHORTEST);
    let settings = &Settings { duration: day, dilation: 1, ..settings.clone() };
    let Ok(spec) = settings.spec() else { return Vec::new() };
    let Ok(file) = ServerFile::load(SERVER) else { return Vec::new() };
    let Ok(server) = file.model() else { return Vec::new() };
    let run = |policy: &PolicySpec| settings.scenario(server, policy, &spec).run().ok();
    let Some(kernel) = POLICIES.parse(KERNEL).ok().and_then(|policy| run(&policy)) else {
        return Vec::new();
    };
    let day = |policy: String, report: &wattline_sim::Report| ModernDay {
        server: SERVER,
        policy,
        power_watts: report.power_watts,
        source: report.source,
        accuracy: report.accuracy,
        saving_over_kernel_ratio: 1.0 - report.energy_joules / kernel.energy_joules,
        latency_p99_seconds: report.latency_p99_seconds,
        dropped_packets: report.dropped_packets,
    };
    let policies = settings.policies.iter();
    let others = policies.filter_map(|policy| Some(day(policy.to_string(), &run(policy)?)));
    std::iter::once(day(KERNEL.to_owned(), &kernel)).chain(others).collect()
}

#[cfg(test)]
mod tests {
    use super::super::settings::tests::settings;
    use super::*;

    #[test]
    fn days_are_compared_with_the_kernels_default() {
        let settings = settings(&["poll", "napi:idle=none-such"], 500, Duration::from_secs(2));
        let days = days(&settings);
        let names: Vec<&str> = days.iter().map(|day| day.policy.as_str()).collect();
        assert_eq!(names, [KERNEL, "poll"], "a policy that cannot run is left out");
        assert_eq!(days[0].saving_over_kernel_ratio, 0.0);
        // Cores that poll take more than cores that sleep.
        assert!(days[1].saving_over_kernel_ratio < -0.1, "{:?}", days[1]);
        assert_eq!(days[1].source, Source::Modelled);
    }

    /// README has the figures that the demonstration prints by default.
    #[test]
    fn readme_has_the_figures_of_the_newer_server() {
        let readme =
            std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md"));
        let readme = readme.unwrap();
        let policies = ["poll", "queue-length", "wattline"];
        let settings = Settings {
            load: "35%".to_owned(),
            size: "imix".to_owned(),
            ..settings(&policies, 500, Duration::from_secs(45))
        };
        let days = days(&settings);
        let [kernel, poll, others @ ..] = &days[..] else { panic!("{days:?}") };
        let mut said = vec![
            format!("| {:.0} W | {:.0} µs |", kernel.power_watts, micros(kernel)),
            format!("Polling cores would take {:.0} W.", poll.power_watts),
        ];
        said.extend(others.iter().map(|day| {
            let saved = 100.0 * day.saving_over_kernel_ratio;
            format!("| {:.0} W, {saved:.0} % less | {:.0} µs", day.power_watts, micros(day))
        }));
        for said in said {
            assert!(readme.contains(&said), "{said}: {days:#?}");
        }
    }

    fn micros(day: &ModernDay) -> f64 {
        1e6 * day.latency_p99_seconds.unwrap()
    }
}
