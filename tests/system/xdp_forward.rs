//! The choice of the forwarder if the configuration leaves it open: XDP programs as long as they
//! can, workers otherwise. Changes lose no packet.

use crate::faults::reaches;
use crate::governed_forwarder::{frame, write_policy};
use crate::governed_ports::{CPUFREQ, Program};
use crate::harness::{XDP, alone, binary, privileged, privileged_with, quiet_with};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use wattline_linux::namespace::interface_index;
use wattline_testbed::command;
use wattline_testbed::forwarder::{Mode, Wattline, configuration};
use wattline_testbed::probe::{Load, Probe};
use wattline_testbed::topology::{LEFT, Options, RIGHT, SINK, SOURCE, Topology};
use wattline_xdp::{LiveGenerator, PassAll};

const LIMIT: Duration = Duration::from_secs(60);

/// The default choice.
fn auto(socket: &Path) -> String {
    let text = configuration(Mode::Adaptive, 1, socket);
    let open = text.replace("xdp_forward = \"off\"\n", "");
    assert_ne!(open, text);
    open
}

/// Options with static neighbours: resolving them may lose packets.
fn static_neighbours() -> Options {
    Options { static_neighbours: true, ..Options::default() }
}

fn count(router: &Wattline, what: &str) -> u64 {
    counts(router, [what])[0]
}

/// Returns several counters at one time.
fn counts<const N: usize>(router: &Wattline, names: [&str; N]) -> [u64; N] {
    let stats = router.stats().unwrap();
    names.map(|name| stats[name].as_u64().unwrap())
}

/// Waits until the forwarder has changed to XDP programs (`by_xdp`) or to workers.
fn until(router: &Wattline, by_xdp: bool) {
    let deadline = Instant::now() + LIMIT;
    let look = || counts(router, ["xdp_forwarded", "forwarded"]);
    let mut before = look();
    loop {
        std::thread::sleep(Duration::from_millis(100));
        let now = look();
        let (xdp, all) = (now[0] - before[0], now[1] - before[1]);
        if all > 100 && xdp == if by_xdp { all } else { 0 } {
            return;
        }
        assert!(Instant::now() < deadline, "by XDP {by_xdp}: {before:?}, {now:?}");
        before = now;
    }
}

/// Turns NAPI of source and sink on or off: a veth takes frames of XDP programs only if its far end
/// runs NAPI.
fn set_gro(topology: &Topology, state: &str) {
    for end in [&topology.source, &topology.sink] {
        end.run("ethtool", &["-K", "uplink", "gro", state], LIMIT).unwrap();
    }
}

/// Egress ports open and close for XDP programs under a steady load. Every packet arrives except
/// the first one that a closed port refuses.
#[test]
fn xdp_programs_and_workers_take_over_from_each_other_under_traffic() {
    let test = "xdp_programs_and_workers_take_over_from_each_other_under_traffic";
    privileged(test, || {
        let topology = Topology::build(static_neighbours()).unwrap();
        let router = Wattline::start_with(&topology, binary(), auto).unwrap();
        let load = Load { rate_pps: 5_000.0, duration: LIMIT, flows: 16 };
        let probe = Probe::start(&topology, &load).unwrap();
        until(&router, false);
        for _ in 0..2 {
            set_gro(&topology, "on");
            until(&router, true);
            set_gro(&topology, "off");
            until(&router, false);
        }
        set_gro(&topology, "on");
        until(&router, true);
        let outcome = probe.stop().unwrap();
        let log = router.log();
        assert!(log.contains("XDP programs send to it"), "{log}");
        let totals = router.stop().unwrap();
        assert!(totals.balance(), "{totals:?}");
        assert!(totals.xdp_forwarded > 0, "{totals:?}");
        println!("{outcome:?}\n{totals:?}");
        // The first refused frame, or the driver's first refused batch, reveals each of the two
        // closed ports.
        let refused = totals.dropped.get("xdp-refused").copied().unwrap_or(0);
        assert!(refused <= 2 * 16, "{totals:?}");
        let lost = outcome.lost_packets - outcome.receiver_overflow_packets;
        assert_eq!(lost, totals.dropped.values().sum::<u64>(), "{outcome:?} {totals:?}");
    });
}

