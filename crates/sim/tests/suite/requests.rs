//! Request servers: conservation, theory, the shapes that Co-PI reports, profiles.

use std::sync::Arc;
use wattline_governor::ledger::{Entry, Knob};
use wattline_policies::POLICIES;
use wattline_policies::copi;
use wattline_policy::SpecError;
use wattline_server::{RequestServer, ServerFile};
use wattline_sim::KnobBehaviour;
use wattline_sim::requests::{
    Grid, REQUEST_KNOBS, RequestReport, RequestSetting, SPARSE_MOST, profile, profile_sparse,
    request_platform, run_requests, run_requests_on, run_requests_with,
};
use wattline_traffic::requests::{RequestSpec, Workload};
use wattline_units::Span;

fn xeon() -> RequestServer {
    ServerFile::load("xeon-silver-4108").unwrap().requests().unwrap().clone()
}

fn setting<'a>(server: &'a RequestServer, requests: &str, policy: &str) -> RequestSetting<'a> {
    RequestSetting {
        server,
        requests: RequestSpec::parse(requests).unwrap(),
        policy: POLICIES.parse(policy).unwrap(),
        duration: Span::from_millis(400),
        warmup: Span::from_millis(50),
        seed: 1,
        cores: None,
    }
}

fn run(requests: &str, policy: &str) -> RequestReport {
    run_requests(&setting(&xeon(), requests, policy)).unwrap()
}

