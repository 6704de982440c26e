//! NAPI polls: their budget, interrupts and costs, and the information that policies get from them.

use crate::common::{poisson, server, setting, simulate};
use wattline_cores::{CoreMake, Sink, Watched, platform_of};
use wattline_policy::OperatingPoint;
use wattline_server::{Application, Path, PowerPart, ServerFile, ServerModel};
use wattline_sim::{Report, Setting, SimError, run};
use wattline_traffic::Packet;
use wattline_units::Span;

/// Returns Westmere on the kernel's path at the costs of workers, with these cycles for each
/// wake-up and for each interrupt of an awake core.
fn kernel(wake_up: f64, interrupt: f64) -> ServerModel {
    let mut server = server("westmere-2010");
    let own = server.applications[&Application::Ipv4].cycles_per_packet;
    server.wake_up.fixed_seconds = 0.0;
    let cost = server.paths.get_mut(&Path::Kernel).unwrap();
    cost.cycles_per_packet = own;
    (cost.wake_up_cycles, cost.interrupt_cycles) = (Some(wake_up), Some(interrupt));
    server.on_path(Path::Kernel).unwrap()
}

fn play(server: &ServerModel, policy: &str, rate: f64) -> Report {
    let setting = Setting { duration: Span::from_millis(200), ..setting(server, policy) };
    simulate(&setting, &mut poisson(server, rate, 64, 3))
}

#[test]
fn kernel_agrees_with_workers_where_wake_ups_cost_nothing() {
    let mut workers = server("westmere-2010");
    (workers.wake_up.fixed_seconds, workers.wake_up.cycles) = (0.0, 0.0);
    let mut kernel = kernel(0.0, 0.0);
    // Workers also find packets of other ports that have not interrupted yet.
    (workers.wake_up.delivery_seconds, kernel.wake_up.delivery_seconds) = (0.0, 0.0);
    for rate in [1e6, 10e6, 24e6] {
        let [theirs, ours] = [&workers, &kernel].map(|server| play(server, "napi", rate));
        assert_eq!(theirs.offered_packets, ours.offered_packets);
        assert_eq!(ours.dropped_packets, 0);
        let near = |what, theirs: f64, ours: f64, share| {
            assert!((ours / theirs - 1.0).abs() < share, "{what} at {rate}: {theirs}, {ours}");
        };
        near("power", theirs.power_watts, ours.power_watts, 0.002);
        let means = [theirs, ours].map(|report| report.latency_mean_seconds.unwrap());
        near("latency", means[0], means[1], 0.02);
    }
}

#[test]
fn interrupts_cost_most_at_low_load() {
    let costs = |rate| {
        let [free, dear] = [0.0, 4790.0].map(|cycles| play(&kernel(cycles, cycles), "napi", rate));
        let added = dear.energy_joules - free.energy_joules;
        (dear.interrupts_per_packet.unwrap(), added / dear.forwarded_packets as f64)
    };
    let (low, high) = (costs(1e6), costs(24e6));
    assert!(low.0 > 0.9 && high.0 < low.0 / 2.0, "{low:?} {high:?}");
    assert!(low.1 > 2.0 * high.1 && high.1 >= 0.0, "{low:?} {high:?}");
}

#[test]
fn budget_bounds_the_batches() {
    let server = server("westmere-2010").on_path(Path::Kernel).unwrap();
    let platform = platform_of(&server);
    let point = OperatingPoint::full(&platform);
    let make = CoreMake::new(&server, Application::Ipv4, 1).unwrap();
    let polls = |packets: u64| {
        let mut core = make.core(0, &point, &platform);
        for picos in 1..=packets {
            core.rings[0].push(Packet { picos, flow: 0, length: 64, port: 0 });
        }
        core.advance(1_000_000_000_000, Watched::NOT, &mut Sink::new(1, 0));
        (core.counts.packets, core.counts.polls, core.counts.interrupts)
    };
    // A poll that uses its whole budget is followed by another, which may find nothing.
    assert_eq!(polls(63), (63, 1, 1));
    assert_eq!(polls(64), (64, 2, 1));
    assert_eq!(polls(512), (512, 9, 1));
}

#[test]
fn paths_cost_as_much_as_in_the_file() {
    for name in ["westmere-2010", "xeon-platinum-8470"] {
        let own = server(name);
        let watts = Path::ALL.map(|path| {
            let server = own.on_path(path).unwrap();
            play(&server, "napi", 4e6).power_watts
        });
        assert!(watts.is_sorted() && watts[0] < watts[2] - 1.0, "{name}: {watts:?}");
    }
    let mut without = server("westmere-2010");
    without.paths.clear();
    let error = without.on_path(Path::Xdp).unwrap_err().to_string();
    assert!(error.contains("[path.xdp]") && error.contains("westmere-2010"), "{error}");
    assert_eq!(without.on_path(Path::Workers).unwrap(), without);
}

#[test]
fn policies_get_only_the_information_of_polls() {
    let server = server("westmere-2010").on_path(Path::Kernel).unwrap();
    for policy in ["queue-length", "wattline:p99=250us", "ondemand"] {
        let report = play(&server, policy, 2e6);
        assert!(report.cores_active_mean < 12.0 || policy == "ondemand", "{policy}");
        assert_eq!(report.dropped_packets, 0, "{policy}");
    }
    for policy in ["poll", "oracle", "queue-length:read=after", "queue-length:q_h=64"] {
        let error = run(&setting(&server, policy), &mut poisson(&server, 1e6, 64, 1)).unwrap_err();
        assert!(matches!(error, SimError::Path(_)), "{policy}: {error}");
    }
}

#[test]
fn every_source_has_its_part_of_the_power() {
    let text = "name = \"mine\"\ndescription = \"of parts\"\nsource = \"a test\"\n[parts]\n\
                cores = \"westmere-2010\"\ncards = [\"Intel Multiport(4x1G)\"]\n\
                receive = \"published\"";
    let file = ServerFile::parse("mine.toml", text).unwrap();
    let server = file.model().unwrap().on_path(Path::Kernel).unwrap();
    let report = play(&server, "napi:cores=4,idle=C3", 2e6);
    let parts: Vec<PowerPart> = report.power_by_source.iter().map(|it| it.part).collect();
    assert_eq!(parts, PowerPart::ALL);
    let sum: f64 = report.power_by_source.iter().map(|it| it.watts.0).sum();
    assert!((sum - report.power_watts).abs() < 1e-9, "{sum}, not {}", report.power_watts);
    // Each part is large enough that the sum shows if it is missing.
    let least = report.power_by_source.iter().map(|it| it.watts.0).fold(f64::INFINITY, f64::min);
    assert!(least > 0.01, "{:?}", report.power_by_source);
    let of = |part| report.power_by_source.iter().find(|it| it.part == part).unwrap().watts.0;
    assert!((of(PowerPart::Links) - 4.4).abs() < 1e-9 && (of(PowerPart::Cards) - 7.9).abs() < 1e-9);
    let high = server.processor.highest_frequency();
    let executing = report.forwarded_rate_pps * 2300.0 / high.0;
    let expected = executing * server.awake_core_power(high).0;
    assert!((of(PowerPart::Receive) / expected - 1.0).abs() < 1e-6, "not {expected}");
    let own = play(file.model().unwrap(), "napi:cores=4,idle=C3", 2e6);
    assert!(own.power_by_source.iter().all(|it| it.part != PowerPart::Receive));
}