/// A policy by load or by streaks of polls governs while XDP programs forward, and sees their load.
/// A policy that needs more than polls show makes workers forward. Neither needs a knob, and all
/// knobs are restored.
#[test]
fn a_governor_sees_what_xdp_programs_forward() {
    let test = "a_governor_sees_what_xdp_programs_forward";
    privileged(test, || {
        let topology = Topology::build(static_neighbours()).unwrap();
        set_gro(&topology, "on");
        let governed = |policy: &str, socket: &Path| {
            format!("{}\n[power]\nplatform = \"host\"\npolicy = \"{policy}\"\n", auto(socket))
        };
        let router =
            Wattline::start_with(&topology, binary(), |socket| governed("ondemand", socket))
                .unwrap();
        let load = Load { rate_pps: 2_000.0, duration: LIMIT, flows: 16 };
        let probe = Probe::start(&topology, &load).unwrap();
        until(&router, true);
        let offered =
            || router.stats().unwrap()["power"]["offered_packets"].as_u64().unwrap_or_default();
        let (before, xdp) = (offered(), count(&router, "xdp_forwarded"));
        std::thread::sleep(Duration::from_secs(2));
        let (seen, by_xdp) = (offered() - before, count(&router, "xdp_forwarded") - xdp);
        assert!(by_xdp > 1_000, "{by_xdp}");
        let share = seen as f64 / by_xdp as f64;
        assert!((0.8..1.2).contains(&share), "{seen} seen of {by_xdp}");
        let log = router.log();
        assert!(log.contains("XDP programs forward independently of the governor"), "{log}");
        let outcome = probe.stop().unwrap();
        assert_eq!(outcome.lost_packets, outcome.receiver_overflow_packets, "{outcome:?}");
        assert!(router.stop().unwrap().balance());

        // Streaks end where no core and no frequency can change, so that none is asked for.
        let router =
            Wattline::start_with(&topology, binary(), |socket| governed("queue-length", socket))
                .unwrap();
        let probe = Probe::start(&topology, &load).unwrap();
        until(&router, true);
        probe.stop().unwrap();
        let outcome = router.stop().unwrap();
        assert!(outcome.balance() && outcome.xdp_forwarded > 0, "{outcome:?}");

        let after = "queue-length:read=after";
        let router =
            Wattline::start_with(&topology, binary(), |socket| governed(after, socket)).unwrap();
        assert!(reaches(&topology, &SINK.v4.to_string()));
        let log = router.log();
        assert!(log.contains("workers forward all packets: [power] policy"), "{log}");
        assert_eq!(router.stop().unwrap().xdp_forwarded, 0);
    });
}

/// Without the capability to trace, frames that interfaces refuse could not be counted.
#[test]
fn without_the_right_to_count_losses_workers_forward() {
    quiet_with(&["setpriv"], "without_the_right_to_count_losses_workers_forward", || {
        let topology = Topology::build(Options::default()).unwrap();
        set_gro(&topology, "on");
        let folder = tempfile::tempdir().unwrap();
        let restricted = folder.path().join("restricted");
        let script = format!(
            "#!/bin/sh\nexec setpriv --bounding-set=-perfmon,-sys_admin {} \"$@\"\n",
            binary().display()
        );
        std::fs::write(&restricted, script).unwrap();
        std::fs::set_permissions(&restricted, PermissionsExt::from_mode(0o755)).unwrap();
        let router = Wattline::start_with(&topology, &restricted, auto).unwrap();
        assert!(reaches(&topology, &SINK.v4.to_string()));
        let log = router.log();
        assert!(
            log.contains("workers forward all packets") && log.contains("CAP_PERFMON"),
            "{log}"
        );
        let totals = router.stop().unwrap();
        assert!(totals.balance() && totals.forwarded > 0, "{totals:?}");
        assert_eq!(totals.xdp_forwarded, 0);

        let on = |socket: &Path| configuration(Mode::XdpForward, 1, socket);
        let error = Wattline::start_with(&topology, &restricted, on).unwrap_err().to_string();
        assert!(error.contains("CAP_PERFMON"), "{error}");
    });
}

/// A route of the configuration takes effect at once, and workers forward while there is one.
#[test]
fn a_route_of_the_configuration_hands_over_to_workers() {
    let test = "a_route_of_the_configuration_hands_over_to_workers";
    privileged(test, || {
        let topology = Topology::build(static_neighbours()).unwrap();
        set_gro(&topology, "on");
        let router = Wattline::start_with(&topology, binary(), auto).unwrap();
        let load = Load { rate_pps: 5_000.0, duration: LIMIT, flows: 16 };
        let probe = Probe::start(&topology, &load).unwrap();
        until(&router, true);
        let file = router.config();
        let plain = std::fs::read_to_string(&file).unwrap();
        let reload = |text: &str| {
            std::fs::write(&file, text).unwrap();
            router.ask(&["reload"]).unwrap()
        };
        reload(&format!("{plain}\n[[route]]\nprefix = \"203.0.113.0/24\"\nkind = \"blackhole\"\n"));
        until(&router, false);
        reload(&plain);
        until(&router, true);
        let outcome = probe.stop().unwrap();
        assert_eq!(outcome.lost_packets, outcome.receiver_overflow_packets, "{outcome:?}");
        assert!(router.stop().unwrap().balance());
    });
}

