//! The simulator compared with the closed form of PowerSave's machine: simulated wake-ups and
//! batches must give the same figures.

use crate::common::{poisson, server, setting, simulate};
use wattline_server::Application;
use wattline_sim::Setting;
use wattline_units::{Hertz, PacketsPerSecond, Span};

fn against_closed_form(policy: &str, cores: usize, gigahertz: f64, rate: f64, bytes: u16) {
    let server = server("westmere-2010");
    let mut setting = setting(&server, policy);
    setting.mean_bytes = bytes.into();
    setting.duration = Span::from_millis(50);
    setting.warmup = Span::from_millis(5);
    let report = simulate(&setting, &mut poisson(&server, rate, bytes, 11));
    let cost = server.packet_cost(Application::Ipv4, bytes.into()).unwrap();
    let frequency = server.processor.nearest_frequency(Hertz::from_gigahertz(gigahertz));
    let point = match policy.starts_with("poll") {
        true => server.polling_point(cores, frequency),
        false => server.napi_point(cores, frequency),
    };
    let offered = PacketsPerSecond(rate);
    let power = server.power_at(cost, bytes.into(), &point, offered).total().0;
    let error = report.power_watts / power - 1.0;
    assert!(error.abs() < 0.01, "{policy}: {} W, closed form {power} W", report.power_watts);
    let awake = server.awake_fraction(cost, &point, offered);
    let active = &report.residency.cores[..cores];
    let simulated = active.iter().map(|core| core.useful + core.empty).sum::<f64>() / cores as f64;
    assert!((simulated - awake).abs() < 0.02, "{policy}: awake {simulated}, closed form {awake}");
    assert_eq!(report.dropped_packets, 0, "{policy}");
    let latency = server.mean_latency(cost, &point, offered).unwrap().total().as_seconds();
    let error = report.latency_mean_seconds.unwrap() / latency - 1.0;
    assert!(error.abs() < 0.05, "{policy}: latency {error:+} off the closed form");
}

#[test]
fn napi_at_every_load() {
    for mpps in [0.1, 1.0, 4.883, 12.0, 24.0] {
        against_closed_form("napi", 12, 3.333, mpps * 1e6, 64);
    }
}

#[test]
fn napi_with_large_packets_meets_the_published_saving() {
    // 4.7 Mpps of 1024 bytes are 38.5 Gbit/s; with preamble and gap the links carry 39.2.
    against_closed_form("napi", 12, 3.333, 4.7e6, 1024);
    against_closed_form("poll", 12, 3.333, 4.7e6, 1024);
}

#[test]
fn few_cores_at_low_frequency() {
    against_closed_form("napi:cores=3,frequency_ghz=1.6", 3, 1.6, 5e6, 64);
    against_closed_form("napi:cores=1,frequency_ghz=1.6", 1, 1.6, 1e6, 64);
    against_closed_form("napi:cores=12,frequency_ghz=1.6", 12, 1.6, 5e6, 64);
}

#[test]
fn saturated_capacity_and_power_are_those_of_the_model() {
    let server = server("westmere-2010");
    let cost = server.packet_cost(Application::Ipv4, 64).unwrap();
    for (cores, gigahertz) in [(12, 3.333), (12, 1.6), (1, 3.2), (1, 1.6)] {
        let frequency = server.processor.nearest_frequency(Hertz::from_gigahertz(gigahertz));
        let capacity = server.core_capacity(cost, cores, frequency);
        let policy = format!("napi:cores={cores},frequency_ghz={gigahertz}");
        let setting = Setting {
            duration: Span::from_millis(20),
            warmup: Span::from_millis(5),
            ..setting(&server, &policy)
        };
        let report = simulate(&setting, &mut poisson(&server, 1.2 * capacity.0, 64, 1));
        assert!((report.forwarded_rate_pps / capacity.0 - 1.0).abs() < 1e-3, "{policy}");
        assert!(report.dropped_packets > 0, "{policy}");
        let lost = 1.0 - report.forwarded_rate_pps / report.offered_rate_pps;
        assert!((lost - (1.0 - 1.0 / 1.2)).abs() < 0.01, "{policy}: {lost}");
        let point = server.napi_point(cores, frequency);
        let power = server.power_at(cost, 64, &point, capacity).total().0;
        assert!((report.power_watts / power - 1.0).abs() < 0.01, "{policy}: {power} W");
    }
}
