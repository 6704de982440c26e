use crate::policies::testing::{Bench, server};
use crate::{LatencyView, Trigger, Wait};
use wattline_units::{Span, Time};

fn step(bench: &mut Bench, policy: &mut dyn crate::Policy, micros: u64, mpps: f64) {
    let packets = (mpps * micros as f64) as u64;
    bench.pass(policy, Span::from_micros(micros), &[], packets);
}

/// Asks the policy about what it sees now.
fn ask(bench: &mut Bench, policy: &mut dyn crate::Policy, trigger: Trigger) {
    let observation = crate::Observation {
        platform: &bench.platform,
        trigger,
        queues: &bench.queues,
        cores: &bench.cores,
        latency: bench.latency,
        power: None,
        entries: &[],
        offered: None,
    };
    policy.decide(bench.now, &observation, &mut bench.point);
}

/// So many packets come to a queue at once, which asks the policy.
fn queue_grows(bench: &mut Bench, policy: &mut dyn crate::Policy, micros: u64, packets: u32) {
    bench.queues[0].arrivals += u64::from(packets);
    bench.queues[0].fill = packets;
    bench.now += Span::from_micros(micros);
    ask(bench, policy, Trigger::Fill { queue: 0 });
}

/// Every look from now on shows so many packets, none of them late.
fn in_time(bench: &mut Bench, samples: u64) {
    bench.latency = Some(LatencyView { samples, ..LatencyView::default() });
}

#[test]
fn begins_with_everything_and_settles_on_the_cheapest() {
    let model = server();
    let mut bench = Bench::new();
    let mut policy = bench.make("wattline:p99=100us", Some(&model)).unwrap();
    bench.start(&mut *policy);
    assert_eq!(bench.rung(), (12, 13), "nothing is known yet");
    assert!(
        bench.point.cores.iter().all(|core| core.wait == Wait::Poll),
        "polling cores park at once"
    );
    // All packets in time: what a leap may cost is saved up.
    in_time(&mut bench, 2_000_000);
    (0..200).for_each(|_| step(&mut bench, &mut *policy, 200, 1.0));
    let (cores, _) = bench.rung();
    assert!(cores <= 2, "1 Mpps: {cores}");
    assert!(matches!(bench.point.cores[0].wait, Wait::Sleep(_)), "{:?}", bench.point.cores[0]);
    (0..200).for_each(|_| step(&mut bench, &mut *policy, 200, 16.0));
    let (cores, _) = bench.rung();
    assert!((8..=12).contains(&cores), "16 Mpps: {cores}");
}

