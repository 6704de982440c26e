//! The simulator compared with the closed form of PowerSave's machine: simulated wake-ups and
//! batches must give the same figures.

use crate::common::{poisson, server, setting, simulate};
use wattline_server::Application;
use wattline_sim::Setting;
use wattline_traffic::Spec;
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

/// PowerSave, Table 1.
#[test]
fn sleeping_cores_draw_what_is_printed() {
    let server = server("westmere-2010");
    for (policy, watts) in [("napi:idle=C6", 115.0), ("napi:idle=C3", 120.0), ("napi", 133.0)] {
        let report = simulate(&setting(&server, policy), &mut poisson(&server, 10.0, 64, 5));
        assert!((report.power_watts - watts).abs() < 0.5, "{policy}: {} W", report.power_watts);
    }
}

/// Cost of traffic with regular arrivals. Under NAPI the regularity decides how many packets share
/// a wake-up, so the power depends on more than the rate.
#[test]
fn regular_arrivals_wake_a_core_for_every_packet() {
    let server = server("westmere-2010");
    let fastest = server.processor.highest_frequency();
    let power = |traffic: &str| {
        let setting = Setting {
            mean_bytes: 1024,
            duration: Span::from_millis(20),
            warmup: Span::from_millis(2),
            ..setting(&server, "napi")
        };
        simulate(&setting, Spec::parse(traffic).unwrap().build(1).unwrap().as_mut())
    };
    let turns = power("constant:1.8Mpps,size=1024,popularity=turns");
    let any = power("constant:1.8Mpps,size=1024,popularity=uniform");
    let poisson = power("poisson:1.8Mpps,size=1024");
    for (name, report) in [("turns", &turns), ("any flow", &any), ("poisson", &poisson)] {
        let interrupts = report.interrupts_per_packet.unwrap();
        println!("{name}: {:.1} W, {interrupts:.3} interrupts a packet", report.power_watts);
    }
    // Flows take turns. The gap at a core, 6.7 us, is longer than the interrupt's delivery, wake-up
    // and service together, 5.4 us, so nearly every packet has its own wake-up.
    assert!(turns.interrupts_per_packet.unwrap() > 0.9);
    let wake_up = server.wake_up_work(fastest).as_seconds();
    let cost = server.packet_cost(Application::Ipv4, 1024).unwrap();
    let service = 12.0 / server.core_capacity(cost, 12, fastest).0;
    for report in [&turns, &any, &poisson] {
        let work = service + wake_up * report.interrupts_per_packet.unwrap();
        let expected = report.forwarded_rate_pps / 12.0 * work;
        let cores = &report.residency.cores;
        let awake = cores.iter().map(|core| core.useful).sum::<f64>() / 12.0;
        println!("awake {awake:.4}, wake-ups and service {expected:.4}");
        assert!((awake / expected - 1.0).abs() < 0.002);
    }
    // Flows are random: a core's share of a regular stream is as good as random.
    assert!((any.power_watts - poisson.power_watts).abs() < 1.0);
}
