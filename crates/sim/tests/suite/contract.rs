//! The simulator provides what its platform promises to policies ([`wattline_policy::Can`]), and
//! applies their requests.

use crate::common::{Seen, played, poisson, server, setting};
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};
use wattline_cores::platform_of;
use wattline_policies::POLICIES;
use wattline_policy::testing::policy;
use wattline_policy::{
    AskAgain, CoreSet, LatencyView, Level, Looks, OperatingPoint, StreakRule, Streaks, Timing,
    Trigger, Wait,
};
use wattline_server::{ServerFile, ServerModel, library};
use wattline_sim::{Report, run_with};
use wattline_units::{Span, Time};

/// Runs a rule for 20 ms at a rate of 64-byte packets; returns its observations and the report.
fn witness(
    server: &ServerModel,
    mpps: f64,
    looks: Looks,
    mut rule: impl FnMut(&Seen, &mut OperatingPoint) -> AskAgain + Send + 'static,
) -> (Vec<Seen>, Report) {
    let mut setting = setting(server, "poll");
    (setting.warmup, setting.duration) = (Span::ZERO, Span::from_millis(20));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&seen);
    let policy = policy(looks, move |seen, point| {
        let seen = Seen::from(seen);
        let ask = rule(&seen, point);
        noted.lock().unwrap().push(seen);
        ask
    });
    let mut source = poisson(server, mpps * 1e6, 64, 7);
    let report = run_with(&setting, &mut source, |_| Ok(policy)).unwrap();
    let seen = seen.lock().unwrap().clone();
    (seen, report)
}

const PERIOD: Span = Span::from_millis(1);

fn every_millisecond(seen: &Seen, _: &mut OperatingPoint) -> AskAgain {
    AskAgain::at(seen.now + PERIOD)
}

#[test]
fn only_clairvoyant_policies_see_the_offered_rate() {
    let server = server("westmere-2010");
    let (seen, _) =
        witness(&server, 2.0, Looks::WHOLE.and_latency().and_power(), every_millisecond);
    assert!(seen.len() > 15 && seen.iter().all(|seen| seen.offered.is_none()));
    let (seen, _) = witness(&server, 2.0, Looks::WHOLE.clairvoyant(), every_millisecond);
    assert!(seen.iter().all(|seen| seen.offered.is_some()));
    let clairvoyant = ["oracle"];
    for name in played() {
        let platform = platform_of(&server);
        let context = wattline_policy::BuildContext {
            platform: &platform,
            server: Some(&server),
            packet: server.packet_cost(wattline_server::Application::Ipv4, 64).map(|c| (c, 64)),
            seed: 1,
        };
        let spec = POLICIES.parse(name).unwrap();
        let policy = wattline_policy::build(&spec, &context).unwrap();
        let sees = policy.looks_at().offered;
        assert_eq!(sees, clairvoyant.contains(&name), "{name}");
    }
}

#[test]
fn observations_add_up() {
    let server = server("westmere-2010");
    let looks = Looks::WHOLE.and_late(Span::from_micros(20)).and_power().and_entries();
    let (seen, report) = witness(&server, 6.0, looks, |seen, point| {
        point.set_active(4, 2, 2);
        point.set_frequency(0);
        point.set_wait(Wait::Interrupt);
        AskAgain::at(seen.now + PERIOD)
    });
    let mut energy = 0.0;
    for seen in &seen {
        let arrivals: u64 = seen.queues.iter().map(|queue| queue.arrivals).sum();
        let bytes: u64 = seen.queues.iter().map(|queue| queue.bytes.unwrap()).sum();
        assert_eq!(bytes, 64 * arrivals);
        assert_eq!(seen.entries.iter().sum::<u64>(), arrivals, "each came by one entry");
        for (queue, view) in seen.queues.iter().enumerate() {
            assert_eq!(view.oldest.is_some(), view.fill > 0, "queue {queue}");
            assert!(view.oldest.is_none_or(|age| age < Span::from_millis(1)));
        }
        for core in &seen.cores {
            let residency = core.residency.unwrap();
            let sum = residency.iter().fold(Span::ZERO, |sum, &state| sum + state);
            assert_eq!(sum, core.asleep);
            assert_eq!(core.useful + core.empty + core.asleep, seen.now.since(Time::ZERO));
        }
        let latency = seen.latency.unwrap();
        assert!(latency.late <= latency.samples);
        let power = seen.power.unwrap();
        assert_eq!(power.provenance, wattline_units::Provenance::MODELLED);
        energy += (power.watts * power.over).0;
    }
    // The last observation is at most a millisecond before the end.
    let samples: u64 = seen.iter().map(|seen| seen.latency.unwrap().samples).sum();
    let late: u64 = seen.iter().map(|seen| seen.latency.unwrap().late).sum();
    assert!(samples > 100_000 && samples <= report.forwarded_packets, "{samples}");
    let fraction = late as f64 / samples as f64;
    assert!(fraction > 0.0 && fraction < 1.0, "the bound is somewhere in between: {fraction}");
    let spanned = seen.last().unwrap().now.as_seconds();
    let expected = report.energy_joules / report.duration_seconds * spanned;
    assert!((energy / expected - 1.0).abs() < 0.01, "{energy} J shown, {expected} J reported");
}