/// Runs `lose_napi` while the sink's end of the wire is down, when its driver clears nothing: the
/// kernel still reports that the router's end takes XDP frames, but refuses each.
fn while_down(topology: &Topology, lose_napi: impl FnOnce()) {
    topology.sink.ip("link set uplink down").unwrap();
    lose_napi();
    topology.sink.ip("link set uplink up").unwrap();
    // Went with the link.
    topology.sink.ip(&format!("route replace default via {}", RIGHT.v4)).unwrap();
}

/// Sends `count` pings, ten in a second. Returns the number of answers.
fn answered(topology: &Topology, count: u32) -> u32 {
    let mut ping = topology.source.command("ping");
    ping.args(["-n", "-c", &count.to_string(), "-i", "0.1", "-W", "1", &SINK.v4.to_string()]);
    let output = command::run_to_end(&mut ping, LIMIT, "").unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (_, rest) = text.split_once("packets transmitted, ").unwrap();
    rest.split_whitespace().next().unwrap().parse().unwrap()
}

fn set_gro_of_sink(topology: &Topology, state: &str) {
    topology.sink.run("ethtool", &["-K", "uplink", "gro", state], LIMIT).unwrap();
}

/// Pings go through the router although its interface towards the sink refuses XDP frames, and
/// statistics say so.
fn workers_take_over(topology: &Topology, router: &Wattline) {
    // As long as the link counts as down, workers send there anyway.
    std::thread::sleep(Duration::from_secs(3));
    let refused = || router.stats().unwrap()["dropped"]["xdp-refused"].as_u64().unwrap_or_default();
    let before = refused();
    let answered = answered(topology, 50);
    // Long enough for some trials, which may each lose a batch of the driver.
    let trials = refused() - before;
    println!("{answered} of 50 pings answered, {trials} frames refused, {before} before");
    assert!(answered >= 46, "{answered} of 50 pings answered");
    assert!(trials <= 4 * 16, "{trials} frames refused");
    let right = &router.stats().unwrap()["ports"][1];
    let why = right["xdp_closed_because"].as_str().unwrap_or_default();
    assert!(why.contains("refuse") && why.contains("ENXIO"), "{right}");
    let shown = router.ask(&["stats"]).unwrap();
    assert!(shown.contains("by workers: it refuse"), "{shown}");
}

/// An interface that refuses every frame, whatever the kernel reports, is left to workers at once,
/// retried now and then, and used by XDP programs again once it takes frames.
#[test]
fn a_port_that_refuses_every_frame_is_left_to_workers() {
    privileged_with(&["ping"], "a_port_that_refuses_every_frame_is_left_to_workers", || {
        let topology = Topology::build(static_neighbours()).unwrap();
        set_gro(&topology, "on");
        let router = Wattline::start_with(&topology, binary(), auto).unwrap();
        // Longer than all of this takes on a busy machine.
        let load = Load { rate_pps: 2_000.0, duration: 10 * LIMIT, flows: 16 };
        let probe = Probe::start(&topology, &load).unwrap();
        until(&router, true);
        while_down(&topology, || set_gro_of_sink(&topology, "off"));
        workers_take_over(&topology, &router);
        set_gro_of_sink(&topology, "on");
        until(&router, true);
        let reported = |log: &str| log.lines().filter(|line| line.contains("refuse")).count();
        let log = router.log();
        assert_eq!(reported(&log), 1, "{log}");

        // NAPI by an XDP program, which is taken off.
        let program = topology.sink.enter(|| PassAll::attach(interface_index("uplink").unwrap()));
        let program = program.unwrap().unwrap();
        set_gro_of_sink(&topology, "off");
        until(&router, true);
        while_down(&topology, || drop(program));
        std::thread::sleep(Duration::from_secs(3));
        let answered = answered(&topology, 50);
        println!("without the program: {answered} of 50 pings answered");
        assert!(answered >= 46, "{answered} of 50 pings answered");
        set_gro_of_sink(&topology, "on");
        until(&router, true);
        let log = router.log();
        assert!(reported(&log) <= 2, "{log}");
        drop(probe);
        let totals = router.stop().unwrap();
        assert!(totals.balance(), "{totals:?}");
        println!("{totals:?}\n{log}");
    });
}

/// Processor seconds of a thread so far.
fn seconds(thread: &Path) -> f64 {
    let text = std::fs::read_to_string(thread.join("schedstat")).unwrap_or_default();
    text.split(' ').next().and_then(|nanos| nanos.parse::<f64>().ok()).unwrap_or(0.0) * 1e-9
}

/// The folders of threads below `/proc`.
fn threads(folder: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path());
    entries.filter(|path| path.join("schedstat").is_file()).collect()
}

/// The kernel's thread that receives for an interface with this name.
fn receiver(interface: &str) -> PathBuf {
    let name = format!("napi/{interface}-");
    let receives = |thread: &PathBuf| {
        std::fs::read_to_string(thread.join("comm")).is_ok_and(|comm| comm.starts_with(&name))
    };
    threads("/proc").into_iter().rfind(receives).unwrap()
}

