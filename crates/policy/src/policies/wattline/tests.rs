use crate::policies::testing::{Bench, server};
use crate::{LatencyView, Trigger, Wait};
use wattline_units::{Span, Time};

fn step(bench: &mut Bench, policy: &mut dyn crate::Policy, micros: u64, mpps: f64) {
    let packets = (mpps * micros as f64) as u64;
    bench.pass(policy, Span::from_micros(micros), &[], packets);
}

/// So many packets come to a queue at once, which asks the policy.
fn queue_grows(bench: &mut Bench, policy: &mut dyn crate::Policy, micros: u64, packets: u32) {
    bench.queues[0].arrivals += u64::from(packets);
    bench.queues[0].fill = packets;
    bench.now += Span::from_micros(micros);
    let observation = crate::Observation {
        platform: &bench.platform,
        trigger: Trigger::Fill { queue: 0 },
        queues: &bench.queues,
        cores: &bench.cores,
        latency: None,
        power: None,
        entries: &[],
        offered: None,
    };
    policy.decide(bench.now, &observation, &mut bench.point);
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

#[test]
fn a_leap_brings_everything_at_once_and_says_why() {
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

/// Flash crowds of 2 ms every 20 ms, within 25 us and with seven late packets in a thousand; the ninth does not
/// come. Whether cores poll and the reason of the last change, before it is due, when it is, and after that.
fn around_a_leap_that_is_due(platform: fn(&mut crate::Platform)) -> [(bool, &'static str); 3] {
    let model = server();
    let mut bench = Bench::new();
    platform(&mut bench.platform);
    let mut policy = bench.make("wattline:p99=25us", Some(&model)).unwrap();
    bench.start(&mut *policy);
    let low = |bench: &mut Bench, policy: &mut dyn crate::Policy, looks: usize| {
        bench.latency = Some(LatencyView { samples: 150, late: 1, ..LatencyView::default() });
        (0..looks).for_each(|_| step(bench, policy, 50, 3.0));
    };
    for _ in 0..8 {
        low(&mut bench, &mut *policy, 360);
        // A queue tells of the leap 10 us after it came.
        queue_grows(&mut bench, &mut *policy, 10, 300);
        bench.queues[0].fill = 0;
        step(&mut bench, &mut *policy, 40, 30.0);
        bench.latency = Some(LatencyView { samples: 1_500, late: 12, ..LatencyView::default() });
        (0..39).for_each(|_| step(&mut bench, &mut *policy, 50, 30.0));
    }
    [340, 18, 60].map(|looks| {
        low(&mut bench, &mut *policy, looks);
        (bench.point.cores[0].wait == Wait::Poll, policy.reason().unwrap().words)
    })
}

const DUE: &str = "a sudden rise was due";

#[test]
fn cores_are_ready_for_a_leap_that_is_due_and_stand_down_when_it_does_not_come() {
    let [before, due, after] = around_a_leap_that_is_due(|_| ());
    assert!(!before.0 && before.1 != DUE, "{before:?}");
    assert_eq!(due, (true, DUE));
    assert_eq!(after, (false, "a sudden rise was over and the new load known"));
}

#[test]
fn where_no_core_can_be_awake_without_packets_none_is_made_ready() {
    for without in [
        |platform: &mut crate::Platform| platform.can.set_weights = false,
        |platform: &mut crate::Platform| platform.can.limit_idle = false,
    ] {
        for seen in around_a_leap_that_is_due(without) {
            assert!(!seen.0 && seen.1 != DUE, "{seen:?}");
        }
    }
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