#[test]
fn no_packet_differs_from_no_measurement() {
    let server = server("westmere-2010");
    let (seen, _) = witness(&server, 0.001, Looks::WHOLE.and_latency(), every_millisecond);
    assert!(seen.iter().any(|seen| seen.latency == Some(LatencyView::default())));
    let (seen, _) = witness(&server, 0.001, Looks::WHOLE, every_millisecond);
    assert!(seen.iter().all(|seen| seen.latency.is_none()));
}

/// The platform states the duration of a change of frequency; until then, policies see the old
/// frequency.
#[test]
fn present_frequency_is_shown() {
    let server = server("westmere-2010");
    let platform = platform_of(&server);
    let (slow, fast) = (platform.frequencies[0], platform.frequencies[platform.fastest()]);
    let transition = platform.frequency_transition;
    assert!(transition > Span::ZERO);
    let half = transition / 2;
    let (seen, _) = witness(&server, 1.0, Looks::WHOLE, move |seen, point| {
        let change = seen.now >= Time::ZERO + PERIOD;
        point.set_frequency(if change { 0 } else { 13 });
        AskAgain::at(if change { seen.now + half } else { Time::ZERO + PERIOD })
    });
    let of = |index: usize| seen[index].cores[0].frequency.unwrap();
    assert_eq!((of(1), of(2)), (fast, fast), "asked for at 1, under way at 2");
    assert_eq!(of(4), slow, "two halves later");
}

/// A controller that requests another frequency more often than a change takes still reaches it.
#[test]
fn frequency_changes_do_not_postpone_each_other() {
    let server = server("westmere-2010");
    let transition = platform_of(&server).frequency_transition;
    let often = transition / 4;
    let (seen, _) = witness(&server, 1.0, Looks::WHOLE, move |seen, point| {
        let step = if seen.trigger == Trigger::Start { 0 } else { point.fastest_active() + 1 };
        point.set_frequency(step.min(13));
        AskAgain::at(seen.now + often)
    });
    let frequencies: Vec<f64> =
        seen[1..14].iter().map(|s| s.cores[0].frequency.unwrap().0).collect();
    assert!(frequencies.is_sorted(), "{frequencies:?}");
    assert!(frequencies[12] > frequencies[0], "it climbs while it asks: {frequencies:?}");
}

/// Cores of a cluster run at the highest request of its active cores, others at their own.
#[test]
fn clusters_of_cores_share_a_frequency() {
    let text = library::text_of("westmere-2010", library::Kind::Servers).unwrap();
    let text = text.replace("\"per-chip\"", "\"per-cluster\"\ncluster_cores = 4");
    let server = ServerFile::parse("clusters", &text).unwrap().model().unwrap().clone();
    let (seen, _) = witness(&server, 1.0, Looks::WHOLE, move |seen, point| {
        point.set_active(12, 0, 2);
        point.set_frequency(0);
        point.cores[5].frequency = 13;
        AskAgain::at(seen.now + PERIOD)
    });
    let platform = platform_of(&server);
    let last = seen.last().unwrap();
    for (number, core) in last.cores.iter().enumerate() {
        let index = if (4..8).contains(&number) { 13 } else { 0 };
        assert_eq!(core.frequency, Some(platform.frequencies[index]), "core {number}");
    }
    let bad = text.replace("cluster_cores = 4", "");
    let error = ServerFile::parse("clusters", &bad).unwrap_err().to_string();
    assert!(error.contains("cluster_cores"), "{error}");
}

