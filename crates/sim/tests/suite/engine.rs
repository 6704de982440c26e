//! Properties of every simulation, under any policy.

use crate::common::{played, poisson, seeded, server, setting, simulate, timeless};
use wattline_cores::{CoreState, StateSpan};
use wattline_sim::{Setting, run, sweep};
use wattline_traffic::capture::CaptureError;
use wattline_traffic::{Block, Packet, Source, Spec};
use wattline_units::Span;

fn short<'a>(server: &'a wattline_server::ServerModel, policy: &str) -> Setting<'a> {
    let mut setting = setting(server, policy);
    setting.warmup = Span::ZERO;
    setting.duration = Span::from_millis(5);
    setting
}

#[test]
fn energy_is_the_integral_over_the_state_log() {
    let server = server("westmere-2010");
    for policy in played().chain(["napi:idle=C6"]) {
        let mut setting = short(&server, policy);
        setting.log_states = true;
        let report = simulate(&setting, &mut poisson(&server, 3e6, 64, 2));
        let frequencies = &server.processor.frequencies;
        let mut joules = server.power.base.total().0 * report.duration_seconds;
        for span in &report.states {
            let seconds = (span.until_picos - span.from_picos) as f64 / 1e12;
            joules += seconds
                * match span.state {
                    CoreState::Useful(f) | CoreState::Empty(f) => {
                        server.awake_core_power(frequencies[f]).0
                    }
                    CoreState::Idle(state) => server.idle_core_power(state).0,
                };
        }
        joules += uncore_joules(&report.states, &server);
        let gigabits = report.forwarded_packets as f64 * 64.0 * 8.0 / 1e9;
        joules += server.power.traffic_per_gigabit.0 * gigabits;
        let error = report.energy_joules / joules - 1.0;
        assert!(error.abs() < 1e-3, "{policy}: {} J, state log {joules} J", report.energy_joules);
    }
}

/// Returns the energy of the shared part while any core is awake, from the edges in the log.
fn uncore_joules(states: &[StateSpan], server: &wattline_server::ServerModel) -> f64 {
    let mut edges = Vec::new();
    for span in states {
        if let CoreState::Useful(frequency) | CoreState::Empty(frequency) = span.state {
            edges.push((span.from_picos, 1, frequency));
            edges.push((span.until_picos, -1, frequency));
        }
    }
    edges.sort();
    let (mut joules, mut awake, mut from, mut last) = (0.0, 0, 0, 0);
    for (at, change, frequency) in edges {
        if awake > 0 {
            let watts = server.power.uncore(server.processor.frequencies[last]).0;
            joules += watts * (at - from) as f64 / 1e12;
        }
        (awake, from, last) = (awake + change, at, frequency);
    }
    joules
}

/// The next packet comes after the end of any run, near the largest possible time.
#[test]
fn next_to_no_traffic_is_simulated() {
    let server = server("westmere-2010");
    for policy in played() {
        for rate in [1e-5, 1e-9, 1e-30] {
            let report = simulate(&short(&server, policy), &mut poisson(&server, rate, 64, 2));
            assert_eq!(report.forwarded_packets, 0, "{policy}");
            assert_eq!(report.latency_mean_seconds, None, "{policy}");
        }
    }
}

/// Counting during the run must not change which packets find a ring full.
#[test]
fn being_watched_changes_nothing() {
    let server = server("westmere-2010");
    for policy in ["queue-length", "napi:moderation=0us"] {
        let mut setting = short(&server, policy);
        let whole = simulate(&setting, &mut poisson(&server, 33e6, 64, 3));
        setting.interval = Some(Span::from_micros(17));
        let mut watched = timeless(&simulate(&setting, &mut poisson(&server, 33e6, 64, 3)));
        watched.intervals.clear();
        assert!(whole.dropped_packets > 0, "{policy}");
        assert_eq!(watched.dropped_packets, whole.dropped_packets, "{policy}");
        assert_eq!(watched.latency_mean_seconds, whole.latency_mean_seconds, "{policy}");
        assert_eq!(watched.packets_inside_mean, whole.packets_inside_mean, "{policy}");
    }
}

#[test]
fn same_seed_gives_the_same_report() {
    let server = server("westmere-2010");
    for policy in ["queue-length", "ondemand", "napi:moderation=0us"] {
        let setting = short(&server, policy);
        let once = |seed| timeless(&simulate(&setting, &mut poisson(&server, 6e6, 64, seed)));
        assert_eq!(once(1), once(1), "{policy}");
        assert_ne!(once(1), once(2), "{policy}");
    }
}

