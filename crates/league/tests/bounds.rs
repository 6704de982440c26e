//! The lower bound against played runs: exhaustive search on small cases, policies on others.

use proptest::prelude::*;
use wattline_league::bound::{lower_bound, per_change_joules, slot_length};
use wattline_league::*;
use wattline_policies::POLICIES;
use wattline_policy::Wait;
use wattline_server::{Application, ServerFile, ServerModel};
use wattline_traffic::Spec;
use wattline_units::{Span, Time};

/// Two cores of Westmere's kind with two frequencies and one port.
fn small() -> ServerModel {
    let file = ServerFile::load("westmere-2010").unwrap();
    let mut server = file.model().unwrap().clone();
    server.processor.sockets = 1;
    server.processor.cores_per_socket = 2;
    let frequencies = &mut server.processor.frequencies;
    *frequencies = vec![frequencies[0], frequencies[13]];
    server.nic.ports = 1;
    server.nic.queues_per_port = 2;
    server
}

fn westmere() -> ServerModel {
    ServerFile::load("westmere-2010").unwrap().model().unwrap().clone()
}

fn case<'a>(server: &'a ServerModel, traffic: &'a Spec, millis: u64, seed: u64) -> Case<'a> {
    Case {
        server,
        application: Application::Ipv4,
        traffic,
        duration: Span::from_millis(millis),
        warmup: Span::from_millis(2),
        seed,
    }
}

fn arrivals(case: &Case<'_>, budget: Budget) -> Arrivals {
    let slack = case.slack_seconds(budget, 64).unwrap();
    Arrivals::of(case, slot_length(case, slack)).unwrap()
}

/// Plays every schedule of four operating points in five slots: the cheapest that keeps the budget
/// is not below the bound, and the schedule found is not far above it.
#[test]
fn exhaustive_search_on_a_small_server_lies_between_the_bounds() {
    let server = small();
    for (text, seed) in [
        ("poisson:1.5Mpps,size=64,ports=1,flows=64", 1),
        ("mmpp:1Mpps,ratio=6,high=2ms,low=3ms,size=64,ports=1,flows=64", 3),
    ] {
        let traffic = Spec::parse(text).unwrap();
        let case = case(&server, &traffic, 10, seed);
        let budget = Budget::p99(Span::from_micros(100));
        let arrivals = arrivals(&case, budget);
        let bound = lower_bound(&case, budget, &arrivals).unwrap().unwrap();
        let point = |cores, frequency, nap| FixedPoint {
            cores,
            frequency,
            nap: 0,
            wait: if nap { Wait::Sleep(Span::from_micros(80)) } else { Wait::Interrupt },
            moderation: Span::ZERO,
        };
        let choices: Vec<FixedPoint> = [(1, 0), (1, 1), (2, 0), (2, 1)]
            .into_iter()
            .map(|(cores, frequency)| point(cores, frequency, true))
            .collect();
        let mut least = f64::INFINITY;
        for code in 0..choices.len().pow(5) {
            let of = |slot: u32| choices[code / choices.len().pow(slot) % choices.len()];
            let points: Vec<_> = (0..5u32)
                .map(|slot| {
                    let at = Span::from_millis(if slot == 0 { 0 } else { 2 + 2 * u64::from(slot) });
                    (Time::ZERO + at, of(slot))
                })
                .collect();
            let played = play_points(&case, points, budget, &arrivals, None).unwrap();
            if played.feasible {
                let slip = per_change_joules(&case) * played.changes as f64;
                assert!(bound.joules <= played.energy_joules + slip, "{text} {code}");
                least = least.min(played.energy_joules);
            }
        }
        let fixed = best_fixed(&case, budget, &arrivals).unwrap();
        let found = best_schedule(&case, budget, &arrivals, fixed.as_ref()).unwrap().unwrap();
        println!(
            "{text}: bound {:.5} J, exhaustive {least:.5} J, schedule {:.5} J",
            bound.joules, found.played.energy_joules
        );
        assert!(least.is_finite() && bound.joules <= least);
        assert!(found.played.feasible && bound.joules <= found.played.energy_joules);
        // The schedule may use naps of other lengths, so it may be below the exhaustive one.
        assert!(found.played.energy_joules <= least * 1.01);
        assert!(bound.joules >= least * 0.97, "the bound is tight");
    }
}

