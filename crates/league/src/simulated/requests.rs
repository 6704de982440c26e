//! The page of a simulated server of requests.

use super::{bars, begin, conclude, cores, decisions, latencies, micros, optional, steps};
use wattline_governor::decisions::Decision;
use wattline_report::FigurePage;
use wattline_sim::requests::{RequestCore, RequestReport};

/// Setting and results of a simulation of requests.
#[derive(Debug)]
pub struct Requests<'a> {
    /// Name of the server model.
    pub server: &'a str,
    /// Policy with its parameters.
    pub policy: &'a str,
    /// Text of the requests.
    pub requests: &'a str,
    /// Seed of all random numbers.
    pub seed: u64,
    /// Remarks on the figures.
    pub notes: &'a [String],
    /// Changes of the operating point, if requested.
    pub changes: &'a [Decision],
    /// The command that reproduces the page.
    pub command: &'a str,
    /// Results.
    pub report: &'a RequestReport,
}

impl Requests<'_> {
    /// Makes the page.
    pub fn page(&self) -> FigurePage {
        let report = self.report;
        let title = format!("Simulation: {} under {}", self.server, self.policy);
        let outcome = format!(
            "{:.2} W of the package at {:.1} of {:.1} thousand requests per second answered, {} dropped{}; \
             95 % within {} µs.{}",
            report.power_watts,
            report.answered_rate_rps / 1e3,
            report.offered_rate_rps / 1e3,
            report.dropped_requests,
            if report.dropped_requests == 0 { "" } else { " because a ring was full" },
            micros(report.latency_p95_seconds),
            if report.sustained { "" } else { " The load is not sustained." },
        );
        let power = format!("{} (accuracy: {})", report.source, report.accuracy);
        let notes: Vec<String> = report.policy_remark.iter().chain(self.notes).cloned().collect();
        let mut page = begin(&title, &outcome, &power, &notes);
        page.heading("The whole time");
        let parts = self.parts().map(|(name, watts)| (name.to_owned(), watts));
        let mut plots = vec![bars("Power by part", "part of the package", "W", &parts)];
        let percentiles = [
            ("50 %", report.latency_p50_seconds),
            ("95 %", report.latency_p95_seconds),
            ("99 %", report.latency_p99_seconds),
        ];
        plots.extend(latencies("share of the requests", &percentiles));
        plots.extend([self.residency(), self.states()]);
        page.plots(plots);
        page.heading("Figures");
        page.table(["figure", "value"], self.figures());
        decisions(&mut page, self.changes);
        let conditions = [
            ("server", self.server),
            ("policy", self.policy),
            ("requests", self.requests),
            ("seed", &self.seed.to_string()),
            ("simulated time, s", &report.duration_seconds.to_string()),
        ];
        conclude(page, &conditions, self.command)
    }

    fn residency(&self) -> String {
        let by = |of: &dyn Fn(&RequestCore) -> f64| -> Vec<f64> {
            self.report.cores.iter().map(of).collect()
        };
        let mut states = vec![
            ("application".to_owned(), by(&|core| core.application)),
            ("interrupts".to_owned(), by(&|core| core.kernel)),
        ];
        for (index, name) in self.report.idle_states.iter().enumerate() {
            let share = |core: &RequestCore| core.idle.get(index).copied().unwrap_or(0.0);
            states.push((name.clone(), by(&share)));
        }
        cores(states)
    }

    fn states(&self) -> String {
        let hertz = self.report.frequencies_hertz.iter().zip(&self.report.frequency_shares);
        let shares: Vec<(String, f64)> =
            hertz.map(|(hertz, share)| (format!("{:.1}", hertz / 1e9), share * 100.0)).collect();
        bars("Time at each frequency", "frequency (GHz)", "share of time (%)", &shares)
    }

    /// Returns the power of each part, and the share of time that cores spend in each state.
    fn shares(&self) -> Vec<[String; 2]> {
        let report = self.report;
        let watts = |(name, watts): (&str, f64)| [format!("{name}, W"), format!("{watts:.2}")];
        let mut rows: Vec<[String; 2]> = self.parts().map(watts).into();
        let mut share = |name: &str, of: &dyn Fn(&RequestCore) -> f64| {
            let mean = report.cores.iter().map(of).sum::<f64>() / report.cores.len() as f64;
            rows.push([format!("time in {name}, %"), format!("{:.1}", mean * 100.0)]);
        };
        share("the application", &|core| core.application);
        share("interrupts", &|core| core.kernel);
        for (index, name) in report.idle_states.iter().enumerate() {
            share(name, &|core| core.idle[index]);
        }
        rows
    }

    /// Returns the parts of the package with their mean power in watts.
    fn parts(&self) -> [(&'static str, f64); 4] {
        let report = self.report;
        [
            ("package", report.package_power_watts),
            ("uncore", report.uncore_power_watts),
            ("cores awake", report.awake_power_watts),
            ("cores idle", report.idle_power_watts),
        ]
    }

    fn figures(&self) -> Vec<[String; 2]> {
        let report = self.report;
        [
            ["offered, requests", &report.offered_requests.to_string()],
            ["answered, requests", &report.answered_requests.to_string()],
            ["dropped, ring full, requests", &report.dropped_requests.to_string()],
            ["latency mean, µs", &micros(report.latency_mean_seconds)],
            ["latency 50 %, µs", &micros(report.latency_p50_seconds)],
            ["latency 95 %, µs", &micros(report.latency_p95_seconds)],
            ["latency 99 %, µs", &micros(report.latency_p99_seconds)],
            ["latency longest, µs", &micros(report.latency_max_seconds)],
            ["power of the package, W", &format!("{:.2}", report.power_watts)],
            ["energy, J", &format!("{:.3}", report.energy_joules)],
            ["energy per request, µJ", &optional(report.energy_per_request_joules, 1e6, 3)],
            ["V/F state, mean (P0 is the fastest)", &format!("P{:.2}", report.mean_state())],
            ["moderation period, mean, µs", &micros(Some(report.period_mean_seconds))],
            ["interrupts per request", &optional(report.interrupts_per_request, 1.0, 3)],
            ["changes of the operating point", &report.transitions.to_string()],
        ]
        .map(|row| row.map(str::to_owned))
        .into_iter()
        .chain(self.shares())
        .chain(steps(&report.knobs))
        .collect()
    }
}
