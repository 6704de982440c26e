//! Properties of simulations with output links.

use crate::common::{played, poisson, seeded, server, setting, simulate, timeless};
use wattline_server::{ETHERNET_OVERHEAD_BYTES, ServerModel};
use wattline_sim::{Report, Setting, sweep};
use wattline_traffic::Spec;
use wattline_units::Span;

fn with_links<'a>(server: &'a ServerModel, policy: &str, millis: u64) -> Setting<'a> {
    Setting {
        warmup: Span::ZERO,
        duration: Span::from_millis(millis),
        output_links: true,
        ..setting(server, policy)
    }
}

/// Trains that meet at the output links, and cause cores to be added and removed.
const MEETING: &str =
    "mmpp:4Mpps,ratio=10,high=1ms,low=1ms,size=400,trains=geometric:16,train-flows=one";

fn run(setting: &Setting<'_>, traffic: &str) -> Report {
    simulate(setting, Spec::parse(traffic).unwrap().build(5).unwrap().as_mut())
}

/// Returns the seconds for which a packet occupies a link.
fn on_link(server: &ServerModel, bytes: u32) -> f64 {
    8.0 * f64::from(bytes + ETHERNET_OVERHEAD_BYTES) / server.nic.link.0
}

/// The model's time in cards and buses was measured with such packets, including the link.
#[test]
fn short_packets_at_low_load_take_the_measured_time() {
    let server = server("westmere-2010");
    let mean = |output_links: bool| {
        let setting = Setting { output_links, ..with_links(&server, "poll", 20) };
        let report = simulate(&setting, &mut poisson(&server, 0.5e6, 64, 1));
        report.latency_mean_seconds.unwrap() * 1e6
    };
    assert!((mean(true) - 7.0).abs() < 0.05 && (mean(true) - mean(false)).abs() < 0.01);
}

#[test]
fn long_packets_take_their_time_on_the_link() {
    let server = server("westmere-2010");
    let least = |output_links: bool| {
        let setting = Setting { output_links, ..with_links(&server, "poll", 20) };
        let report = simulate(&setting, &mut poisson(&server, 0.1e6, 1500, 1));
        report.latency_min_seconds.unwrap()
    };
    let more = on_link(&server, 1500) - on_link(&server, 64);
    assert!((least(true) - least(false) - more).abs() < 2e-9);
}

#[test]
fn packets_are_conserved_and_littles_law_holds_under_every_policy() {
    let server = server("westmere-2010");
    let outside = server.nic.pass_through.as_seconds() - on_link(&server, 64);
    for policy in played().chain(["queue-length:c_down=0,c_up=0,q_h=6"]) {
        let setting =
            Setting { interval: Some(Span::from_micros(1_700)), ..with_links(&server, policy, 17) };
        // `run` checks conservation in each interval and over the whole.
        let report = run(&setting, MEETING);
        assert_eq!(report.dropped_at_output_packets, 0, "{policy}");
        let latency = report.latency_mean_seconds.unwrap() - outside;
        let by_latency = report.forwarded_rate_pps * latency;
        // The span cuts packets off at both ends; this is their share of 50,000.
        let error = report.packets_inside_mean / by_latency - 1.0;
        if report.dropped_packets == 0 {
            assert!(
                error.abs() < 5e-3,
                "{policy}: {} and {by_latency}",
                report.packets_inside_mean
            );
        }
    }
}

#[test]
fn packets_for_a_full_transmit_ring_are_counted() {
    let mut server = server("westmere-2010");
    let unbounded = run(&with_links(&server, "napi", 10), MEETING);
    server.nic.tx_ring = Some(8);
    let bounded = run(&with_links(&server, "napi", 10), MEETING);
    assert_eq!(unbounded.dropped_at_output_packets, 0);
    assert!(bounded.dropped_at_output_packets > 100, "{}", bounded.dropped_at_output_packets);
    // Receive rings do not depend on transmit rings.
    assert_eq!(bounded.dropped_packets, bounded.dropped_at_output_packets);
    assert_eq!(
        bounded.power_by_component_watts.cpu_cores,
        unbounded.power_by_component_watts.cpu_cores
    );
    assert!(bounded.latency_max_seconds < unbounded.latency_max_seconds);
}

/// Blocks, timers and intervals split the run at other times; the result must not depend on that.
#[test]
fn being_watched_changes_nothing() {
    let mut server = server("westmere-2010");
    server.nic.tx_ring = Some(16);
    for policy in ["napi", "poll", "queue-length", "queue-length:c_down=0,c_up=0,q_h=6"] {
        let mut setting = with_links(&server, policy, 10);
        let whole = run(&setting, MEETING);
        setting.interval = Some(Span::from_micros(17));
        let mut watched = timeless(&run(&setting, MEETING));
        watched.intervals.clear();
        assert!(whole.dropped_at_output_packets > 0, "{policy}");
        assert_eq!(watched.dropped_at_output_packets, whole.dropped_at_output_packets, "{policy}");
        assert_eq!(watched.forwarded_packets, whole.forwarded_packets, "{policy}");
        assert_eq!(watched.latency_mean_seconds, whole.latency_mean_seconds, "{policy}");
        assert_eq!(watched.latency_p99_seconds, whole.latency_p99_seconds, "{policy}");
        assert_eq!(watched.packets_inside_mean, whole.packets_inside_mean, "{policy}");
    }
}

#[test]
fn cores_do_not_feel_the_links() {
    let server = server("westmere-2010");
    let with = run(&with_links(&server, "queue-length", 10), MEETING);
    let setting = Setting { output_links: false, ..with_links(&server, "queue-length", 10) };
    let without = run(&setting, MEETING);
    assert_eq!(with.residency, without.residency);
    assert_eq!((with.decisions, with.core_changes), (without.decisions, without.core_changes));
    assert!(with.core_changes > 0 && with.held_packets == without.held_packets);
    assert!(with.latency_mean_seconds > without.latency_mean_seconds);
}

#[test]
fn the_same_seed_gives_the_same_on_any_number_of_threads() {
    let server = server("westmere-2010");
    let traffic = Spec::parse(MEETING).unwrap();
    let seeds: Vec<u64> = (0..4).collect();
    let run = |seed: &u64| seeded(&server, &traffic, true, *seed);
    let one = sweep(&seeds, 1, run, || ()).unwrap();
    assert_eq!(one, sweep(&seeds, 3, run, || ()).unwrap());
    assert_ne!(one[0], one[1]);
}