#[test]
fn sweep_does_not_depend_on_the_number_of_threads() {
    let server = server("westmere-2010");
    let traffic = Spec::parse("poisson:8Mpps,size=64").unwrap();
    let seeds: Vec<u64> = (0..6).collect();
    let run = |seed: &u64| seeded(&server, &traffic, false, *seed);
    let one = sweep(&seeds, 1, run, || ()).unwrap();
    assert_eq!(one, sweep(&seeds, 2, run, || ()).unwrap());
    assert_eq!(one, sweep(&seeds, 5, run, || ()).unwrap());
    assert_eq!(one[0].len(), 5);
}

#[test]
fn every_policy_conserves_packets_through_overload_and_silence() {
    let server = server("westmere-2010");
    // 20 ms of load, a burst far beyond one core, followed by silence.
    let traffic = Spec::parse("onoff:10Mpps,size=64,burst=20000").unwrap();
    for policy in played() {
        let setting = Setting {
            interval: Some(Span::from_millis(2)),
            duration: Span::from_millis(10),
            ..short(&server, policy)
        };
        let report = simulate(&setting, traffic.build(1).unwrap().as_mut());
        assert!(report.forwarded_packets > 0, "{policy}");
        let sum: u64 = report.intervals.iter().map(|interval| interval.forwarded_packets).sum();
        assert_eq!(sum, report.forwarded_packets);
    }
}

#[test]
fn the_first_packet_of_a_parked_core_waits_for_its_exit_and_later_ones_do_not() {
    let server = server("westmere-2010");
    let mut setting = short(&server, "napi:cores=1,idle=C6");
    setting.duration = Span::from_millis(1_000);
    // At 500 packets per second the gap of 2 ms is long enough to reach C6.
    let traffic = Spec::parse("constant:500pps,size=64").unwrap();
    let report = simulate(&setting, traffic.build(1).unwrap().as_mut());
    let exit = server.extra_exit_latency(2).as_seconds();
    assert!(report.latency_min_seconds.unwrap() > exit, "each packet wakes the core from C6");
    assert!(report.residency.cores[0].idle[2] > 0.8);
    // At 100 kpps the core never sleeps long enough to go deeper than C1.
    let traffic = Spec::parse("constant:100kpps,size=64").unwrap();
    let report = simulate(&setting, traffic.build(1).unwrap().as_mut());
    assert!(report.latency_max_seconds.unwrap() < 20e-6);
    assert_eq!(report.residency.cores[0].idle[2], 0.0);
}

#[test]
fn moderation_trades_interrupts_for_latency() {
    let mut server = server("westmere-2010");
    server.nic.moderation = Some(wattline_server::Moderation {
        shortest: Span::ZERO,
        longest: Span::from_micros(1_000),
        step: Span::from_micros(2),
    });
    let with = |period: &str| {
        let policy = format!("napi:moderation={period}");
        simulate(&short(&server, &policy), &mut poisson(&server, 2e6, 64, 1))
    };
    let (none, some) = (with("0us"), with("100us"));
    // Each of 48 queues is moderated separately: 10,000 interrupts a second at most, at 2 Mpps.
    let most = 48.0 * 1e4 / 2e6;
    let (few, many) = (some.interrupts_per_packet.unwrap(), none.interrupts_per_packet.unwrap());
    assert!(few <= most * 1.001 && many > 2.0 * most, "{few} and {many}, at most {most}");
    // An interrupt of one queue does not delay those of its core's other queues: if it did, each of
    // the 12 cores would be interrupted at most 10,000 times a second.
    assert!(few > 1.5 * 12.0 * 1e4 / 2e6, "{few}");
    // If any of a core's four queues interrupts, the core polls all of them: about every 25 us, so
    // that a packet waits half of that on average.
    assert!(some.latency_mean_seconds > none.latency_mean_seconds.map(|l| l + 10e-6));
    assert!(some.power_watts < none.power_watts);
}

#[test]
fn moderation_that_the_card_lacks_is_refused() {
    let server = server("westmere-2010");
    assert!(server.nic.moderation.is_none());
    for policy in ["napi:moderation=100us", "napi+100us"] {
        let setting = short(&server, policy);
        let error = run(&setting, &mut poisson(&server, 2e6, 64, 1)).unwrap_err().to_string();
        assert!(error.contains("moderation = 100 us"), "{policy}: {error}");
    }
}

#[test]
fn more_cores_than_a_machine_can_have_are_refused() {
    let mut server = server("westmere-2010");
    server.nic.redirect_table_entries = 8192;
    server.processor.cores_per_socket = 2100;
    for (queues, cores) in [(4200, Err("4200")), (4097, Err("4097")), (384, Ok(384.0))] {
        server.nic.queues_per_port = queues;
        let mut setting = short(&server, "poll");
        setting.duration = Span::from_millis(1);
        let report = run(&setting, &mut poisson(&server, 2e6, 64, 1));
        match (report, cores) {
            (Ok(report), Ok(cores)) => assert_eq!(report.cores_active_mean, cores),
            (Err(error), Err(cores)) => {
                let expected = format!("platform has {cores} cores; 1 to 4096 are supported");
                assert!(error.to_string().contains(&expected), "{error}");
            }
            (report, _) => panic!("{queues} queues: {report:?}"),
        }
    }
}

