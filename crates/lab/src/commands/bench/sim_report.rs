//! The speed of the simulator, and its page.

use serde::Serialize;
use wattline_bench::figure_page;
use wattline_report::FigurePage;
use wattline_report::plot::{Axis, Bars};
use wattline_sim::Profile;

/// The result.
#[derive(Serialize)]
pub(super) struct Output<'a> {
    pub server: &'a str,
    pub policy: &'a str,
    pub traffic: &'a str,
    pub runs: u32,
    pub simulated_packets_per_run: u64,
    /// Rate by the processor time of the simulating thread, as on a core without other programs.
    /// Median, lowest and highest of the runs.
    pub simulated_packets_per_cpu_second: f64,
    pub simulated_packets_per_cpu_second_least: f64,
    pub simulated_packets_per_cpu_second_most: f64,
    /// Rate by real time, which other programs on this machine disturb.
    pub simulated_packets_per_second: f64,
    /// Share of the real time in which the simulating thread had a core.
    pub cpu_share: f64,
    /// Shares of a run's time.
    pub profile: Profile,
    pub sweep_threads: usize,
    pub sweep_simulations: usize,
    pub sweep_seconds_one_thread: f64,
    pub sweep_seconds_all_threads: f64,
    pub sweep_speed_up: f64,
    /// Speed-up by thread; 1 is linear.
    pub sweep_efficiency: f64,
    /// True if all threads gave the same results as one.
    pub sweep_results_identical: bool,
}

/// Returns the page.
pub(super) fn page(output: &Output<'_>) -> FigurePage {
    let millions = |rate: f64| format!("{:.2}", rate / 1e6);
    let verdict = format!(
        "{} million packets a second of one core ({} to {}).",
        millions(output.simulated_packets_per_cpu_second),
        millions(output.simulated_packets_per_cpu_second_least),
        millions(output.simulated_packets_per_cpu_second_most)
    );
    let mut page = FigurePage::begin("Speed of the simulator", &verdict);
    let parts = output.profile.parts();
    let whole: f64 = parts.iter().map(|(_, seconds)| seconds).sum();
    let axis = Axis::new("% of the time").from_zero();
    let bars = Bars::new("Time by part", "part", axis, parts.iter().map(|(name, _)| *name))
        .series("share", parts.iter().map(|(_, it)| 100.0 * it / whole));
    page.plots([bars.svg()]);
    let percent = |ratio: f64| format!("{:.0} %", 100.0 * ratio);
    let same = if output.sweep_results_identical { "identical" } else { "DIFFERENT" };
    page.values([
        ("a run had a core for", percent(output.cpu_share)),
        ("simulations of the sweep", output.sweep_simulations.to_string()),
        ("threads", output.sweep_threads.to_string()),
        ("on one thread, s", format!("{:.2}", output.sweep_seconds_one_thread)),
        ("on all, s", format!("{:.2}", output.sweep_seconds_all_threads)),
        ("speed-up", format!("{:.2}", output.sweep_speed_up)),
        ("speed-up by thread", format!("{:.2}", output.sweep_efficiency)),
        ("results of one thread and of all", same.to_owned()),
    ]);
    let how = [
        ("figures", "measured: packets by the processor time of the simulating thread, the sweep by the clock".to_owned()),
        ("server", output.server.to_owned()),
        ("policy", output.policy.to_owned()),
        ("traffic", output.traffic.to_owned()),
        ("runs; figures are medians", output.runs.to_string()),
        ("packets of a run", output.simulated_packets_per_run.to_string()),
    ];
    figure_page::end(page, &how, None)
}