/// Gives a thread real-time priority on this CPU alone. Otherwise packets would be lost while it
/// waits, and the cost of making them would be shared by few.
fn precede(thread: &str, cpu: &str, priority: &str) {
    for (program, arguments) in [("taskset", ["-pc", cpu]), ("chrt", ["-fp", priority])] {
        let mut set = Command::new(program);
        command::run(set.args(arguments).arg(thread), LIMIT).unwrap();
    }
}

/// Processor time of a packet at full load, in nanoseconds: of the kernel's thread that receives, and of
/// the router's own.
fn nanos_per_packet(topology: &Topology, program: &Path, power: &str) -> [f64; 2] {
    let running = XDP.start_with(topology, program, power).unwrap();
    let router = running.wattline.as_ref().unwrap();
    let own = threads(&format!("/proc/{}/task", router.pid()));
    let (receiver, sink) = (receiver(LEFT.interface), receiver(SINK.interface));
    let ended = AtomicBool::new(false);
    for (thread, cpu, priority) in [(&receiver, "1", "2"), (&sink, "0", "3")] {
        precede(thread.file_name().unwrap().to_str().unwrap(), cpu, priority);
    }
    let send = || {
        precede(&rustix::thread::gettid().as_raw_nonzero().to_string(), "0", "1");
        let out = interface_index(SOURCE.interface).unwrap();
        let generator = LiveGenerator::new(out, &frame(), None).unwrap();
        while !ended.load(Ordering::Relaxed) {
            generator.send(1 << 18).unwrap();
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| topology.source.enter(send).unwrap());
        let used = || {
            let own: f64 = own.iter().map(|thread| seconds(thread)).sum();
            let stats = router.stats().unwrap();
            let packets = stats["xdp_forwarded"].as_u64().unwrap();
            (own, seconds(&receiver), packets, stats["power"]["decisions"].as_u64().unwrap_or(0))
        };
        std::thread::sleep(Duration::from_millis(300));
        let before = used();
        std::thread::sleep(Duration::from_secs(1));
        let after = used();
        ended.store(true, Ordering::Relaxed);
        let packets = (after.2 - before.2) as f64;
        println!("{packets} packets, {} decisions", after.3 - before.3);
        [after.1 - before.1, after.0 - before.0].map(|seconds| 1e9 * seconds / packets)
    })
}

/// Prints the cost of the default policy. Frequencies are files, so the policy decides a dozen or
/// two times a second at full load. The cost of receiving and of all threads may grow only within
/// the noise of a busy machine.
#[test]
#[ignore = "a minute of two processors; `make test-long` runs it"]
fn xdp_programs_receive_as_fast_under_the_default_policy() {
    let test = "xdp_programs_receive_as_fast_under_the_default_policy";
    if !Path::new(CPUFREQ).is_dir() {
        return wattline_needs::machine("a folder for frequencies");
    }
    alone(test, || {
        let machine = tempfile::tempdir().unwrap();
        write_policy(machine.path());
        let program = Program::with_frequencies(machine.path(), false);
        let topology = Topology::build(static_neighbours()).unwrap();
        // Each receiver has its own kernel thread: the sink's work does not count for the router.
        for (namespace, station) in [(&topology.router, LEFT), (&topology.sink, SINK)] {
            let line = format!(
                "ethtool -K {0} gro on; echo 1 > /sys/class/net/{0}/threaded",
                station.interface
            );
            namespace.run("sh", &["-c", &line], LIMIT).unwrap();
        }
        let mut costs = [const { [Vec::new(), Vec::new()] }; 2];
        for turn in 0..20 {
            // Each of a pair comes first equally often.
            let governed = [false, true, true, false][turn % 4];
            let power = if governed { "\n[power]\nplatform = \"host\"\n" } else { "" };
            let nanos = nanos_per_packet(&topology, &program.path(), power);
            let of = &mut costs[usize::from(governed)];
            of.iter_mut().zip(nanos).for_each(|(costs, nanos)| costs.push(nanos));
        }
        let medians = costs.map(|of| {
            of.map(|mut costs| {
                costs.sort_by(f64::total_cmp);
                println!("{costs:.0?}");
                costs[costs.len() / 2]
            })
        });
        let more = |part: fn([f64; 2]) -> f64| part(medians[1]) / part(medians[0]) - 1.0;
        let (receives, all) =
            (more(|[receiver, _]| receiver), more(|[receiver, own]| receiver + own));
        println!(
            "{medians:.1?} ns a packet: {receives:+.3} to receive, {all:+.3} with own threads"
        );
        assert!(receives <= 0.1 && all <= 0.1, "{receives} {all}");
    });
}