/// Returns the packets of a list, once.
struct Once(Vec<Packet>);

impl Source for Once {
    fn next_block(&mut self, out: &mut Block) -> Result<(), CaptureError> {
        out.clear();
        out.extend(self.0.drain(..));
        Ok(())
    }
}

#[test]
fn traffic_that_ends_in_the_warm_up_is_refused() {
    let server = server("westmere-2010");
    let mut setting = short(&server, "napi");
    setting.warmup = Span::from_millis(10);
    let packets = |last: u64| {
        let at =
            |millis: u64| Packet { picos: millis * 1_000_000_000, flow: 1, length: 64, port: 0 };
        Once((1..=last).map(at).collect())
    };
    let error = run(&setting, &mut packets(7)).unwrap_err().to_string();
    assert!(error.contains("0.007 s after the start, within the warm-up of 0.01 s"), "{error}");
    let report = run(&setting, &mut packets(12)).unwrap();
    assert_eq!(report.offered_packets, 2, "those after 10 ms");
    assert!(run(&setting, &mut packets(10)).is_err());
    setting.warmup = Span::ZERO;
    assert_eq!(run(&setting, &mut packets(3)).unwrap().offered_packets, 3);
}

#[test]
fn frames_follow_each_other_no_faster_than_the_link_carries_them() {
    let server = server("westmere-2010");
    // 40 Gbit/s of 1024-byte frames need 40.78 with preamble and gap: 1.9 % cannot be sent.
    let traffic = Spec::parse("constant:40Gbps,size=1024").unwrap();
    let mut setting = short(&server, "poll");
    setting.warmup = Span::from_millis(80);
    let report = simulate(&setting, traffic.build(1).unwrap().as_mut());
    let most = server.link_capacity(1024).0;
    assert!((report.offered_rate_pps / most - 1.0).abs() < 1e-3, "{}", report.offered_rate_pps);
    assert!(report.beyond_link_packets > 0);
}

#[test]
fn queue_length_loses_and_reorders_nothing_under_a_steady_load() {
    let server = server("westmere-2010");
    let mut setting = setting(&server, "queue-length");
    setting.duration = Span::from_millis(100);
    let report = simulate(&setting, &mut poisson(&server, 8e6, 64, 1));
    assert_eq!((report.dropped_packets, report.reordered_packets), (0, 0));
    assert!(report.cores_active_mean < 12.0 && report.latency_p99_seconds.unwrap() < 60e-6);
}

/// The table moves all the time. The departure keeps every flow in order and reports the cost.
/// Without it, cores with empty queues would overtake cores with full ones.
#[test]
fn nothing_is_reordered_when_the_indirection_table_moves_all_the_time() {
    let server = server("westmere-2010");
    let nervous = "queue-length:c_up=0,c_down=0,q_h=6,q_l=5,batch=4";
    let mut setting = short(&server, nervous);
    setting.duration = Span::from_millis(20);
    let traffic = Spec::parse("mmpp:3Mpps,ratio=20,high=500us,low=500us,size=imix").unwrap();
    let report = simulate(&setting, traffic.build(1).unwrap().as_mut());
    assert!(report.core_changes >= 200, "{} changes", report.core_changes);
    assert!(report.redirect_entries_moved >= 10_000, "{} moved", report.redirect_entries_moved);
    assert_eq!(report.reordered_packets, 0);
    assert!(report.reordered_unless_held_packets > 0);
    assert!(report.held_packets >= report.reordered_unless_held_packets / 10);
    // The hold is at most the time to empty the full rings of an old core.
    assert!(report.hold_max_seconds > 0.0 && report.hold_max_seconds < 5e-3);
    assert!(report.latency_max_seconds.unwrap() > report.hold_max_seconds);
}

#[test]
fn zero_duration_and_impossible_policies_are_errors() {
    let server = server("westmere-2010");
    let refused = |setting: &Setting<'_>| {
        run(setting, &mut poisson(&server, 1e6, 64, 1)).unwrap_err().to_string()
    };
    let mut zero = short(&server, "poll");
    zero.duration = Span::ZERO;
    assert!(refused(&zero).contains("duration"));
    assert!(refused(&short(&server, "napi:cores=13")).contains("the platform has 12"));
    assert!(refused(&short(&server, "napi:idle=C7")).contains("C1, C3, C6"));
    assert!(refused(&short(&server, "queue-length:q_l=40")).contains("must be below q_h"));
}