/// Cores that never park have taken no known time, so a rise may need all that it needs now.
#[test]
fn start_times_the_steps_and_reserves_cores_while_they_are_unknown() {
    let model = server();
    let settled = |parks: bool| {
        let mut bench = Bench::new();
        let mut policy = bench.make("wattline:p99=100us", Some(&model)).unwrap();
        bench.start(&mut *policy);
        in_time(&mut bench, 2_000_000);
        for look in 1..220u64 {
            let micros = if look <= 20 { 50 } else { 200 };
            bench.now += Span::from_micros(micros);
            bench.queues[0].arrivals += micros;
            for core in 0..12 {
                let is_parked = parks && !bench.point.active.contains(core);
                bench.cores[core].idle_state = is_parked.then_some(2);
            }
            ask(&mut bench, &mut *policy, Trigger::Timer);
            if look == 15 {
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
    let model = server();
    let mut bench = Bench::new();
    let mut policy = bench.make("wattline:p99=100us", Some(&model)).unwrap();
    bench.start(&mut *policy);
    (0..400).for_each(|_| step(&mut bench, &mut *policy, 200, 1.0));
    let before = bench.rung();
    queue_grows(&mut bench, &mut *policy, 30, 300);
    let after = bench.rung();
    assert!(after.0 > before.0, "{before:?} {after:?}");
    assert_eq!(bench.point.cores[after.0 - 1].wait, Wait::Poll, "wakes at once");
    assert_eq!(after, (12, 13), "nobody knows how far it goes");
    assert!(policy.remark().unwrap().contains("the load rose suddenly"), "{:?}", policy.remark());
    assert!(bench.point.cores.iter().all(|core| core.wait == Wait::Poll), "all wake");
}

/// Nothing is saved up without measured latency: naps stay as short as a leap to ten times the
/// rate needs them, and more cores share it.
#[test]
fn what_a_leap_may_cost_has_to_be_saved_up_first() {
    let model = server();
    let settled = |saves: bool| {
        let mut bench = Bench::new();
        let mut policy = bench.make("wattline:p99=100us", Some(&model)).unwrap();
        bench.start(&mut *policy);
        if saves {
            in_time(&mut bench, 2_000_000);
        }
        (0..400).for_each(|_| step(&mut bench, &mut *policy, 200, 1.6));
        let Wait::Sleep(nap) = bench.point.cores[0].wait else { return (bench.rung().0, 0.0) };
        (bench.rung().0, nap.as_seconds())
    };
    let (bare, saved) = (settled(false), settled(true));
    assert!(bare.0 > saved.0 || bare.1 < saved.1, "{bare:?} {saved:?}");
    assert!(saved.1 > 15e-6, "{saved:?}");
}

#[test]
fn a_tight_budget_is_refused_with_what_would_do() {
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
    let mut bench = Bench::new();
    let mut policy = bench.make("wattline:guard=link", Some(&model)).unwrap();
    bench.start(&mut *policy);
    (0..400).for_each(|_| step(&mut bench, &mut *policy, 200, 0.5));
    // 59.5 Mpps for some 140 us are 8,500 packets, and a core's four rings hold 2,048.
    assert!((4..=6).contains(&bench.rung().0), "{:?}", bench.rung());
}

#[test]
fn without_a_model_it_learns_what_a_packet_takes() {
    let mut bench = Bench::new();
    let mut policy = bench.make("wattline", None).unwrap();
    bench.start(&mut *policy);
    in_time(&mut bench, 2_000_000);
    for _ in 0..500 {
        // All cores together are useful for 0.5 us per packet at 4 Mpps.
        let active = bench.point.active.len();
        let useful = vec![(4.0 * 0.5 / active as f64).min(1.0); active];
        for view in bench.cores.iter_mut().take(active) {
            view.packets += (4.0 * 200.0 / active as f64) as u64;
        }
        bench.pass(&mut *policy, Span::from_micros(200), &useful, 800);
    }
    let (cores, _) = bench.rung();
    assert!((2..=6).contains(&cores), "2 cores' work: {cores}");
    assert!(bench.now > Time::ZERO);
}

/// A server file that promises more than the cores do is corrected by the counters, one that promises
/// less, too; and one that is right stays as it is.
#[test]
fn a_wrong_model_is_corrected_by_what_packets_take() {
    let settled = |times: f64| {
        let model = server();
        let cost = model.packet_cost(wattline_server::Application::Ipv4, 64).unwrap();
        let mut bench = Bench::new();
        let mut policy = bench.make("wattline:p99=100us", Some(&model)).unwrap();
        bench.start(&mut *policy);
        in_time(&mut bench, 2_000_000);
        for _ in 0..1_000 {
            let (active, frequency) = bench.rung();
            let service =
                model.service_seconds(cost, bench.platform.frequencies[frequency], active);
            // 12 Mpps on cores that take so many times as long as the file says.
            let each = 12e6 / active as f64;
            let useful = vec![(each * service * times).min(1.0); active];
            for view in bench.cores.iter_mut().take(active) {
                view.packets += (each * 200e-6) as u64;
            }
            bench.pass(&mut *policy, Span::from_micros(200), &useful, 2_400);
        }
        let (cores, frequency) = bench.rung();
        cores as f64 / model.service_seconds(cost, bench.platform.frequencies[frequency], cores)
    };
    let (right, slow, fast) = (settled(1.0), settled(1.25), settled(0.8));
    assert!(slow > 1.12 * right, "{slow} {right}");
    assert!(fast < 0.95 * right, "{fast} {right}");
    assert_eq!(settled(1.03), right, "within the trust");
}

/// Phase and reason of the last change.
fn why(policy: &dyn crate::Policy) -> (&'static str, &'static str) {
    let reason = policy.reason().unwrap();
    (reason.phase.unwrap(), reason.words)
}

/// A flash crowd of 10 Mpps over 1 Mpps, of which a queue tells.
fn rises(bench: &mut Bench, policy: &mut dyn crate::Policy, looks: usize) -> (usize, usize) {
    queue_grows(bench, policy, 30, 300);
    let answer = bench.rung();
    bench.queues[0].fill = 0;
    (0..looks).for_each(|_| step(bench, policy, 50, 10.0));
    answer
}

#[test]
fn rise_of_known_height_is_answered_by_the_cores_for_it() {
    let model = server();
    let mut bench = Bench::new();
    let mut policy = bench.make("wattline:p99=100us", Some(&model)).unwrap();
    bench.start(&mut *policy);
    let mut answers = Vec::new();
    for _ in 0..2 {
        (0..400).for_each(|_| step(&mut bench, &mut *policy, 200, 1.0));
        answers.push(rises(&mut bench, &mut *policy, 100));
    }
    assert_eq!(answers[0].0, 12, "nobody knows how far it goes");
    assert!((4..=8).contains(&answers[1].0) && answers[1].1 == 13, "{answers:?}");
}

#[test]
fn answer_ends_when_the_new_load_is_known() {
    let model = server();
    let mut bench = Bench::new();
    let mut policy = bench.make("wattline:p99=100us", Some(&model)).unwrap();
    bench.start(&mut *policy);
    (0..400).for_each(|_| step(&mut bench, &mut *policy, 200, 1.0));
    rises(&mut bench, &mut *policy, 5);
    assert_eq!((bench.rung(), why(&*policy).0), ((12, 13), "Answer"), "0.25 ms later");
    (0..3).for_each(|_| step(&mut bench, &mut *policy, 50, 10.0));
    assert!(bench.rung().0 < 12, "{:?}", bench.rung());
    assert_eq!(why(&*policy), ("Follow", super::why::SETTLED));
}

/// A millisecond at 10 Mpps, one at 1 Mpps: following costs more than the lows save.
#[test]
fn peak_that_returns_is_carried_and_followed_again_when_it_stays_away() {
    let model = server();
    let mut bench = Bench::new();
    let mut policy = bench.make("wattline:p99=100us", Some(&model)).unwrap();
    bench.start(&mut *policy);
    for _ in 0..20 {
        rises(&mut bench, &mut *policy, 20);
        (0..20).for_each(|_| step(&mut bench, &mut *policy, 50, 1.0));
    }
    let carries = bench.rung();
    rises(&mut bench, &mut *policy, 20);
    let again = bench.rung();
    assert!(again.0 == carries.0 && again.1 < 13, "the peak is no news: {carries:?} {again:?}");
    (0..400).for_each(|_| step(&mut bench, &mut *policy, 200, 1.0));
    assert!(bench.rung().0 < carries.0, "{:?} after {carries:?}", bench.rung());
    assert_eq!(why(&*policy).0, "Follow");
}

#[test]
fn crowded_queue_adds_capacity_though_the_load_does_not_rise() {
    let model = server();
    let mut bench = Bench::new();
    let mut policy = bench.make("wattline:p99=100us", Some(&model)).unwrap();
    bench.start(&mut *policy);
    in_time(&mut bench, 1_600);
    (0..500).for_each(|_| step(&mut bench, &mut *policy, 200, 8.0));
    let before = bench.rung();
    let frequencies = bench.platform.frequencies.clone();
    let capacity = |(cores, frequency): (usize, usize)| {
        let cost = model.packet_cost(wattline_server::Application::Ipv4, 64).unwrap();
        cores as f64 / model.service_seconds(cost, frequencies[frequency], cores)
    };
    let before = capacity(before);
    // The usual number of packets came in 100 us, and all of them wait in one queue.
    bench.queues[0].arrivals += 800;
    bench.queues[0].fill = 300;
    bench.now += Span::from_micros(100);
    ask(&mut bench, &mut *policy, Trigger::Fill { queue: 0 });
    assert_eq!(why(&*policy), ("Follow", super::why::CROWDED));
    assert!(capacity(bench.rung()) > before);
}

/// Cores that nap wake by the timers that they set; a rise would overfill their rings.
#[test]
fn long_naps_are_cut_short_when_a_rise_comes() {
    let model = server();
    let mut bench = Bench::new();
    let mut policy = bench.make("wattline:p99=500us", Some(&model)).unwrap();
    bench.start(&mut *policy);
    in_time(&mut bench, 2_000_000);
    (0..400).for_each(|_| step(&mut bench, &mut *policy, 200, 1.0));
    let Wait::Sleep(nap) = bench.point.cores[0].wait else { panic!("it naps") };
    assert!(nap > Span::from_micros(100), "{nap:?}");
    queue_grows(&mut bench, &mut *policy, 30, 600);
    assert_eq!(bench.point.cores[0].wait, Wait::Poll);
}

/// The machine refuses every frequency but the highest.
#[test]
fn refused_frequency_is_no_longer_asked_for() {
    let model = server();
    let mut bench = Bench::new();
    let mut policy = bench.make("wattline:p99=100us", Some(&model)).unwrap();
    bench.start(&mut *policy);
    in_time(&mut bench, 1_600);
    let mut asked = Vec::new();
    for _ in 0..100 {
        step(&mut bench, &mut *policy, 200, 4.0);
        asked.push(bench.rung().1);
        bench.point.set_frequency(13);
    }
    assert!(asked[20] < 13 && asked[99] == 13, "{asked:?}");
}

/// An overload makes packets late whatever is planned. It teaches nothing about the load after it.
#[test]
fn an_overload_costs_nothing_once_it_is_over() {
    let model = server();
    let settled = |overload: usize| {
        let mut bench = Bench::new();
        let mut policy = bench.make("wattline:p99=100us", Some(&model)).unwrap();
        bench.start(&mut *policy);
        in_time(&mut bench, 1_600);
        (0..500).for_each(|_| step(&mut bench, &mut *policy, 200, 8.0));
        bench.latency = Some(LatencyView { samples: 5_700, late: 5_700, ..LatencyView::default() });
        (0..overload).for_each(|_| step(&mut bench, &mut *policy, 200, 34.0));
        // Late packets have to be paid for again, which takes a second.
        in_time(&mut bench, 1_600);
        (0..7_500).for_each(|_| step(&mut bench, &mut *policy, 200, 8.0));
        let (cores, frequency) = bench.rung();
        let cost = model.packet_cost(wattline_server::Application::Ipv4, 64).unwrap();
        cores as f64 / model.service_seconds(cost, bench.platform.frequencies[frequency], cores)
    };
    assert_eq!(settled(100), settled(0));
}

/// Sources of the policy without their tests.
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

/// Numeric literals of a source other than 0, 1 and 2, outside of comments and strings. The parts of a tuple
/// are not numbers.
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
    assert!(count <= 25, "{count} numbers");
    let lines: Vec<&str> = include_str!("constants.rs").lines().collect();
    for (before, line) in lines.iter().zip(&lines[1..]) {
        assert!(!line.starts_with("pub const") || before.starts_with("///"), "{line}: no reason");
    }
}

/// Lines of code count, without comments, empty lines and tests.
#[test]
fn policy_does_not_grow() {
    let is_code = |line: &&str| !line.trim().is_empty() && !line.trim().starts_with("//");
    let lines: usize = sources().map(|(_, text)| text.lines().filter(is_code).count()).sum();
    assert!(lines <= 1_200, "{lines} lines");
}
