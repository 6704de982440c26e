//! The policy `wattline` on a machine that differs from its description: no packet is lost, and the
//! budget is kept with at most 1 % late. No constant was chosen on this seed.

use wattline_league::bound::slot_length;
use wattline_league::{
    Arrivals, Budget, Case, Meter, Played, Wrong, plan, play_policy, play_wrong,
};
use wattline_server::{Application, ServerFile};
use wattline_sim::KnobBehaviour;
use wattline_traffic::Spec;
use wattline_units::{Span, Time};

const STEADY: &str = "poisson:16Mpps,size=64";
const LEAPS: &str = "flash:3Mpps,size=64,ratio=10,period=50ms";

fn play(traffic: &str, wrong: &[Wrong]) -> Vec<Played> {
    let file = ServerFile::load("westmere-2010").unwrap();
    let p99 = Span::from_micros(100);
    let case = Case {
        server: file.model().unwrap(),
        application: Application::Ipv4,
        traffic: &Spec::parse(traffic).unwrap(),
        duration: Span::from_millis(60),
        warmup: Span::from_millis(20),
        seed: 9_001,
    };
    let budget = Budget::p99(p99);
    let slack = case.slack_seconds(budget, 64).unwrap();
    let arrivals = Arrivals::of(&case, slot_length(&case, slack)).unwrap();
    let policy = plan::policy("wattline:p99={p99}", p99).unwrap();
    let play = |wrong: &Wrong| play_wrong(&case, &policy, budget, &arrivals, wrong).unwrap();
    let played: Vec<Played> = wrong.iter().map(play).collect();
    if wrong.first() == Some(&Wrong::default()) {
        assert_eq!(played[0], play_policy(&case, &policy, budget, &arrivals).unwrap());
    }
    played
}

fn keeps(traffic: &str, wrong: Wrong) -> Played {
    let played = play(traffic, &[wrong]).remove(0);
    println!("{traffic}: late {:.3} %, {} J", played.late_fraction * 100.0, played.energy_joules);
    assert!(played.feasible && played.dropped_packets == 0, "{wrong:?}: {played:?}");
    played
}

#[test]
fn wrong_watts_in_the_server_file_cost_little() {
    let [right, more, less] = play(
        STEADY,
        &[
            Wrong::default(),
            Wrong { power: 1.3, idle_power: 0.7, ..Wrong::default() },
            Wrong { power: 0.7, idle_power: 1.3, ..Wrong::default() },
        ],
    )
    .try_into()
    .unwrap();
    for played in [&more, &less] {
        assert!(played.feasible && played.energy_joules < 1.05 * right.energy_joules, "{played:?}");
    }
}

#[test]
fn wrong_capacity_in_the_server_file_keeps_the_budget() {
    for traffic in [STEADY, LEAPS] {
        for capacity in [1.2, 0.8] {
            keeps(traffic, Wrong { capacity, ..Wrong::default() });
        }
    }
}

#[test]
fn leaps_are_in_time_without_a_server_file() {
    keeps(LEAPS, Wrong { no_file: true, ..Wrong::default() });
}

/// The policy does not read the meter, so a bad meter cannot mislead it. If it begins to, this test
/// fails and must state how it handles a bad meter.
#[test]
fn noisy_late_or_dead_meter_changes_nothing() {
    let of = |meter| Wrong { meter, ..Wrong::default() };
    let played = play(
        LEAPS,
        &[
            of(Meter::Good),
            of(Meter::Noisy(0.2)),
            of(Meter::Late(Span::from_millis(10))),
            of(Meter::DeadFrom(Time::ZERO + Span::from_millis(30))),
        ],
    );
    assert!(played[0].feasible && played.iter().all(|other| *other == played[0]));
}

#[test]
fn refusing_slow_or_failing_knobs_lose_no_packet() {
    let with = |knobs| Wrong { knobs: KnobBehaviour::parse(knobs).unwrap(), ..Wrong::default() };
    for knobs in ["cores:refuse", "wait:refuse"] {
        keeps(LEAPS, with(knobs));
    }
    // Before the policy checked the effect of its settings, 2.1 % of the packets were late here,
    // and in another case 6.6 % with 6,930 lost.
    const RANDOM: &str = "mmpp:5Mpps,size=64,ratio=10,high=10ms,low=40ms";
    for knobs in ["frequency:refuse", "cores:delay=50us"] {
        for traffic in [LEAPS, RANDOM] {
            keeps(traffic, with(knobs));
        }
    }
    keeps(LEAPS, with("all:fail=0.1"));
    // A failed write of the table in a leap makes packets late, but loses none.
    let played = play(RANDOM, &[with("all:fail=0.1")]);
    assert!(played[0].late_fraction < 0.05 && played[0].dropped_packets == 0, "{played:?}");
}
