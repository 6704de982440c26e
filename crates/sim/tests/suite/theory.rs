//! The simulator compared with queueing theory, on a single core without overheads.

use crate::common::{poisson, server, setting, simulate};
use wattline_server::{ServerModel, ServiceDistribution};
use wattline_units::Span;

const SERVICE: f64 = 1e-6;

/// Returns the mean waiting time of the simulated packets and the report's mean number inside.
fn waiting(server: &ServerModel, policy: &str, load: f64, seed: u64) -> (f64, f64, f64) {
    let mut setting = setting(server, policy);
    // Long enough for a precise mean: near saturation, waiting times are long and correlated.
    setting.duration = Span::from_millis(if load > 0.8 { 12_000 } else { 4_000 });
    let report = simulate(&setting, &mut poisson(server, load / SERVICE, 64, seed));
    assert_eq!(report.dropped_packets, 0);
    let latency = report.latency_mean_seconds.unwrap();
    (latency - SERVICE, report.packets_inside_mean, report.forwarded_rate_pps * latency)
}

fn assert_near(simulated: f64, theory: f64, what: &str) {
    let error = simulated / theory - 1.0;
    assert!(error.abs() < 0.02, "{what}: {simulated:e} s, theory {theory:e} s, {error:+.4}");
}

#[test]
fn deterministic_service_waits_as_m_d_1() {
    let server = server("ideal-single-core");
    for load in [0.3, 0.6, 0.9] {
        // Pollaczek-Khinchine formula: W = ρ s / (2 (1 - ρ)).
        let theory = load * SERVICE / (2.0 * (1.0 - load));
        for policy in ["poll", "napi"] {
            let (simulated, inside, by_latency) = waiting(&server, policy, load, 3);
            assert_near(simulated, theory, &format!("M/D/1 {policy} at {load}"));
            assert!((inside / by_latency - 1.0).abs() < 1e-3, "Little: {inside} {by_latency}");
        }
    }
}

#[test]
fn exponential_service_waits_as_m_m_1() {
    let mut server = server("ideal-single-core");
    server.capacity.service = ServiceDistribution::Exponential;
    for load in [0.3, 0.6, 0.9] {
        // W = ρ s / (1 - ρ).
        let theory = load * SERVICE / (1.0 - load);
        let (simulated, inside, by_latency) = waiting(&server, "napi", load, 5);
        assert_near(simulated, theory, &format!("M/M/1 at {load}"));
        assert!((inside / by_latency - 1.0).abs() < 1e-3, "Little: {inside} {by_latency}");
    }
}

#[test]
fn a_core_that_must_wake_up_waits_as_m_g_1_with_set_up() {
    for (distribution, second_moment) in
        [(ServiceDistribution::Fixed, 1.0), (ServiceDistribution::Exponential, 2.0)]
    {
        let mut server = server("ideal-single-core");
        server.capacity.service = distribution;
        // To the packets it does not matter if the core works or sleeps meanwhile.
        server.wake_up.delivery_seconds = 2e-6;
        server.wake_up.fixed_seconds = 3e-6;
        let set_up = 5e-6;
        for load in [0.3, 0.6, 0.9] {
            // Welch (1964): in addition to the queueing of M/G/1, the set-up delays packets that
            // arrive before or during it by (2D + λD²) / (2 (1 + λD)) on average.
            let rate = load / SERVICE;
            let queueing = rate * second_moment * SERVICE * SERVICE / (2.0 * (1.0 - load));
            let delay = (2.0 * set_up + rate * set_up * set_up) / (2.0 * (1.0 + rate * set_up));
            let (simulated, inside, by_latency) = waiting(&server, "napi", load, 7);
            let what = format!("M/G/1 with set-up, {distribution:?} at {load}");
            assert_near(simulated, queueing + delay, &what);
            assert!((inside / by_latency - 1.0).abs() < 1e-3, "Little: {inside} {by_latency}");
        }
    }
}