#[test]
fn requests_time_and_power_are_conserved() {
    for policy in ["performance+ixgbe", "ondemand+dim", "schedutil+50us", "powersave-governor"] {
        let report = run("memcached:700krps", policy);
        let left = report.answered_requests + report.dropped_requests;
        assert_eq!(
            report.offered_requests + report.waiting_at_start_requests,
            left + report.waiting_at_end_requests,
            "{policy}"
        );
        for core in &report.cores {
            let shares = core.application + core.kernel + core.idle.iter().sum::<f64>();
            assert!((shares - 1.0).abs() < 1e-9, "{policy}: {shares}");
        }
        let parts = report.package_power_watts
            + report.uncore_power_watts
            + report.awake_power_watts
            + report.idle_power_watts;
        assert!((parts - report.power_watts).abs() < 1e-9);
        assert!((report.frequency_shares.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        assert!((report.periods.iter().map(|p| p.share).sum::<f64>() - 1.0).abs() < 1e-9);
    }
}

#[test]
fn a_seed_repeats_and_another_differs() {
    let server = xeon();
    let mut one = setting(&server, "memcached:200krps", "ondemand+ixgbe");
    let strip = |mut report: RequestReport| {
        report.wall_seconds = 0.0;
        report
    };
    let first = strip(run_requests(&one).unwrap());
    assert_eq!(first, strip(run_requests(&one).unwrap()));
    one.seed = 2;
    assert_ne!(first, strip(run_requests(&one).unwrap()));
}

/// Without kernel costs, bursts and spread, the server is an M/D/1 queue.
#[test]
fn without_the_kernel_it_is_an_m_d_1_queue() {
    let mut server = xeon();
    let kernel = &mut server.kernel;
    kernel.interrupt_cycles = 0.0;
    kernel.segment_cycles = 0.0;
    kernel.completion_cycles = 0.0;
    kernel.outside = Span::ZERO;
    server.idle_states.truncate(1);
    server.idle_states[0].exit_latency = Span::ZERO;
    server.nic.moderation.as_mut().unwrap().shortest = Span::ZERO;
    server.services.get_mut("memcached").unwrap().spread = 0.0;
    server.services.get_mut("memcached").unwrap().cycles = 9_000.0;
    let mut one = setting(&server, "memcached:1120krps,burst=1", "performance");
    one.duration = Span::from_millis(3_000);
    let report = run_requests(&one).unwrap();
    // 5 us at 140 k/s: utilisation 0.7, waiting 0.7 x 5 / (2 x 0.3) = 5.83 us, link 0.3 us.
    let on_link = one.requests.mean_response_bytes() * 8.0 / 1e10 * 1e6;
    let mean = report.latency_mean_seconds.unwrap() * 1e6 - on_link;
    assert!((mean - 10.83).abs() < 0.3, "{mean}");
    let busy = report.cores.iter().map(|core| core.application).sum::<f64>() / 8.0;
    assert!((busy - 0.7).abs() < 0.01, "{busy}");
}

/// CP-031 and CP-032: the statements of Figures 1 and 2.
#[test]
fn latency_rises_with_the_period_at_low_load_and_is_u_shaped_at_high_load() {
    let mean = |rate: &str, period: u32| {
        let policy = format!("performance+{period}us");
        run(&format!("memcached:{rate}"), &policy).latency_mean_seconds.unwrap()
    };
    let low = [6, 200, 1022].map(|period| mean("200krps", period));
    assert!(low[0] < low[1] && low[1] < low[2], "{low:?}");
    let high = [6, 200, 1022].map(|period| mean("900krps", period));
    assert!(high[1] < high[0] / 1.5 && high[1] < high[2], "{high:?}");
}

#[test]
fn too_many_interrupts_starve_the_application() {
    let mut server = xeon();
    // 12 us of work every 6 us.
    server.kernel.interrupt_cycles = 21_600.0;
    let report = run_requests(&setting(&server, "memcached:900krps", "performance+6us")).unwrap();
    assert!(!report.sustained);
    let core = &report.cores[0];
    assert!(core.application < 0.2 && core.kernel > 0.8, "{core:?}");
    let relieved =
        run_requests(&setting(&server, "memcached:900krps", "performance+400us")).unwrap();
    assert!(relieved.sustained && relieved.cores[0].application > 0.4);
}

#[test]
fn a_full_ring_drops_and_an_impossible_load_is_refused() {
    let mut server = xeon();
    server.nic.rx_ring = Some(16);
    let report =
        run_requests(&setting(&server, "memcached:900krps", "performance+1022us")).unwrap();
    assert!(report.dropped_requests > 1_000 && !report.sustained);
    let error = run_requests(&setting(&server, "nginx:1Mrps", "performance")).unwrap_err();
    assert!(error.to_string().contains("Gbit/s of responses are beyond the 10"), "{error}");
    server.services.remove("nginx");
    let error = run_requests(&setting(&server, "nginx:10krps", "performance")).unwrap_err();
    assert!(
        error.to_string().contains("no cost of nginx")
            && error.to_string().contains("it has memcached")
    );
}

#[test]
fn one_core_stands_for_all_with_the_same_setting() {
    let server = xeon();
    let mut one = setting(&server, "memcached:700krps", "performance+84us");
    one.duration = Span::from_millis(2_000);
    let all = run_requests(&one).unwrap();
    one.cores = Some(1);
    let alone = run_requests(&one).unwrap();
    assert!((alone.power_watts / all.power_watts - 1.0).abs() < 0.01);
    let p95 = |report: &RequestReport| report.latency_p95_seconds.unwrap();
    assert!((p95(&alone) / p95(&all) - 1.0).abs() < 0.1);
}

/// At this load the kernel's part alone takes all of a core at 0.8 GHz (receive livelock).
#[test]
fn ksoftirqd_leaves_half_of_an_overloaded_core_to_the_application() {
    let application = |slice: Span| {
        let mut server = xeon();
        server.kernel.ksoftirqd_slice = slice;
        let policy = "napi:frequency_ghz=0.8,idle=deepest,moderation=6000ns";
        let report = run_requests(&setting(&server, "memcached:1700krps", policy)).unwrap();
        let left = report.answered_requests + report.dropped_requests;
        let backlog = report.waiting_at_end_requests - report.waiting_at_start_requests;
        assert_eq!(left + backlog, report.offered_requests);
        report.cores.iter().map(|core| core.application).sum::<f64>() / report.cores.len() as f64
    };
    let (without, with) = (application(Span::ZERO), application(Span::from_millis(12)));
    assert!(without < 0.1, "{without}");
    assert!((0.4..0.6).contains(&with), "{with}");
}

#[test]
fn profile_does_not_depend_on_connections_and_repeats_reduce_its_noise() {
    let server = xeon();
    let tables = |requests: &str, seed: u64, within: Option<f64>| {
        let periods = vec![Span::from_micros(20)];
        let requests = RequestSpec::parse(requests).unwrap();
        let grid = Grid { loads: vec![850e3], periods, seed, within };
        profile_sparse(&server, &requests, &grid, None, POLICIES).unwrap().tables
    };
    assert_eq!(tables("memcached", 1, None), tables("memcached:700krps,connections=64", 1, None));
    let spread = |within: Option<f64>| {
        let p95 =
            |seed| tables("memcached", seed, within).default_point(0).unwrap().latency_seconds;
        let all = [1, 2, 3, 4].map(p95);
        all.iter().copied().fold(0.0, f64::max) / all.iter().copied().fold(f64::INFINITY, f64::min)
    };
    let (once, repeated) = (spread(None), spread(Some(0.01)));
    println!("longest over shortest P95 of four seeds: {once:.3} once, {repeated:.3} repeated");
    assert!(repeated < once, "{repeated} and {once}");
}

#[test]
fn copi_on_its_own_tables_saves_and_keeps_the_target() {
    let server = xeon();
    let requests = RequestSpec::parse("memcached:700krps").unwrap();
    let periods = [6, 20, 50, 100, 200].map(Span::from_micros).to_vec();
    let grid = Grid { loads: vec![600e3, 700e3, 850e3], periods, seed: 1, within: None };
    let tables = Arc::new(profile(&server, &requests, &grid, POLICIES).unwrap().tables);
    let mut one = setting(&server, "memcached:700krps", "performance+ixgbe");
    one.seed = 1_001;
    one.duration = Span::from_millis(1_000);
    one.warmup = Span::from_millis(300);
    let performance = run_requests(&one).unwrap();
    let copi = run_requests_with(&one, |context| {
        let target = Some(Span::from_millis(1));
        let options = copi::Options { target, ..copi::Options::default() };
        copi::with_tables(tables.clone(), options, context.platform)
            .map_err(|text| SpecError { text, problems: Vec::new() })
    })
    .unwrap();
    let saved = 1.0 - copi.power_watts / performance.power_watts;
    assert!(saved > 0.15, "{saved}");
    let p95 = copi.latency_p95_seconds.unwrap();
    assert!(p95 < 1.1e-3, "{p95}");
    assert_eq!(request_platform(&server).cores, 8);
}

/// On three machines for which no parameter was tuned: at most a tenth of the points, at least nine
/// tenths of the saving. `wattline reproduce copi` has more of them.
#[test]
fn a_sparse_profile_keeps_most_of_the_saving() {
    for (interrupt, request, dynamic) in [(0.7, 1.1, 1.5), (1.3, 0.9, 0.8), (1.0, 1.0, 2.2)] {
        let mut server = xeon();
        server.kernel.interrupt_cycles *= interrupt;
        server.services.get_mut("memcached").unwrap().cycles *= request;
        server.power.dynamic_per_gigahertz *= dynamic;
        let requests = RequestSpec::new(Workload::Memcached, 700e3);
        let grid =
            Grid { loads: vec![700e3], periods: Grid::periods_of(&server), seed: 7, within: None };
        let full = profile(&server, &requests, &grid, POLICIES).unwrap();
        let target = Span::from_micros(900);
        let sparse = profile_sparse(&server, &requests, &grid, Some(target), POLICIES).unwrap();
        let share = sparse.points as f64 / sparse.of as f64;
        assert!(share <= SPARSE_MOST, "{share}");
        let load = 700e3 / 8.0;
        let target = target.as_seconds();
        let default = full.tables.default_point(0).unwrap().power_watts;
        let saving = |profiled: &wattline_sim::requests::Profiled| {
            let choice = profiled.tables.choose(load, target, 1.0, None).unwrap();
            1.0 - choice.point.power_watts / default
        };
        let (all, few) = (saving(&full), saving(&sparse));
        assert!(all > 0.05 && few >= 0.9 * all, "{few} of {all}");
    }
}

#[test]
fn bad_knobs_also_affect_request_servers() {
    let server = xeon();
    let one = setting(&server, "memcached:400krps", "ondemand+84us");
    let with = |faults: &str| {
        let report = run_requests_on(&one, KnobBehaviour::parse(faults).unwrap()).unwrap();
        let of_frequency = |entry: &&Entry| entry.knob == Knob::Frequency;
        let frequency = report.knobs.iter().find(of_frequency).cloned().expect(faults);
        (frequency, report)
    };
    let ideal = run_requests(&one).unwrap();
    assert!(ideal.knobs.is_empty() && ideal.transitions > 0 && ideal.mean_state() > 1.0);

    // The server starts at the fastest frequency, and stays there.
    let (frequency, refused) = with("frequency:refuse");
    assert!(frequency.failed > 0 && frequency.failed == frequency.steps, "{frequency:?}");
    assert_eq!((refused.transitions, refused.mean_state()), (0, 0.0));
    assert!(refused.power_watts > ideal.power_watts);

    let (frequency, failing) = with("frequency:fail=0.5");
    assert!(frequency.failed > 0 && frequency.failed < frequency.steps, "{frequency:?}");
    assert!(failing.transitions > 0);

    // Cores change one after the other, each after the delay.
    let (frequency, slow) = with("frequency:delay=5ms");
    assert!(frequency.steps > 0 && frequency.failed == 0, "{frequency:?}");
    assert_ne!(slow.power_watts, ideal.power_watts);

    // Every third state, counted from the fastest.
    let (frequency, coarse) = with("frequency:round=3");
    assert!(frequency.altered > 0, "{frequency:?}");
    let shares = coarse.frequency_shares.iter().rev().enumerate();
    for (state, share) in shares {
        assert!(state % 3 == 0 || *share == 0.0, "state {state}: {share}");
    }

    // 20 writes a second for 450 ms, and one at once.
    let knobs = KnobBehaviour::parse("budget:rate=20,burst=1").unwrap();
    let paced = run_requests_on(&one, knobs).unwrap();
    let steps: u64 = paced.knobs.iter().map(|entry| entry.steps).sum();
    assert!((1..=10).contains(&steps), "{:?}", paced.knobs);
}

#[test]
fn only_listed_knobs_are_turned() {
    let server = xeon();
    let mut turned = Vec::new();
    for policy in ["ondemand+84us", "schedutil+dim", "performance+84us"] {
        let one = setting(&server, "memcached:400krps", policy);
        let knobs = KnobBehaviour::parse("budget:rate=1000000").unwrap();
        let report = run_requests_on(&one, knobs).unwrap();
        turned.extend(report.knobs.iter().filter(|entry| entry.steps > 0).map(|entry| entry.knob));
    }
    // Every policy may set the batch; a request server has none, and nothing follows from it.
    turned.retain(|knob| *knob != Knob::Batch);
    assert!(turned.iter().all(|knob| REQUEST_KNOBS.contains(knob)), "{turned:?}");
    assert!(turned.contains(&Knob::Frequency) && turned.contains(&Knob::Moderation), "{turned:?}");
}

/// A policy for pollers would behave like another one under its name.
#[test]
fn policies_that_need_workers_are_refused_on_the_kernels_path() {
    let server = xeon();
    for (policy, why) in [("poll", "poll"), ("queue-length", "batches")] {
        let error = run_requests(&setting(&server, "memcached:200krps", policy)).unwrap_err();
        let error = error.to_string();
        assert!(error.contains(why) && error.contains("schedutil"), "{policy}: {error}");
    }
}
