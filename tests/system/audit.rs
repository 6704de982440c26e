//! The router's decisions compared with the kernel's: on demand, and while everything changes.

use crate::harness::{Bench, Dice, XDP, binary, number_from_environment, quiet, quiet_with};
use crate::multipath::{OTHER, SECOND};
use serde_json::Value;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use wattline_testbed::command;
use wattline_testbed::forwarder::{Mode, Wattline, configuration};
use wattline_testbed::topology::{Options, SINK, Topology, connect};

const LIMIT: Duration = Duration::from_secs(60);

/// Makes the sockets by which a process follows routes drop messages about new routes.
const DEAFEN: &str = r#"
import ctypes, os, socket, struct, sys
process = int(sys.argv[1])
code = [(0x28, 0, 0, 4), (0x15, 0, 2, 0x1800), (0x28, 0, 0, 6), (0x45, 0, 1, 0x0200),
        (0x06, 0, 0, 0xffffffff), (0x06, 0, 0, 0)]
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in code))
program = struct.pack("HxxxxxxP", 6, ctypes.addressof(code))
libc = ctypes.CDLL(None, use_errno=True)
handle, count = os.pidfd_open(process), 0
for name in os.listdir(f"/proc/{process}/fd"):
    try:
        if not os.readlink(f"/proc/{process}/fd/{name}").startswith("socket:"):
            continue
    except OSError:
        continue
    file = libc.syscall(438, handle, int(name), 0)
    if file < 0:
        continue
    try:
        held = socket.socket(fileno=file)
    except OSError:
        # AF_XDP knows no address of its own.
        os.close(file)
        continue
    if held.family == socket.AF_NETLINK and held.getsockname()[1] & 0x40:
        held.setsockopt(socket.SOL_SOCKET, 26, program)
        count += 1
print(count)
"#;

/// A router between source and sink, with two links to the sink.
fn topology() -> Topology {
    let topology = Topology::build(Options::default()).unwrap();
    connect(&topology.router, OTHER, &topology.sink, SECOND, 1500, 1).unwrap();
    topology
}

const PORT: &str = "\n[[port]]\nname = \"other\"\ninterface = \"other\"\n";

/// Starts a router that compares so many addresses a second.
fn start(topology: &Topology, rate: u32) -> Wattline {
    Wattline::start_with(topology, binary(), |socket| {
        let text = configuration(Mode::Adaptive, 1, socket) + PORT;
        text.replacen("[router]\n", &format!("[router]\naudit = {rate}\n"), 1)
    })
    .unwrap_or_else(|error| panic!("{error}"))
}

fn audit(router: &Wattline, arguments: &[&str]) -> Output {
    let mut command = router.command(&["audit"]);
    command::run_to_end(command.args(arguments), LIMIT, "").unwrap()
}

fn document(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// Waits until the router has so many routes to a prefix.
fn until_known(router: &Wattline, prefix: &str, gateway: &str) {
    let shown = || router.ask(&["show", "routes", prefix, "--json"]).unwrap();
    let reason = || format!("{prefix} via {gateway}: {}", shown());
    wattline_needs::until_or(|| shown().contains(gateway), reason);
}

#[test]
fn audit_on_demand_finds_a_missed_change_and_nothing_else() {
    quiet_with(&["python3"], "audit_on_demand_finds_a_missed_change_and_nothing_else", || {
        let topology = topology();
        let (sink, second) = (SINK.v4.to_string(), SECOND.v4.to_string());
        let lines = format!(
            "route add 203.0.113.0/25 via {sink}\nroute add 203.0.113.128/25 via {sink}\n\
             route add 192.0.2.0/24 nexthop via {sink} weight 3 nexthop via {second}\n\
             route add blackhole 192.0.2.64/26\nroute add prohibit 192.0.2.128/26\n\
             route add 2001:db8:7::/64 nexthop via {} nexthop via {}\n",
            SINK.v6, SECOND.v6
        );
        topology.router.ip(&lines).unwrap();
        let router = start(&topology, 0);
        until_known(&router, "2001:db8:7::/64", &SECOND.v6.to_string());

        let output = audit(&router, &["--all", "--json"]);
        let report = document(&output);
        assert_eq!(output.status.code(), Some(0), "{report}");
        assert_eq!(report["total"], 0, "{report}");
        assert!(report["compared"].as_u64().unwrap() > 20, "{report}");
        let output = audit(&router, &["2001:db8:7::1"]);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert_eq!(audit(&router, &[]).status.code(), Some(2), "all or a prefix");

        let process = router.pid().to_string();
        let deaf = command::run(Command::new("python3").args(["-c", DEAFEN, &process]), LIMIT);
        assert!(deaf.unwrap().trim().parse::<u32>().unwrap() > 0);
        let replaced = |prefix: &str| {
            topology.router.ip(&format!("route replace {prefix} via {second}")).unwrap();
            std::thread::sleep(Duration::from_millis(200));
        };
        replaced("203.0.113.0/25");
        let output = audit(&router, &["203.0.113.128/25", "--json"]);
        assert_eq!(output.status.code(), Some(0), "another prefix: {output:?}");
        let output = audit(&router, &["203.0.113.0/24", "--json"]);
        let report = document(&output);
        assert_eq!(output.status.code(), Some(1), "{report}");
        assert_eq!(
            (&report["total"], report["differences"].as_array().unwrap().len()),
            (&1.into(), 1)
        );
        let found = &report["differences"][0];
        assert_eq!(found["prefix"], "203.0.113.0/25", "{found}");
        assert_eq!(found["kernel"]["next_hops"][0]["address"], second, "{found}");
        assert_eq!(found["wattline"]["next_hops"][0]["address"], sink, "{found}");
        assert!(router.log().contains("203.0.113.0/25 are left to the kernel"), "{}", router.log());
        // The tables are read again.
        until_known(&router, "203.0.113.0/25", &second);

        replaced("203.0.113.128/25");
        let output = audit(&router, &["--all"]);
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(1), "{text}");
        for expected in [
            "203.0.113.128/25: from ".to_owned(),
            format!("kernel    forward via {second} dev other"),
            format!("wattline  forward via {sink} dev right"),
        ] {
            assert!(text.contains(&expected), "{expected}: {text}");
        }
        until_known(&router, "203.0.113.128/25", &second);
        wattline_needs::until_or(
            || audit(&router, &["--all"]).status.code() == Some(0),
            || router.log(),
        );
        router.stop().unwrap();
    });
}