/// At a steady load the bound is within a few per mille of the best fixed point.
#[test]
fn bound_is_near_the_best_fixed_point_at_a_steady_load() {
    let server = westmere();
    for (text, within) in [("poisson:1Mpps,size=64", 0.005), ("poisson:8Mpps,size=64", 0.02)] {
        let traffic = Spec::parse(text).unwrap();
        let case = case(&server, &traffic, 20, 1);
        let budget = Budget::p99(Span::from_micros(100));
        let arrivals = arrivals(&case, budget);
        let bound = lower_bound(&case, budget, &arrivals).unwrap().unwrap();
        let fixed = best_fixed(&case, budget, &arrivals).unwrap().unwrap();
        let gap = fixed.played.energy_joules / bound.joules - 1.0;
        println!("{text}: {bound:?} {fixed:?} gap {:.3} %", gap * 100.0);
        assert!((0.0..within).contains(&gap), "{text}: {gap}");
    }
}

/// Added cores are awake when the table sends them packets: leaving the deepest state takes longer
/// than the budget, and would make 300 of the 24,000 packets late. A few are late as the table
/// moves.
#[test]
fn schedule_wakes_cores_before_they_get_packets() {
    let server = westmere();
    let traffic = Spec::parse("constant:6Mpps,size=64").unwrap();
    let case = case(&server, &traffic, 4, 1);
    let budget = Budget::p99(Span::from_micros(50));
    let arrivals = arrivals(&case, budget);
    let point = |cores| FixedPoint {
        cores,
        frequency: 13,
        nap: 0,
        wait: Wait::Sleep(Span::from_micros(20)),
        moderation: Span::ZERO,
    };
    let at = |micros| Time::ZERO + Span::from_micros(micros);
    let points = vec![(Time::ZERO, point(4)), (at(3_000), point(10)), (at(4_000), point(4))];
    let played = play_points(&case, points, budget, &arrivals, None).unwrap();
    assert!(played.changes >= 2 && played.late_fraction < 5e-4, "{played:?}");
}

/// Hindsight never costs more energy than an online policy, even if load leaps.
#[test]
fn found_schedule_is_below_the_online_policy_on_leaping_load() {
    let server = westmere();
    let traffic = Spec::parse("square:5Mpps,size=64,ratio=10,period=2ms").unwrap();
    let case = case(&server, &traffic, 20, 1);
    for micros in [25, 50] {
        let budget = Budget::p99(Span::from_micros(micros));
        let arrivals = arrivals(&case, budget);
        let bound = lower_bound(&case, budget, &arrivals).unwrap().unwrap();
        let spec = POLICIES.parse(&format!("wattline:p99={micros}us")).unwrap();
        let online = play_policy(&case, &spec, budget, &arrivals).unwrap();
        let found = best_schedule(&case, budget, &arrivals, None).unwrap().unwrap();
        let again = best_schedule(&case, budget, &arrivals, None).unwrap().unwrap();
        println!(
            "{micros} us: bound {:.4} J, schedule {:.4} J of {}, online {:.4} J",
            bound.joules, found.played.energy_joules, found.schedules_played, online.energy_joules
        );
        assert_eq!(found, again, "the search depends on the case alone");
        assert!(found.played.feasible && bound.joules <= found.played.energy_joules);
        assert!(found.played.energy_joules < online.energy_joules);
        assert!(found.played.energy_joules < 1.05 * bound.joules);
        // Playing its points again gives the same result.
        let points =
            found.points.iter().map(|(at, point)| (Time::ZERO + Span::from_seconds(*at), *point));
        let played = play_points(&case, points.collect(), budget, &arrivals, None).unwrap();
        let off = played.energy_joules / found.played.energy_joules - 1.0;
        assert!(off.abs() < 1e-4 && played.late_fraction < 0.011, "{played:?}");
    }
}