#[test]
fn fill_level_triggers_only_when_reached() {
    let server = server("westmere-2010");
    let platform = platform_of(&server);
    assert_eq!(platform.can.asks.fill, Timing::Exact);
    let level = 8;
    let (seen, _) = witness(&server, 3.4, Looks::TRIGGER, move |_, point| {
        point.set_active(1, 0, 2);
        point.batch = 32;
        AskAgain::NEVER.and_on_fill(CoreSet::only(0), level)
    });
    let fills: Vec<u32> = seen
        .iter()
        .filter_map(|seen| match seen.trigger {
            Trigger::Fill { queue } => Some(seen.queues[queue].fill),
            Trigger::Start => None,
            other => panic!("not requested: {other:?}"),
        })
        .collect();
    assert!(fills.len() > 100 && fills.iter().all(|&fill| fill >= level), "{}", fills.len());
    let (seen, _) = witness(&server, 0.1, Looks::TRIGGER, move |_, _| {
        AskAgain::NEVER.and_on_fill(CoreSet::first(12), level)
    });
    assert_eq!(seen.len(), 1, "no queue grows so long at a low load");
}

/// When several cores are watched, no core is simulated past the time at which another one reaches
/// its level or ends its streak: a policy would see the future.
#[test]
fn events_of_several_cores_show_no_future() {
    let cores = CoreSet::first(4);
    let rule = StreakRule { above: Level { packets: 7, samples: 3 }, ..StreakRule::NEVER };
    let streaks = Streaks { cores, rule, at_above: true, at_below: false, at_silence: false };
    let server = server("westmere-2010");
    for by_streak in [false, true] {
        let (seen, _) = witness(&server, 6.0, Looks::WHOLE, move |seen, point| {
            point.set_active(4, 0, 2);
            point.set_wait(Wait::Sleep(Span::from_micros(40)));
            point.batch = 8;
            let ask = AskAgain::at(seen.now + Span::from_micros(200));
            match by_streak {
                true => AskAgain { on_streak: streaks, ..ask },
                false => ask.and_on_fill(cores, 24),
            }
        });
        let events = seen
            .iter()
            .filter(|seen| matches!(seen.trigger, Trigger::Fill { .. } | Trigger::Streak { .. }));
        let mut count = 0;
        for seen in events {
            count += 1;
            for core in &seen.cores {
                let spent = core.useful + core.empty + core.asleep;
                // A wake-up or a batch in progress counts as a whole.
                let most = seen.now.since(Time::ZERO) + Span::from_micros(12);
                assert!(spent <= most, "{:?}: {spent:?} at {:?}", seen.trigger, seen.now);
            }
        }
        assert!(count > 20, "{count}");
    }
}

/// A policy that asks about a core which has already polled empty queues is asked now, not in the
/// past.
#[test]
fn earlier_empty_polls_do_not_turn_time_back() {
    let server = server("westmere-2010");
    let (seen, _) = witness(&server, 0.001, Looks::WHOLE, |seen, point| {
        point.set_wait(Wait::Poll);
        match seen.trigger {
            Trigger::Start => AskAgain::at(seen.now + PERIOD),
            _ => AskAgain {
                after_empty_polls: NonZeroU32::new(500),
                ..AskAgain::on_batch(CoreSet::first(2))
            },
        }
    });
    assert!(seen.iter().filter(|s| matches!(s.trigger, Trigger::EmptyPolls { .. })).count() > 100);
    assert!(seen.windows(2).all(|pair| pair[0].now <= pair[1].now), "time does not go back");
    assert!(seen[2].now >= seen[1].now && seen[1].now >= Time::ZERO + PERIOD);
}

#[test]
fn weights_share_the_load_out() {
    let server = server("westmere-2010");
    assert!(platform_of(&server).can.set_weights);
    let (seen, report) = witness(&server, 2.0, Looks::WHOLE, |seen, point| {
        point.set_active(2, 0, 2);
        (point.weights[0], point.weights[1]) = (3, 1);
        AskAgain::at(seen.now + PERIOD)
    });
    let last = seen.last().unwrap();
    let share =
        last.cores[0].packets as f64 / (last.cores[0].packets + last.cores[1].packets) as f64;
    assert!((share - 0.75).abs() < 0.02, "{share}");
    assert_eq!(report.dropped_packets, 0);
}

/// A server without pauses ignores a request for a wait with a pause.
#[test]
fn unsupported_wait_mode_is_ignored() {
    let server = server("westmere-2010");
    assert!(!platform_of(&server).can.waits.allows(Wait::Pause));
    let (_, report) = witness(&server, 0.1, Looks::WHOLE, |seen, point| {
        point.set_wait(if seen.trigger == Trigger::Start { Wait::Interrupt } else { Wait::Pause });
        AskAgain::at(seen.now + PERIOD)
    });
    assert!(report.residency.cores.iter().all(|core| core.empty == 0.0), "no core polls");
}
