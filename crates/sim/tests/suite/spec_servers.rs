//! Shipped servers that were written from a published result of SPECpower.

use crate::common::{poisson, server, setting, simulate};
use wattline_units::Span;

/// Power of the whole server at idle and at full load, as published.
const PUBLISHED: [(&str, [f64; 2]); 2] =
    [("epyc-9654p", [72.2, 373.0]), ("xeon-e-2388g", [18.0, 73.6])];
/// Assumed power of the card.
const CARD: f64 = 10.0;

#[test]
fn server_of_a_published_result_draws_between_its_idle_and_full_power() {
    for (name, [idle, full]) in PUBLISHED {
        let server = server(name);
        let power = |policy: &str, rate: f64| {
            let mut setting = setting(&server, policy);
            setting.duration = Span::from_millis(10);
            setting.warmup = Span::from_millis(2);
            let report = simulate(&setting, &mut poisson(&server, rate, 64, 1));
            assert_eq!(report.dropped_packets, 0, "{name}: {policy}");
            report.power_watts - CARD
        };
        let polling = power("poll", 20e6);
        assert!((polling / full - 1.0).abs() < 0.01, "{name}: {polling} W, published {full} W");
        let asleep = power("napi:idle=deepest", 100.0);
        assert!((asleep / idle - 1.0).abs() < 0.03, "{name}: {asleep} W, published {idle} W");
        let busy = power("napi:idle=deepest", 20e6);
        assert!(idle < busy && busy < full, "{name}: {busy} W");
    }
}