/// In 11 us a packet cannot wake a core, so the policy `wattline` refuses this budget. A polling
/// core keeps it.
#[test]
fn budget_refused_by_the_online_policy_has_yardsticks() {
    let server = westmere();
    let traffic = Spec::parse("poisson:1Mpps,size=64").unwrap();
    let case = case(&server, &traffic, 10, 1);
    let found = envelope(&case, Budget::p99(Span::from_micros(11))).unwrap();
    let (bound, schedule) = (found.lower_bound_joules.unwrap(), found.feasible_joules.unwrap());
    assert!(bound <= schedule && schedule <= found.static_best_joules.unwrap(), "{found:?}");
}

/// All cores at 3.33 GHz serve 28.8 Mpps: at 30 Mpps almost 3 % cannot be in time, and the price of
/// a late packet would grow without limit.
#[test]
fn impossible_budget_has_no_bound() {
    let server = westmere();
    for (text, micros) in [("poisson:30Mpps,size=64", 100), ("constant:40Mpps,size=64", 1_000)] {
        let traffic = Spec::parse(text).unwrap();
        let case = case(&server, &traffic, 10, 1);
        let budget = Budget::p99(Span::from_micros(micros));
        let arrivals = arrivals(&case, budget);
        assert_eq!(lower_bound(&case, budget, &arrivals).unwrap(), None, "{text}");
        let found = envelope(&case, budget).unwrap();
        let yardsticks =
            [found.lower_bound_joules, found.feasible_joules, found.static_best_joules];
        assert_eq!(yardsticks, [None; 3], "{text}");
        assert!(found.base_joules > 0.0 && found.packets > 0, "{found:?}");
        // With enough late packets allowed the bound is finite; the server draws at most 300 W.
        let most = Budget { late: 0.6, ..budget };
        let bound = lower_bound(&case, most, &arrivals).unwrap().unwrap();
        assert!(bound.joules < 3.0, "{bound:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    /// No policy that keeps a budget is below its bound. A policy that misses it is not below the
    /// bound of a budget that allows its number of late packets.
    #[test]
    fn every_policy_is_above_the_bound(
        policy in prop::sample::select(vec![
            "queue-length", "napi", "table", "oracle:load=1", "poll", "ondemand", "conservative",
            "hare", "tortoise", "wattline:p99=100us", "wattline:p99=500us,guard=link",
        ]),
        traffic in prop::sample::select(vec!["poisson", "constant", "mmpp", "onoff", "sawtooth"]),
        mpps in 0.01f64..14.0,
        micros in 20u64..1000,
        seed in 0u64..1000,
    ) {
        let server = westmere();
        let traffic = Spec::parse(&format!("{traffic}:{mpps}Mpps,size=64")).unwrap();
        let case = case(&server, &traffic, 10, seed);
        let budget = Budget::p99(Span::from_micros(micros));
        let arrivals = arrivals(&case, budget);
        let spec = POLICIES.parse(policy).unwrap();
        let played = play_policy(&case, &spec, budget, &arrivals).unwrap();
        prop_assume!(arrivals.total() > 0);
        let late = played.late_fraction.max(budget.late);
        // The run itself shows that a schedule keeps this budget.
        let bound = lower_bound(&case, Budget { late, ..budget }, &arrivals).unwrap().unwrap();
        let slip = per_change_joules(&case) * played.changes as f64;
        prop_assert!(
            bound.joules <= played.energy_joules + slip,
            "{policy} {} J, bound {bound:?}", played.energy_joules
        );
    }
}
