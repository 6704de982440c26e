//! The policy `wattline` keeps its budget on leaping load, and stays near the lower bound. Few
//! constants were chosen on seed 9001: a sawtooth and a square wave missed their bound or budget on
//! it, and led to a rule each.

use wattline_league::bound::{lower_bound, slot_length};
use wattline_league::{Arrivals, Budget, Case, Played, plan, play_policy};
use wattline_server::{Application, ServerFile};
use wattline_traffic::Spec;
use wattline_units::Span;

const SEED: u64 = 9_001;

/// Plays `millis` after a warm-up of 20 ms with a budget of `micros`, and passes the run to `then`.
fn with_run<T>(
    (server, seed): (&str, u64),
    (traffic, micros, millis): (&str, u64, u64),
    then: impl FnOnce(&Case<'_>, Budget, &Arrivals, Played) -> T,
) -> T {
    let file = ServerFile::load(server).unwrap();
    let budget = Span::from_micros(micros);
    let case = Case {
        server: file.model().unwrap(),
        application: Application::Ipv4,
        traffic: &Spec::parse(traffic).unwrap(),
        duration: Span::from_millis(millis),
        warmup: Span::from_millis(20),
        seed,
    };
    let allowed = Budget::p99(budget);
    let slack = case.slack_seconds(allowed, 64).unwrap();
    let arrivals = Arrivals::of(&case, slot_length(&case, slack)).unwrap();
    let policy = plan::policy("wattline:p99={p99}", budget).unwrap();
    let played = play_policy(&case, &policy, allowed, &arrivals).unwrap();
    then(&case, allowed, &arrivals, played)
}

/// Plays a case; returns the result, and the gap of its energy to the bound.
fn play(traffic: &str, micros: u64, millis: u64) -> (Played, f64) {
    let run = (traffic, micros, millis);
    with_run(("westmere-2010", SEED), run, |case, allowed, arrivals, played| {
        let bound = lower_bound(case, allowed, arrivals).unwrap().unwrap();
        let gap = played.energy_joules / bound.joules - 1.0;
        println!("{traffic}: late {:.3} %, gap {:.2} %", played.late_fraction * 100.0, gap * 100.0);
        (played, gap)
    })
}

fn keeps(traffic: &str, millis: u64, most_gap: f64) {
    keeps_within(traffic, 100, millis, most_gap);
}

fn keeps_within(traffic: &str, micros: u64, millis: u64, most_gap: f64) {
    let (played, gap) = play(traffic, micros, millis);
    assert!(played.dropped_packets == 0 && played.feasible, "{traffic}: {played:?}");
    assert!(gap < most_gap, "{traffic}: {gap}");
}

#[test]
fn flash_crowds_are_in_time() {
    keeps("flash:3Mpps,size=64,ratio=10,period=20ms", 60, 0.05);
    keeps("flash:3Mpps,size=64,ratio=10,period=50ms", 100, 0.025);
}

#[test]
fn randomly_leaping_rates_are_in_time() {
    keeps("mmpp:5Mpps,size=64,ratio=10,high=2ms,low=8ms", 60, 0.05);
    keeps("mmpp:5Mpps,size=64,ratio=10,high=10ms,low=40ms", 100, 0.03);
}

#[test]
fn day_is_in_time() {
    keeps("day:8Mpps,size=64,duration=100ms", 100, 0.045);
    keeps("sawtooth:8Mpps,size=64,ratio=10,period=50ms", 100, 0.032);
}

#[test]
fn steady_load_costs_little_more_than_the_bound() {
    keeps("constant:6Mpps,size=64", 50, 0.015);
    keeps("poisson:8Mpps,size=64", 50, 0.02);
    keeps("poisson:16Mpps,size=64", 50, 0.03);
    keeps("onoff:5Mpps,size=64,burst=32", 50, 0.02);
}

/// With a budget of 50 us, packets that wait for a core to leave C6 are late. When the table still
/// sent packets to such cores, 9.8, 9.1 and 3.6 % were late.
#[test]
fn packets_go_to_awake_cores() {
    keeps_within("flash:3Mpps,size=64,ratio=10,period=50ms", 50, 200, 0.055);
    keeps_within("mmpp:5Mpps,size=64,ratio=10,high=10ms,low=40ms", 50, 200, 0.06);
    keeps_within("sawtooth:8Mpps,size=64,ratio=10,period=50ms", 50, 200, 0.033);
}

/// On a server whose cores take 290 us to wake, rings of waking cores fill first. Both seeds once
/// lost packets and led to a rule. Seed 29247 lost 219; on 521 a core that was parked with packets
/// in its ring, and needed again at once, lost 31.
#[test]
fn server_with_slowly_waking_cores_loses_nothing() {
    for (traffic, micros, seed) in [
        ("flash:3Mpps,size=64,ratio=10,period=50ms", 50, 29_247),
        ("flash:3Mpps,size=64,ratio=10,period=50ms", 500, 29_247),
        ("mmpp:5Mpps,size=64,ratio=10,high=2ms,low=8ms", 500, 29_247),
        ("mmpp:5Mpps,size=64,ratio=10,high=2ms,low=8ms", 500, 521),
    ] {
        let run = (traffic, micros, 100);
        with_run(("xeon-platinum-8470", seed), run, |_, _, _, played| {
            assert_eq!(played.dropped_packets, 0, "{traffic} within {micros} us: {played:?}");
        });
    }
}

/// A leap to a known height just before a poll must be recognised. Its rate was once compared with
/// a mean that already included it. The awake cores then got a ninth of their capacity: 6.6 % of
/// the packets were late, and two were lost.
#[test]
fn awake_cores_get_their_full_load_in_a_leap_found_by_a_poll() {
    let run = ("mmpp:5Mpps,size=64,ratio=10,high=2ms,low=8ms", 100, 1_000);
    with_run(("xeon-platinum-8470", 42_885), run, |_, _, _, played| {
        assert!(played.feasible, "{played:?}");
    });
}

/// Every leap is a surprise: the policy does not search for periods in traffic.
#[test]
fn returning_leaps_with_a_short_budget_are_in_time() {
    keeps_within("flash:3Mpps,size=64,ratio=10,period=20ms", 50, 400, 0.06);
}

/// The backlog of a rise and the arrivals during a nap must fit into the rings. A returning height
/// also counts as new while its cores still wake. The first two cases once lost 22 and 207 packets.
/// The third lost 179: seven of fifteen cores were parked during their nap of 0.6 ms, and the
/// others napped on.
#[test]
fn returning_height_fits_into_the_rings() {
    for (server, traffic, micros) in [
        ("westmere-2010", "square:5Mpps,size=64,ratio=10,period=2ms", 2_000),
        ("xeon-platinum-8470", "square:15Mpps,size=64,ratio=10,period=2ms", 50),
        ("xeon-platinum-8470", "square:15Mpps,size=64,ratio=10,period=2ms", 1_000),
    ] {
        with_run((server, 522), (traffic, micros, 300), |_, _, _, played| {
            assert_eq!(played.dropped_packets, 0, "{server} within {micros} us: {played:?}");
        });
    }
}

/// Following these falls costs more than it saves. A budget of 50 us is not kept.
#[test]
fn short_falls_are_not_followed() {
    for micros in [100, 500] {
        keeps_within("square:5Mpps,size=64,ratio=10,period=2ms", micros, 60, 0.05);
    }
}

/// Trains of 512 packets wake cores as rises do, since the policy does not learn their sizes. This
/// costs 7 percentage points in this run, and 1.5 in a run of a second. The height of a square wave
/// is carried within the slack.
#[test]
fn evenly_returning_trains_and_waves_are_in_time() {
    keeps_within("onoff:5Mpps,size=64,burst=512", 500, 400, 0.085);
    keeps_within("square:5Mpps,size=64,ratio=10,period=2ms", 500, 400, 0.03);
}