/// Returns the lines of a change for `ip`, or a setting as `sysctl KEY=VALUE`.
fn change(dice: &mut Dice) -> String {
    let ipv6 = dice.below(2) == 1;
    let prefix = match ipv6 {
        true => format!("2001:db8:7:{}::/{}", dice.below(8), dice.pick(&["64", "80"])),
        false => format!("203.0.113.{}/{}", 16 * dice.below(16), dice.pick(&["28", "32"])),
    };
    let one = if ipv6 { SINK.v6.to_string() } else { SINK.v4.to_string() };
    let other = if ipv6 { SECOND.v6.to_string() } else { SECOND.v4.to_string() };
    let metric = dice.pick(&["", "", " metric 10"]);
    let verb = dice.pick(&["add", "append", "replace", "replace", "change"]);
    let interface = dice.pick(&["left", "right", "other"]);
    // Mostly on, or there is little to compare.
    let on = usize::from(dice.below(5) > 0);
    match dice.below(20) {
        0..=3 => format!("route {verb} {prefix}{metric} via {}", dice.pick(&[&*one, &*other])),
        4..=5 => format!("route {verb} {prefix}{metric} nexthop via {one} nexthop via {other}"),
        6 => {
            let kind = dice.pick(&["blackhole", "unreachable", "prohibit"]);
            format!("route {verb} {kind} {prefix}{metric}")
        }
        7..=9 => format!("route del {prefix}{metric}"),
        10 => format!(
            "route {verb} {prefix}{metric} nhid {}",
            1 + dice.below(2) + 2 * u64::from(ipv6)
        ),
        11 => {
            let id = 1 + dice.below(2) + 2 * u64::from(ipv6);
            let dev = dice.pick(&["right", "other"]);
            let via = if dev == "right" { &one } else { &other };
            format!("nexthop replace id {id} via {via} dev {dev}")
        }
        12 => format!("neigh del {other} dev other\nneigh del {one} dev right"),
        13 => format!("neigh replace {other} dev other lladdr 02:57:00:00:00:32 nud reachable"),
        14 => match dice.below(4) {
            0 => "link set other down".to_owned(),
            1 => format!("addr del {}/24 dev other", OTHER.v4),
            2 => format!("addr replace {}/24 dev other", OTHER.v4),
            _ => format!("link set other up\naddr replace {}/24 dev other", OTHER.v4),
        },
        15 => "rule add pref 5 lookup main\nrule del pref 5".to_owned(),
        16 => format!("sysctl ipv4/conf/{interface}/forwarding={on}"),
        17 => {
            format!("sysctl {}={on}", dice.pick(&["ipv4/ip_forward", "ipv6/conf/all/forwarding"]))
        }
        18 => {
            let family = dice.pick(&["ipv4", "ipv6"]);
            let value = dice.below(2);
            format!("sysctl {family}/conf/{interface}/ignore_routes_with_linkdown={value}")
        }
        _ => format!("sysctl ipv4/conf/{interface}/rp_filter={}", dice.below(3)),
    }
}

/// Number of last changes that an alarm reports.
const LAST: usize = 300;

