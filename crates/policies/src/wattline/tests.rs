use super::*;
use crate::testing::{Bench, server};
use wattline_policy::testing::westmere;
use wattline_policy::{Asks, FillLevel, LatencyView, Timing, Waits};
use wattline_server::Application;

/// Returns a bench on which this policy has started, with the shipped model of PowerSave's machine.
fn started(text: &str) -> Bench {
    let mut bench = Bench::new();
    bench.play(text, Some(&server()));
    bench
}

fn step(bench: &mut Bench, micros: u64, mpps: f64) {
    let packets = (mpps * micros as f64) as u64;
    bench.pass(Span::from_micros(micros), &[], packets);
}

/// Passes the policy's present observation to `then`.
fn with_seen<T>(bench: &Bench, then: impl FnOnce(&wattline_policy::Observation<'_>) -> T) -> T {
    then(&wattline_policy::Observation {
        latency: bench.latency,
        ..wattline_policy::Observation::new(
            bench.now,
            &bench.platform,
            Trigger::Timer,
            &bench.queues,
            &bench.cores,
        )
    })
}

/// Adds so many packets to a queue at once, and asks the policy.
fn queue_grows(bench: &mut Bench, micros: u64, packets: u32) -> AskAgain {
    bench.queues[0].arrivals += u64::from(packets);
    bench.queues[0].fill = packets;
    bench.now += Span::from_micros(micros);
    bench.ask(Trigger::Fill { queue: 0 })
}

/// Makes every decision from now on see so many packets, none of them late.
fn in_time(bench: &mut Bench, samples: u64) {
    bench.latency = Some(LatencyView { samples, ..LatencyView::default() });
}

#[test]
fn starts_with_everything_and_settles_on_the_cheapest() {
    let mut bench = started("wattline:p99=100us");
    assert_eq!(bench.rung(), (12, 13), "nothing is known yet");
    assert!(
        bench.point.cores.iter().all(|core| core.wait == Wait::Poll),
        "polling cores park at once"
    );
    // All packets are in time, so the allowance for a leap is full.
    in_time(&mut bench, 2_000_000);
    (0..200).for_each(|_| step(&mut bench, 200, 1.0));
    let (cores, _) = bench.rung();
    assert!(cores <= 2, "1 Mpps: {cores}");
    assert!(matches!(bench.point.cores[0].wait, Wait::Sleep(_)), "{:?}", bench.point.cores[0]);
    (0..200).for_each(|_| step(&mut bench, 200, 16.0));
    let (cores, _) = bench.rung();
    assert!((8..=12).contains(&cores), "16 Mpps: {cores}");
}

/// The kernel takes the packets, so no core polls and no fill is visible: polls that find more than
/// planned trigger the policy, and cards are read ten times a second.
#[test]
fn full_polls_of_the_kernel_add_capacity_and_nothing_polls() {
    let model = server();
    let mut bench = Bench::new();
    let can = &mut bench.platform.can;
    can.asks = Asks { streaks: Timing::Exact, ..Asks::NOTHING };
    can.waits = Waits { interrupt: true, ..Waits::NONE };
    let decide = |bench: &mut Bench, packets| {
        bench.now += KERNEL_PERIOD;
        bench.queues[0].arrivals += packets;
        bench.ask(Trigger::Timer)
    };
    bench.play("wattline:p99=250us", Some(&model));
    let again = (0..50).map(|_| decide(&mut bench, 100_000)).last().unwrap();
    let (cores, frequency) = bench.rung();
    assert!(cores <= 2, "1 Mpps: {cores}");
    assert!(bench.point.cores.iter().all(|core| core.wait == Wait::Interrupt));
    assert_eq!(again.at, bench.now + KERNEL_PERIOD);
    assert_eq!(again.on_fill, FillLevel::NEVER);
    let Streaks { cores: watched, rule, at_above, at_below, .. } = again.on_streak;
    assert_eq!((watched, at_above, at_below), (CoreSet::first(cores), true, false));
    assert!(rule.above.packets <= FULL_POLL, "{rule:?}");
    // Until the cards are read again, only polls show that queues grow.
    let full = Trigger::Streak { queue: 0, above: true };
    let grown = (1..20).find(|turn| {
        bench.now += Span::from_millis(1);
        bench.queues.iter_mut().for_each(|queue| queue.age = Span::from_millis(*turn));
        let again = bench.ask(full);
        assert!(again.on_streak.rule.above.samples >= rule.above.samples);
        bench.rung() != (cores, frequency)
    });
    assert!(grown.is_some(), "capacity stays at {:?}", bench.rung());
    // The rate since the last reading is not taken as zero.
    bench.queues.iter_mut().for_each(|queue| queue.age = Span::ZERO);
    decide(&mut bench, 2_000_000);
    assert!(bench.rung().0 >= cores, "10 Mpps: {:?}", bench.rung());
    bench.platform.can.asks = Asks::NOTHING;
    let again = decide(&mut bench, 2_000_000);
    assert_eq!(again.on_streak, Streaks::NEVER, "they are not counted");
}

/// Packets that arrive 64 at a time fill every poll of the kernel at any frequency: speed does not
/// help, and full polls at a constant rate soon count as usual.
#[test]
fn bursts_at_a_constant_rate_change_nothing_and_rarely_ask() {
    let (model, burst, apart) = (server(), 64, Span::from_micros(100));
    let mut bench = Bench::new();
    bench.platform.cores = 1;
    bench.platform.queues.retain(|queue| queue.core == 0);
    bench.queues.truncate(bench.platform.queues.len());
    bench.cores.truncate(1);
    bench.point = OperatingPoint::full(&bench.platform);
    bench.platform.can.asks = Asks { streaks: Timing::Exact, ..Asks::NOTHING };
    bench.platform.can.waits = Waits { interrupt: true, ..Waits::NONE };
    let mut again = bench.play("wattline", Some(&model));
    let mut estimator = wattline_policy::QueueEstimator::new(1);
    let mut second = |bench: &mut Bench| {
        let mut rungs = Vec::new();
        for _ in 0..10_000 {
            bench.now += apart;
            bench.queues[0].arrivals += u64::from(burst);
            bench.cores[0].packets += u64::from(burst);
            bench.cores[0].useful += apart * 35 / 100;
            bench.cores[0].asleep += apart * 65 / 100;
            let asks = !again.on_streak.cores.is_empty();
            let full = asks && estimator.batch(bench.now, 0, burst, burst) == Some(true);
            if !full && bench.now < again.at {
                continue;
            }
            let streak = Trigger::Streak { queue: 0, above: true };
            again = bench.ask(if full { streak } else { Trigger::Timer });
            rungs.push(bench.rung());
            if *estimator.rule() != again.on_streak.rule {
                estimator.start(bench.now, again.on_streak.rule);
            }
        }
        rungs
    };
    (0..3).for_each(|_| drop(second(&mut bench)));
    for _ in 0..3 {
        let rungs = second(&mut bench);
        assert!(rungs.len() <= 12, "{} questions in a second", rungs.len());
        assert!(rungs.iter().all(|rung| rung == &rungs[0]), "{rungs:?}");
    }
}

/// Cores that never park have no known step time, so a rise may need all its cores at once.
#[test]
fn start_times_the_steps_and_reserves_cores_while_they_are_unknown() {
    let settled = |parks: bool| {
        let mut bench = started("wattline:p99=100us");
        in_time(&mut bench, 2_000_000);
        for index in 1..220u64 {
            let micros = if index <= 20 { 50 } else { 200 };
            bench.now += Span::from_micros(micros);
            bench.queues[0].arrivals += micros;
            for core in 0..12 {
                let is_parked = parks && !bench.point.active.contains(core);
                bench.cores[core].idle_state = is_parked.then_some(2);
            }
            bench.ask(Trigger::Timer);
            if index == 15 {
                assert_eq!(bench.rung(), (6, 13), "half of the cores park");
            }
        }
        bench.rung().0
    };
    let (known, unknown) = (settled(true), settled(false));
    assert!(known <= 2 && unknown > known + 1, "{known} {unknown}");
}

#[test]
fn rise_brings_everything_at_once_and_gives_its_reason() {
    let mut bench = started("wattline:p99=100us");
    (0..400).for_each(|_| step(&mut bench, 200, 1.0));
    let before = bench.rung();
    queue_grows(&mut bench, 30, 300);
    let after = bench.rung();
    assert!(after.0 > before.0, "{before:?} {after:?}");
    assert_eq!(bench.point.cores[after.0 - 1].wait, Wait::Poll, "wakes at once");
    assert_eq!(after, (12, 13), "its height is unknown");
    let remark = bench.policy().remark().unwrap();
    assert!(remark.contains("the load rose suddenly"), "{remark}");
    assert!(bench.point.cores.iter().all(|core| core.wait == Wait::Poll), "all wake");
}

/// Without measured latency there is no allowance: naps stay as short as a leap to ten times the
/// rate requires, and more cores share it.
#[test]
fn allowance_for_a_leap_is_earned_first() {
    let settled = |saves: bool| {
        let mut bench = started("wattline:p99=100us");
        if saves {
            in_time(&mut bench, 2_000_000);
        }
        (0..400).for_each(|_| step(&mut bench, 200, 1.6));
        let Wait::Sleep(nap) = bench.point.cores[0].wait else { return (bench.rung().0, 0.0) };
        (bench.rung().0, nap.as_seconds())
    };
    let (bare, saved) = (settled(false), settled(true));
    assert!(bare.0 > saved.0 || bare.1 < saved.1, "{bare:?} {saved:?}");
    assert!(saved.1 > 15e-6, "{saved:?}");
}

#[test]
fn tight_budget_is_refused_with_a_feasible_one() {
    let model = server();
    let bench = Bench::new();
    let error = bench.make("wattline:p99=10us", Some(&model)).err().unwrap().to_string();
    assert!(error.contains("p99 = 10.0 us") && error.contains("allowed"), "{error}");
    let error = bench.make("wattline:guard=all", Some(&model)).err().unwrap().to_string();
    assert!(error.contains("measured or link"), "{error}");
    let error = bench.make("wattline:floor=13", Some(&model)).err().unwrap().to_string();
    assert!(error.contains("12 cores"), "{error}");
}

#[test]
fn line_rate_without_a_warning_needs_a_floor_of_cores() {
    let model = server();
    let settled = |ring: usize| {
        let mut bench = Bench::new();
        bench.platform.ring_size = Some(ring);
        bench.play("wattline:guard=link", Some(&model));
        (0..400).for_each(|_| step(&mut bench, 200, 0.5));
        bench.rung().0
    };
    // 59.5 Mpps for some 140 us are 8,500 packets, and a core's four rings hold 2,048 or 1,024.
    assert!((4..=6).contains(&settled(512)), "{}", settled(512));
    assert!((9..=10).contains(&settled(256)), "{}", settled(256));
}

#[test]
fn service_time_is_learned_without_a_model() {
    let mut bench = Bench::playing("wattline");
    in_time(&mut bench, 2_000_000);
    for _ in 0..500 {
        // All cores together are useful for 0.5 us per packet at 4 Mpps.
        let active = bench.point.active.len();
        let useful = vec![(4.0 * 0.5 / active as f64).min(1.0); active];
        for view in bench.cores.iter_mut().take(active) {
            view.packets += (4.0 * 200.0 / active as f64) as u64;
        }
        bench.pass(Span::from_micros(200), &useful, 800);
    }
    let (cores, _) = bench.rung();
    assert!((2..=6).contains(&cores), "2 cores' work: {cores}");
    assert!(bench.now > Time::ZERO);
}

/// A server file that promises too much is corrected by the counters, and so is one that promises
/// too little; a correct one stays as it is.
#[test]
fn wrong_model_is_corrected_by_measured_service_times() {
    let settled = |times: f64| {
        let model = server();
        let cost = model.packet_cost(Application::Ipv4, 64).unwrap();
        let mut bench = started("wattline:p99=100us");
        in_time(&mut bench, 2_000_000);
        for _ in 0..1_000 {
            let (active, frequency) = bench.rung();
            let service =
                model.service_seconds(cost, bench.platform.frequencies[frequency], active);
            // 12 Mpps on cores that take so many times as long as the file claims.
            let each = 12e6 / active as f64;
            let useful = vec![(each * service * times).min(1.0); active];
            for view in bench.cores.iter_mut().take(active) {
                view.packets += (each * 200e-6) as u64;
            }
            bench.pass(Span::from_micros(200), &useful, 2_400);
        }
        let (cores, frequency) = bench.rung();
        cores as f64 / model.service_seconds(cost, bench.platform.frequencies[frequency], cores)
    };
    let (right, slow, fast) = (settled(1.0), settled(1.25), settled(0.8));
    assert!(slow > 1.12 * right, "{slow} {right}");
    assert!(fast < 0.95 * right, "{fast} {right}");
    assert_eq!(settled(1.03), right, "within the trust");
}

/// Returns phase and reason of the last change.
fn last_change(bench: &Bench) -> (&'static str, &'static str) {
    let reason = bench.policy().reason().unwrap();
    (reason.phase.unwrap(), reason.words)
}

/// Simulates a flash crowd of 10 Mpps over 1 Mpps, reported by a queue.
fn rises(bench: &mut Bench, decisions: usize) -> (usize, usize) {
    queue_grows(bench, 30, 300);
    let answer = bench.rung();
    bench.queues[0].fill = 0;
    (0..decisions).for_each(|_| step(bench, 50, 10.0));
    answer
}

#[test]
fn rise_of_known_height_is_answered_by_the_cores_for_it() {
    let mut bench = started("wattline:p99=100us");
    let mut answers = Vec::new();
    for _ in 0..2 {
        (0..400).for_each(|_| step(&mut bench, 200, 1.0));
        answers.push(rises(&mut bench, 100));
    }
    assert_eq!(answers[0].0, 12, "its height is unknown");
    assert!((4..=8).contains(&answers[1].0) && answers[1].1 == 13, "{answers:?}");
}

#[test]
fn rise_that_goes_on_gets_twice_the_capacity() {
    let mut bench = started("wattline:p99=100us");
    for _ in 0..2 {
        (0..400).for_each(|_| step(&mut bench, 200, 1.0));
        rises(&mut bench, 100);
    }
    (0..400).for_each(|_| step(&mut bench, 200, 1.0));
    let answer = rises(&mut bench, 0);
    queue_grows(&mut bench, 30, 1_500);
    assert!(bench.rung().0 >= 2 * answer.0 - 1, "{:?} after {answer:?}", bench.rung());
}

/// Returns twelve cores that serve 28.8 Mpps, with 100 us for a packet.
fn bare() -> Wattline {
    let model = server();
    let cost = model.packet_cost(Application::Ipv4, 64).unwrap();
    let machine = Machine::new(&westmere(), Some((&model, cost)));
    let given = Given {
        late_after: Span::from_micros(100),
        slack: 93e-6,
        floor: 1,
        ring: 2_048.0,
        ports: 4,
        exit: Span::from_micros(92),
        transition: 10e-6,
        link: None,
        periods: [PERIOD, ALERT],
        by_kernel: false,
    };
    Wattline { given, machine, ..Wattline::default() }
}

fn choice(cores: usize, nap: f64) -> Choice {
    let at = bare().machine.everything(&bare().required(1e6));
    Choice { cores, nap: Some(nap), ..at }
}

#[test]
fn expected_rise_follows_from_those_that_came() {
    let mut policy = bare();
    (policy.rate.mean, policy.rate.peak, policy.rate.long) = (2e6, 6e6, 4e6);
    assert_eq!(policy.required(2e6).rise.rate, 2e7, "ten times the mean");
    policy.risen = Some(Time::ZERO);
    assert_eq!(policy.required(2e6).rise.rate, 2e7, "one may be a burst");
    policy.risen_before = Some(Time::ZERO);
    assert_eq!(policy.required(2e6).rise.rate, 1.2e7, "twice the peak");
    policy.phase = Phase::Carry { rate: 6e6 };
    let carries = policy.required(6e6);
    assert_eq!((carries.rise.rate, carries.mean), (7.5e6, 4e6), "the peak and a quarter");
    (policy.phase, policy.rate.peak) = (Phase::Follow, 2e7);
    assert_eq!(policy.required(2e6).rise.rate, 2.5e7, "always");
}

#[test]
fn carried_rate_lets_packets_wait_within_slack_and_rings() {
    let needed = |slack: f64, ring: f64| {
        let mut policy = bare();
        (policy.given.slack, policy.given.ring) = (slack, ring);
        let mut count = 0;
        for index in 0..106u32 {
            policy.rate.update(f64::from(index) * 2e-4, count);
            count += if index / 5 % 2 == 0 { 2_000 } else { 200 };
        }
        policy.needed()
    };
    assert!((needed(0.0, 2_048.0) / 1e7 - 1.0).abs() < 0.01, "{}", needed(0.0, 2_048.0));
    assert!(needed(2.5e-3, 1e9) < 7e6, "a millisecond may wait: {}", needed(2.5e-3, 1e9));
    assert!(needed(2.5e-3, 100.0) > 9e6, "it has to fit: {}", needed(2.5e-3, 100.0));
}

#[test]
fn rise_is_answered_by_as_many_cores_as_have_rings_for_it() {
    let mut policy = bare();
    (policy.rate.mean, policy.rate.peak) = (1e6, 1e7);
    policy.present = Some(choice(1, 5e-5));
    let by_capacity = policy.answer(Time::ZERO, 1e6, (1e6, 1e7)).cores;
    assert!((5..=7).contains(&by_capacity), "{by_capacity}");
    policy.phase = Phase::Follow;
    (policy.given.exit, policy.given.ring) = (Span::from_micros(290), 512.0);
    assert_eq!(policy.answer(Time::ZERO, 1e6, (1e6, 1e7)).cores, 11, "3,625 packets");
}

#[test]
fn answer_lasts_longer_if_steps_are_slow() {
    let mut policy = bare();
    assert_eq!(policy.holds(11), Span::from_micros(300));
    policy.steps = Steps::new(50e-6);
    assert_eq!(policy.holds(11), Span::from_micros(900));
}

#[test]
fn held_frequency_is_the_present_one() {
    let mut bench = Bench::new();
    let mut policy = bare();
    policy.frequencies = Frequencies::new(13);
    (policy.present, policy.asked) = (Some(Choice { frequency: 3, ..choice(2, 5e-5) }), Some(3));
    bench.point.set_frequency(9);
    with_seen(&bench, |seen| policy.check(Time::ZERO, seen, &bench.point));
    assert_eq!(policy.present.unwrap().frequency, 9);
}

/// The limit was C1, and the core sleeps in C6.
#[test]
fn parked_core_may_be_deeper_than_its_limit() {
    let mut bench = Bench::new();
    let mut policy = bare();
    policy.given.slack = 43e-6;
    bench.point.set_active(2, 0, 2);
    (2..12).for_each(|core| bench.point.cores[core].idle_limit = 0);
    bench.cores[3].idle_state = Some(2);
    let asleep = |point: &OperatingPoint| {
        with_seen(&bench, |seen| policy.asleep(&choice(4, 5e-5), 1e6, seen, point))
    };
    assert_eq!(asleep(&bench.point)[0], CoreSet::only(3));
}

#[test]
fn naps_that_are_much_longer_or_overfill_fewer_rings_are_cut_short() {
    let mut policy = bare();
    policy.rate.peak = 1e7;
    let mut waits = |cores, nap| {
        let mut bench = Bench::new();
        policy.present = Some(choice(8, 4e-4));
        policy.set_waits(&choice(cores, nap), false, &bench.platform, &mut bench.point);
        bench.point.cores[0].wait
    };
    assert_eq!(waits(8, 3e-4), Wait::Sleep(Span::from_micros(300)));
    assert_eq!(waits(8, 1e-4), Wait::Poll, "a quarter of it");
    assert_eq!(waits(1, 3e-4), Wait::Poll, "5,000 packets in one core's rings");
}

#[test]
fn alarm_comes_at_half_of_a_ring_where_chance_explains_more() {
    let bench = Bench::new();
    let mut policy = bare();
    (policy.rate.mean, policy.rate.dispersion) = (2e6, 500.0);
    let level = with_seen(&bench, |seen| policy.level(&choice(2, 9e-5), Time::ZERO, seen));
    assert_eq!(level, 256);
}

#[test]
fn capacity_does_not_fall_in_an_answer() {
    let mut policy = bare();
    policy.given.floor = 4;
    let update = Update { now: Time::ZERO, seconds: 5e-5, rise: None, crowded: false };
    let until = Time::ZERO + Span::from_micros(100);
    for (phase, fast) in [(Phase::Answer { until, known: true }, true), (Phase::Follow, false)] {
        let capacity = policy.machine.capacity(3, 13);
        (policy.phase, policy.present) = (phase, Some(Choice { capacity, ..choice(3, 5e-5) }));
        let calm = Requirements {
            rise: Rise { rate: 0.0, ..policy.required(1e6).rise },
            ..policy.required(1e6)
        };
        let slow = policy.machine.choose(&calm);
        assert!(slow.cores == 4 && slow.capacity < capacity, "{slow:?}");
        let next = policy.follow(1e6, update).0;
        assert_eq!((next.cores, next.frequency == 13), (4, fast), "{phase:?}");
    }
}

#[test]
fn staying_at_a_peak_may_cost_the_change_and_the_way_back() {
    let mut policy = bare();
    (policy.rate.mean, policy.rate.peak) = (1e6, 1e7);
    policy.needed.update(0.0, 1e7);
    for _ in 0..3 {
        policy.falls.falls(0.0, 1.0);
        policy.falls.ends(false);
    }
    let required = policy.required(1e6);
    let at_peak = Requirements { need: 1e7, ..required };
    let (stays, low) = (policy.machine.choose(&at_peak), policy.machine.choose(&required));
    let change = policy.switch_joules(&stays, &low);
    let costs = change + policy.return_joules(&stays, &low, &at_peak);
    let saved = (stays.watts - low.watts) * PERIOD.as_seconds();
    let decisions = (1..).find(|_| policy.carry(PERIOD.as_seconds(), 1e6, 0.0) == 0.0).unwrap();
    let spent = f64::from(decisions) * saved;
    assert!(
        costs > 1.2 * change && (costs..costs + 1.01 * saved).contains(&spent),
        "{spent} {costs}"
    );
}

/// Uses the highest rate so far, not the capacity of the answer.
#[test]
fn known_height_of_a_rise_is_divided() {
    let mut bench = settled_within_50us();
    for _ in 0..2 {
        rises(&mut bench, 100);
        (0..400).for_each(|_| step(&mut bench, 200, 1.0));
    }
    let before = bench.rung().0;
    let answer = rises(&mut bench, 0).0;
    let [awake, waking] = [0, answer - 1].map(|core| f64::from(bench.point.weights[core]));
    let carried = bare().machine.capacity(before, 13) - 300.0 / bare().given.exit.as_seconds();
    let each = (1.05e7 - carried) / (answer - before) as f64;
    let expected = carried / before as f64 / each;
    assert!((awake / waking / expected - 1.0).abs() < 0.1, "{awake} {waking} {expected}");
}

#[test]
fn floor_of_cores_is_kept() {
    let mut bench = started("wattline:p99=100us,floor=9");
    in_time(&mut bench, 2_000_000);
    (0..400).for_each(|_| step(&mut bench, 200, 0.5));
    assert_eq!(bench.rung().0, 9);
}

/// Builds a policy for 50 us, which a core in C6 exceeds, and settles at 1 Mpps.
fn settled_within_50us() -> Bench {
    let mut bench = started("wattline:p99=50us");
    in_time(&mut bench, 2_000_000);
    (0..400).for_each(|_| step(&mut bench, 200, 1.0));
    bench
}

#[test]
fn waking_cores_get_the_excess_over_awake_ones_in_a_rise() {
    let shares = |waiting: u32, full: u32| {
        let mut bench = settled_within_50us();
        bench.queues[11].fill = full;
        let again = queue_grows(&mut bench, 30, waiting);
        assert_eq!(bench.rung(), (12, 13));
        assert_eq!(again.at, bench.now + Span::from_micros(50), "decisions are frequent");
        [0, 10, 11].map(|core| bench.point.weights[core])
    };
    let [awake, waking, other] = shares(200, 0);
    assert!(awake < waking && waking == other, "{awake} {waking} {other}");
    assert!(shares(300, 0)[0] < awake, "waiting packets take their part");
    let [_, waking, full] = shares(200, 450);
    assert!(full == 1 && waking > 1, "rings of 512 that are nearly full get nothing: {waking}");
}

#[test]
fn added_cores_poll_and_get_little_until_they_are_awake() {
    let mut bench = settled_within_50us();
    let before = bench.rung().0;
    for index in 0.. {
        let again = bench.pass(Span::from_micros(200), &[], 700);
        let (cores, _) = bench.rung();
        if cores > before {
            let [old, new] = [0, cores - 1].map(|core| bench.point.weights[core]);
            assert!(new < old, "{new} {old}");
            assert_eq!(bench.point.cores[cores - 1].wait, Wait::Poll);
            let awake = again.at.since(bench.now);
            assert!(awake < Span::from_micros(100) && awake > Span::from_micros(80), "{awake:?}");
            break;
        }
        assert!(index < 100, "{:?}", bench.rung());
    }
}

#[test]
fn alarms_are_set_beyond_plan_and_chance() {
    let model = server();
    let mut bench = Bench::new();
    assert_eq!(
        bench.play("wattline:p99=100us", Some(&model)).on_fill,
        FillLevel::NEVER,
        "everything is on"
    );
    in_time(&mut bench, 2_000_000);
    (0..400).for_each(|_| step(&mut bench, 200, 1.0));
    let level = bench.pass(Span::from_micros(200), &[], 200).on_fill;
    assert!((10..60).contains(&level.packets), "{level:?}");
    // A known rise is answered by some of the cores, whose queues may grow meanwhile.
    rises(&mut bench, 100);
    (0..400).for_each(|_| step(&mut bench, 200, 1.0));
    let level = queue_grows(&mut bench, 30, 100).on_fill;
    assert_eq!(level.packets, 358, "seven tenths of a ring");
}

/// Cores that serve every possible arrival rate nap for long; at a lower load a rise has to end
/// their naps.
#[test]
fn naps_that_became_too_long_are_cut_short() {
    let mut bench = started("wattline:p99=500us");
    in_time(&mut bench, 2_000_000);
    (0..400).for_each(|_| step(&mut bench, 200, 27.0));
    let Wait::Sleep(long) = bench.point.cores[0].wait else { panic!("it naps") };
    let mut polled = false;
    for _ in 0..100 {
        let again = bench.pass(Span::from_micros(200), &[], 200);
        match bench.point.cores[0].wait {
            Wait::Sleep(nap) if 2 * nap.as_picos() < long.as_picos() => break,
            Wait::Poll => {
                polled = true;
                assert_eq!(again.at, bench.now + Span::from_micros(50), "then they nap again");
            }
            _ => {}
        }
    }
    assert!(polled, "{:?} after {long:?}", bench.point.cores[0].wait);
}

#[test]
fn answer_ends_when_the_new_load_is_known() {
    let mut bench = started("wattline:p99=100us");
    (0..400).for_each(|_| step(&mut bench, 200, 1.0));
    rises(&mut bench, 5);
    assert_eq!((bench.rung(), last_change(&bench).0), ((12, 13), "Answer"), "0.25 ms later");
    (0..3).for_each(|_| step(&mut bench, 50, 10.0));
    assert!(bench.rung().0 < 12, "{:?}", bench.rung());
    assert_eq!(last_change(&bench), ("Follow", why::SETTLED));
}

/// A millisecond at 10 Mpps, one at 1 Mpps: following costs more than the lows save.
#[test]
fn peak_that_returns_is_carried_and_followed_again_when_it_stays_away() {
    let mut bench = started("wattline:p99=100us");
    for _ in 0..20 {
        rises(&mut bench, 20);
        (0..20).for_each(|_| step(&mut bench, 50, 1.0));
    }
    let carries = bench.rung();
    let answer = rises(&mut bench, 20);
    let again = bench.rung();
    assert!(answer.0 == carries.0 && answer.1 < 13, "the peak is no news: {carries:?} {answer:?}");
    assert!(again.0 == carries.0 && again.1 < 13, "{carries:?} {again:?}");
    (0..400).for_each(|_| step(&mut bench, 200, 1.0));
    assert!(bench.rung().0 < carries.0, "{:?} after {carries:?}", bench.rung());
    assert_eq!(last_change(&bench).0, "Follow");
}

#[test]
fn crowded_queue_adds_capacity_though_the_load_does_not_rise() {
    let model = server();
    let mut bench = started("wattline:p99=100us");
    in_time(&mut bench, 1_600);
    (0..500).for_each(|_| step(&mut bench, 200, 8.0));
    let before = bench.rung();
    let frequencies = bench.platform.frequencies.clone();
    let capacity = |(cores, frequency): (usize, usize)| {
        let cost = model.packet_cost(Application::Ipv4, 64).unwrap();
        cores as f64 / model.service_seconds(cost, frequencies[frequency], cores)
    };
    let before = capacity(before);
    // The usual number of packets arrived in 100 us, and all of them wait in one queue.
    bench.queues[0].arrivals += 800;
    bench.queues[0].fill = 300;
    bench.now += Span::from_micros(100);
    let again = bench.ask(Trigger::Fill { queue: 0 });
    assert_eq!(last_change(&bench), ("Follow", why::CROWDED));
    let added = bench.rung();
    assert!(capacity(added) > before);
    assert!(again.on_fill.packets >= 380, "a quarter more: {again:?}");
    bench.now += Span::from_micros(20);
    bench.ask(Trigger::Fill { queue: 0 });
    assert_eq!(bench.rung(), added, "the first addition has to take effect");
}

/// Napping cores wake by the timers that they set; a rise would overfill their rings.
#[test]
fn long_naps_are_cut_short_when_a_rise_comes() {
    let mut bench = started("wattline:p99=500us");
    in_time(&mut bench, 2_000_000);
    (0..400).for_each(|_| step(&mut bench, 200, 1.0));
    let Wait::Sleep(nap) = bench.point.cores[0].wait else { panic!("it naps") };
    assert!(nap > Span::from_micros(100), "{nap:?}");
    queue_grows(&mut bench, 30, 600);
    assert_eq!(bench.point.cores[0].wait, Wait::Poll);
}

/// The machine refuses every frequency but the highest.
#[test]
fn refused_frequency_is_no_longer_asked_for() {
    let mut bench = started("wattline:p99=100us");
    in_time(&mut bench, 1_600);
    let mut asked = Vec::new();
    for _ in 0..100 {
        step(&mut bench, 200, 4.0);
        asked.push(bench.rung().1);
        bench.point.set_frequency(13);
    }
    assert!(asked[20] < 13 && asked[99] == 13, "{asked:?}");
}

/// An overload makes packets late whatever the plan. It teaches nothing about the load after it.
#[test]
fn overload_leaves_no_trace_once_it_is_over() {
    let model = server();
    let settled = |overload: usize| {
        let mut bench = started("wattline:p99=100us");
        in_time(&mut bench, 1_600);
        (0..500).for_each(|_| step(&mut bench, 200, 8.0));
        bench.latency = Some(LatencyView { samples: 5_700, late: 5_700, ..LatencyView::default() });
        (0..overload).for_each(|_| step(&mut bench, 200, 34.0));
        // Late packets have to be earned again, which takes a second.
        in_time(&mut bench, 1_600);
        (0..7_500).for_each(|_| step(&mut bench, 200, 8.0));
        let (cores, frequency) = bench.rung();
        let cost = model.packet_cost(Application::Ipv4, 64).unwrap();
        cores as f64 / model.service_seconds(cost, bench.platform.frequencies[frequency], cores)
    };
    assert_eq!(settled(100), settled(0));
}

/// Returns the sources of the policy without their tests.
fn sources() -> impl Iterator<Item = (&'static str, &'static str)> {
    let files = [
        ("../wattline.rs", include_str!("../wattline.rs")),
        ("constants.rs", include_str!("constants.rs")),
        ("falls.rs", include_str!("falls.rs")),
        ("knobs.rs", include_str!("knobs.rs")),
        ("lateness.rs", include_str!("lateness.rs")),
        ("machine.rs", include_str!("machine.rs")),
        ("phase.rs", include_str!("phase.rs")),
        ("plan.rs", include_str!("plan.rs")),
        ("rate.rs", include_str!("rate.rs")),
        ("waking.rs", include_str!("waking.rs")),
        ("why.rs", include_str!("why.rs")),
    ];
    files.into_iter().map(|(name, text)| (name, text.split("#[cfg(test)]").next().unwrap_or(text)))
}

/// Returns numeric literals of a source other than 0, 1 and 2, outside of comments and strings.
/// Tuple fields are not numbers.
fn numbers(text: &str) -> Vec<String> {
    let code = text.lines().map(|line| line.split("//").next().unwrap_or(line));
    let code: Vec<String> = code
        .map(|line| line.split('"').step_by(2).collect::<Vec<_>>().join(" ").replace("e-", "e"))
        .filter(|line| !line.trim_start().starts_with("pub use"))
        .collect();
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    let words = code.iter().flat_map(|line| line.split(|c| !is_part(c)));
    let literals = words.filter(|word| word.starts_with(|c: char| c.is_ascii_digit()));
    let values = literals.map(|word| word.trim_end_matches('.').split("..").next().unwrap_or(word));
    let small = ["0", "1", "2", "0.0", "1.0", "2.0"];
    values.filter(|word| !small.contains(&word.trim_end_matches(".max"))).map(Into::into).collect()
}

#[test]
fn every_number_is_a_constant_with_its_reason() {
    assert_eq!(
        numbers("a(3.5, 0x10) + b.0 // 7\n \"9\" 1_800.0 12e-6 2.0"),
        ["3.5", "0x10", "1_800.0", "12e6"]
    );
    let mut count = 0;
    for (name, text) in sources() {
        let found = numbers(text);
        count += found.len();
        assert!(name == "constants.rs" || found.is_empty(), "{name}: {found:?}");
    }
    assert!(count <= 27, "{count} numbers");
    let lines: Vec<&str> = include_str!("constants.rs").lines().collect();
    for (before, line) in lines.iter().zip(&lines[1..]) {
        assert!(!line.starts_with("pub const") || before.starts_with("///"), "{line}: no reason");
    }
}