/// `WATTLINE_AUDIT_MINUTES` sets how long, `WATTLINE_AUDIT_SEED` which changes.
#[test]
#[ignore = "half an hour of changes: `make test-long`"]
fn half_an_hour_of_changes_raises_no_alarm() {
    quiet("half_an_hour_of_changes_raises_no_alarm", || {
        let bench = Bench::start_in(topology(), XDP, PORT);
        let (topology, router) = (&bench.topology, bench.router());
        let minutes = number_from_environment("WATTLINE_AUDIT_MINUTES", 30);
        let end = Instant::now() + Duration::from_secs(60 * minutes);
        let mut dice = Dice(number_from_environment("WATTLINE_AUDIT_SEED", 11));
        let (mut changes, mut audits) = (0_u64, 0_u64);
        let mut last: Vec<String> = Vec::new();
        let mut next_audit = Instant::now() + Duration::from_secs(5);
        let mut running: Option<Child> = None;
        while Instant::now() < end {
            let line = change(&mut dice);
            match line.strip_prefix("sysctl ").and_then(|setting| setting.split_once('=')) {
                Some(setting) => topology.router.sysctl(&[setting]).unwrap(),
                // Many are refused.
                None => drop(topology.router.ip(&line)),
            }
            changes += 1;
            last.push(line);
            last.drain(..last.len().saturating_sub(LAST));
            // A false alarm needs some quiet after a change.
            std::thread::sleep(Duration::from_millis(match dice.below(20) {
                0 => 2500,
                1..=3 => 400,
                _ => dice.below(40),
            }));
            // The changes go on meanwhile.
            if running.is_none() && Instant::now() > next_audit {
                let mut command = router.command(&["audit", "--all"]);
                command.stdout(Stdio::piped()).stderr(Stdio::piped());
                running = Some(command::spawn(&mut command).unwrap());
            }
            if let Some(child) = running.take_if(|it| it.try_wait().unwrap().is_some()) {
                let output = child.wait_with_output().unwrap();
                next_audit = Instant::now() + Duration::from_secs(5);
                audits += 1;
                if output.status.code() != Some(0) {
                    let shown = |family: &str| {
                        let arguments = [family, "route", "show", "table", "all"];
                        topology.router.run("ip", &arguments, LIMIT).unwrap()
                    };
                    panic!(
                        "{output:?} after {last:#?}; the kernel has {}{}, Wattline {}\n{}",
                        shown("-4"),
                        shown("-6"),
                        router.ask(&["show", "routes"]).unwrap(),
                        router.log()
                    );
                }
            }
            if changes % 100 == 0 {
                let log = router.log();
                assert!(!log.contains("audit: a packet"), "{log} after {last:#?}");
            }
        }
        if let Some(child) = running {
            assert_eq!(child.wait_with_output().unwrap().status.code(), Some(0));
        }
        let stats = router.stats().unwrap();
        let kernel = &stats["kernel"];
        println!(
            "{changes} changes, {} addresses compared in the background, {audits} audits on demand, {} differences",
            kernel["audited_addresses"], kernel["audit_mismatches"]
        );
        assert_eq!(kernel["audit_mismatches"], 0, "{}", router.log());
        assert!(kernel["audited_addresses"].as_u64().unwrap() > changes / 10, "{kernel}");
        drop(bench);
        print_cost();
    });
}

/// Prints the time of the control thread that a comparison takes.
fn print_cost() {
    let topology = topology();
    let [none, many] = [0, 1000].map(|rate| {
        let router = start(&topology, rate);
        std::thread::sleep(Duration::from_secs(3));
        let now = || (control_seconds(&router), audited(&router), Instant::now());
        let (before, compared, began) = now();
        std::thread::sleep(Duration::from_secs(10));
        let (after, compared_then, ended) = now();
        let time = (ended - began).as_secs_f64();
        router.stop().unwrap();
        ((after - before) / time, (compared_then - compared) as f64 / time)
    });
    let each = (many.0 - none.0) / many.1;
    println!(
        "{:.0} comparisons a second: {:.1} us each; {:.4} % of a core at 10 a second",
        many.1,
        each * 1e6,
        each * 10.0 * 100.0
    );
    assert!(many.1 > 100.0 && each < 1e-3, "{none:?} {many:?}");
}

fn audited(router: &Wattline) -> u64 {
    router.stats().unwrap()["kernel"]["audited_addresses"].as_u64().unwrap()
}

/// Returns the processor time of the main thread, which controls.
fn control_seconds(router: &Wattline) -> f64 {
    let process = router.pid();
    let text = std::fs::read_to_string(format!("/proc/{process}/task/{process}/schedstat"));
    let nanos: f64 = text.unwrap().split_whitespace().next().unwrap().parse().unwrap();
    nanos / 1e9
}
