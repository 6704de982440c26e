//! Functions of the kernel besides routing are not bypassed, whether they appear and go while
//! traffic flows or are there at the start.

use crate::faults::ping_once;
use crate::harness::{ADAPTIVE, Bench, KERNEL, XDP, binary, has, quiet, quiet_with};
use serde_json::Value;
use std::net::UdpSocket;
use std::time::{Duration, Instant};
use wattline_testbed::command;
use wattline_testbed::forwarder::{Forwarder, Mode, Wattline, configuration};
use wattline_testbed::topology::{Options, RIGHT, SINK, SOURCE, Topology};

const LIMIT: Duration = Duration::from_secs(60);

quietly_with_every_kind_of_forwarder!(
    rules_that_come_and_go_are_honoured,
    filter_of_the_page_takes_its_own_packets_alone,
    set_of_prefixes_behind_a_policy_to_drop_is_followed,
    features_that_appear_are_noticed_and_decide,
    nothing_is_forwarded_from_local_routes,
    forwarding_that_is_switched_off_stops_and_is_reported
);

fn passes(topology: &Topology) -> bool {
    ping_once(topology, &SINK.v4.to_string())
}

fn stats(bench: &Bench) -> Option<Value> {
    let wattline = bench.running.wattline.as_ref()?;
    Some(wattline.stats().unwrap_or_else(|error| panic!("{error}\n{}", wattline.log())))
}

#[track_caller]
fn until(bench: &Bench, what: &str, met: impl Fn() -> bool) {
    let log = || bench.running.wattline.as_ref().map(|it| it.log()).unwrap_or_default();
    let reason = || format!("never: {what}: {:?}\n{}", stats(bench), log());
    wattline_needs::until_or(met, reason);
}

fn in_router(topology: &Topology, program: &str, arguments: &str) -> bool {
    let arguments: Vec<&str> = arguments.split_whitespace().collect();
    topology.router.run(program, &arguments, LIMIT).is_ok()
}

/// Both ports are in a state.
fn are(bench: &Bench, state: &str) -> bool {
    stats(bench).is_none_or(|stats| (0..2).all(|port| stats["ports"][port]["state"] == state))
}

fn rules_that_come_and_go_are_honoured(forwarder: Forwarder) {
    let test = "rules_that_come_and_go_are_honoured";
    if !has("ping", test) {
        return;
    }
    let bench = Bench::start(Options::default(), forwarder);
    let topology = &bench.topology;
    until(&bench, "a ping", || passes(topology));
    let mut bans = vec![(
        // A rule with `not` concerns unknown prefixes.
        "ip rule add not from 10.99.0.0/16 prohibit pref 10".to_owned(),
        "ip rule del pref 10".to_owned(),
        "policy routing",
    )];
    topology.router.ip("route add prohibit default table default").unwrap();
    bans.push((
        "ip rule add lookup default pref 100".to_owned(),
        "ip rule del pref 100".to_owned(),
        "order local, default, main",
    ));
    if has("nft", test) {
        topology.router.run("nft", &["add", "table", "ip", "t"], LIMIT).unwrap();
        let chain = "add chain ip t c { type filter hook forward priority 0 ; }";
        assert!(in_router(topology, "nft", chain));
        assert!(are(&bench, "up"), "a chain without rules does nothing");
        // The packets that it concerns are unknown.
        let rule = "nft add rule ip t c ip saddr != 10.99.0.0/16 drop".to_owned();
        bans.push((rule, "nft delete table ip t".to_owned(), "nftables"));
    }
    for (ban, lift, said) in bans {
        let split = |line: &str| line.split_once(' ').map(|(a, b)| (a.to_owned(), b.to_owned()));
        let ((program, ban), (_, lift)) = (split(&ban).unwrap(), split(&lift).unwrap());
        assert!(in_router(topology, &program, &ban));
        until(&bench, "the ban holds", || !passes(topology));
        until(&bench, "ports are left to the kernel", || {
            forwarder == KERNEL || are(&bench, "left")
        });
        if let Some(stats) = stats(&bench) {
            let reason = stats["ports"][1]["reason"].as_str().unwrap_or_default();
            assert!(reason.contains(said), "{stats}");
            assert_eq!(stats["takeover"]["choice"], "narrow");
            assert!(stats["takeover"]["passed_by"][0].as_str().unwrap().contains(said), "{stats}");
        }
        assert!(!passes(topology), "it holds");
        assert!(in_router(topology, &program, &lift));
        until(&bench, "the end of the ban", || are(&bench, "up") && passes(topology));
        let sent = || stats(&bench).map(|it| it["ports"][1]["transmitted_packets"].as_u64());
        let before = sent();
        // By Wattline again, where there is one.
        until(&bench, "a ping by the port", || {
            passes(topology) && (before.is_none() || sent() > before)
        });
    }
    bench.finish();
}

/// Each row has a command that makes the kernel stop a ping, one that ends that, and a word of the
/// reason.
fn features_that_appear_are_noticed_and_decide(forwarder: Forwarder) {
    let test = "features_that_appear_are_noticed_and_decide";
    if !has("ping", test) || !has("tc", test) {
        return;
    }
    let bench = Bench::start(Options::default(), forwarder);
    let topology = &bench.topology;
    let run = |line: &str| {
        let (program, arguments) = line.split_once(' ').unwrap();
        in_router(topology, program, arguments)
    };
    until(&bench, "a ping", || passes(topology));
    for (feature, end, said) in [
        (
            "ip xfrm policy setdefault fwd block",
            "ip xfrm policy setdefault fwd accept",
            "fwd block",
        ),
        (
            "ip xfrm policy setdefault out block",
            "ip xfrm policy setdefault out accept",
            "out block",
        ),
        ("ip rule add uidrange 0-999 blackhole pref 9", "ip rule del pref 9", "uidrange 0-999"),
        ("ip rule add not oif nowhere prohibit pref 9", "ip rule del pref 9", "not from all"),
        ("ip rule add not uidrange 5-9 prohibit pref 9", "ip rule del pref 9", "uidrange 5-9"),
        ("ip rule add dscp 0 prohibit pref 9", "ip rule del pref 9", "dscp"),
        ("ip rule add fwmark 0/0xff prohibit pref 9", "ip rule del pref 9", "fwmask"),
        (
            "iptables-legacy -P FORWARD DROP",
            "iptables-legacy -P FORWARD ACCEPT",
            "policy of FORWARD",
        ),
        (
            "iptables-legacy -t mangle -P POSTROUTING DROP",
            "iptables-legacy -t mangle -P POSTROUTING ACCEPT",
            "policy of POSTROUTING",
        ),
        ("tc qdisc add dev right root pfifo limit 0", "tc qdisc del dev right root", "limit 0"),
        ("tc qdisc add dev right root bfifo limit 10", "tc qdisc del dev right root", "limit 10"),
    ] {
        // Older kernels and tools lack some.
        if !run(feature) {
            eprintln!("left out: {feature}");
            continue;
        }
        until(&bench, feature, || !passes(topology));
        until(&bench, "the reason", || {
            stats(&bench).is_none_or(|it| it["takeover"]["passed_by"].to_string().contains(said))
        });
        assert!(!passes(topology), "{feature}");
        assert!(run(end), "{end}");
        until(&bench, "the end of it", || are(&bench, "up") && passes(topology));
    }
    let sent = || stats(&bench).map(|it| it["ports"][1]["transmitted_packets"].as_u64());
    let before = sent();
    until(&bench, "a ping by Wattline", || {
        passes(topology) && (before.is_none() || sent() > before)
    });
    bench.finish();
}

/// The filter that the page on firewalls shows.
fn filter_of_the_page_takes_its_own_packets_alone(forwarder: Forwarder) {
    let test = "filter_of_the_page_takes_its_own_packets_alone";
    if !has("ping", test) || !has("nft", test) {
        return;
    }
    let page = include_str!("../../docs/how-to/route-beside-a-firewall.md");
    let lines = page.lines().skip_while(|line| !line.contains("table inet edge {"));
    let lines: Vec<&str> =
        lines.take_while(|line| line.starts_with("    ") && *line != "    END").collect();
    assert_eq!(lines.len(), 8, "{lines:?}");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("edge.nft");
    std::fs::write(&file, lines.join("\n").replace("eth2", "left")).unwrap();

    let bench = with_another_source(forwarder);
    let topology = &bench.topology;
    let pings_from = |address: &str| pings_from(topology, address);
    assert!(in_router(topology, "nft", &format!("-f {}", file.display())));
    until(&bench, "the filter holds", || !pings_from("10.7.0.1"));
    let reason = |port: usize| {
        stats(&bench).map(|it| it["ports"][port]["reason"].as_str().unwrap_or("").to_owned())
    };
    until(&bench, "a reason", || reason(0).is_none_or(|it| it.contains("10.0.0.0/8")));
    assert_eq!(reason(1).unwrap_or_default(), "", "no rule is for what comes in there");
    assert!(are(&bench, "up"), "{:?}", stats(&bench));
    let sent = || stats(&bench).map(|it| it["ports"][1]["transmitted_packets"].as_u64());
    let before = sent();
    until(&bench, "a ping by Wattline", || {
        passes(topology) && (before.is_none() || sent() > before)
    });
    assert!(!pings_from("10.7.0.1"), "it holds");
    bench.finish();
}

/// Starts a bench whose source has 10.7.0.1 as well.
fn with_another_source(forwarder: Forwarder) -> Bench {
    let bench = Bench::start(Options::default(), forwarder);
    let topology = &bench.topology;
    topology.source.run("ip", &["addr", "add", "10.7.0.1/32", "dev", "lo"], LIMIT).unwrap();
    let back = ["route", "add", "10.7.0.0/16", "via", &SOURCE.v4.to_string()];
    topology.router.run("ip", &back, LIMIT).unwrap();
    until(&bench, "pings", || passes(topology) && pings_from(topology, "10.7.0.1"));
    bench
}

fn pings_from(topology: &Topology, address: &str) -> bool {
    let mut ping = topology.source.command("ping");
    ping.args(["-n", "-c", "1", "-W", "1", "-I", address, &SINK.v4.to_string()]);
    command::run_to_end(&mut ping, LIMIT, "").unwrap().status.success()
}

/// The set has 500 prefixes, and changes while packets flow.
fn set_of_prefixes_behind_a_policy_to_drop_is_followed(forwarder: Forwarder) {
    let test = "set_of_prefixes_behind_a_policy_to_drop_is_followed";
    if !has("ping", test) || !has("nft", test) {
        return;
    }
    let prefix = |number: u32| format!("100.{}.{}.0/24", number / 125, number % 125 * 2);
    let prefixes: Vec<String> = (0..500).map(prefix).collect();
    let rules = format!(
        "table inet t {{
            set banned {{ type ipv4_addr; flags interval; elements = {{ {} }}; }}
            chain forward {{
                type filter hook forward priority filter; policy drop;
                ip saddr @banned drop
                iifname \"wan*\" counter
                iifname {{ \"left\", \"right\" }} accept
            }}
        }}",
        prefixes.join(", ")
    );
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("banned.nft");
    std::fs::write(&file, rules).unwrap();

    let bench = with_another_source(forwarder);
    let topology = &bench.topology;
    assert!(in_router(topology, "nft", &format!("-f {}", file.display())));
    let left = |stats: &Value| stats["ports"][0]["reason"].as_str().unwrap_or("").to_owned();
    let rest = "and 495 more prefixes: nftables";
    until(&bench, "the set is read", || stats(&bench).is_none_or(|it| left(&it).contains(rest)));
    let sent = || stats(&bench).map(|it| it["ports"][1]["transmitted_packets"].as_u64());
    for _ in 0..3 {
        let before = sent();
        until(&bench, "a ping by Wattline", || {
            pings_from(topology, "10.7.0.1") && (before.is_none() || sent() > before)
        });
        assert!(are(&bench, "up"), "{:?}", stats(&bench));
        assert!(in_router(topology, "nft", "add element inet t banned { 10.7.0.0/16 }"));
        until(&bench, "the ban holds", || !pings_from(topology, "10.7.0.1"));
        assert!(passes(topology), "{:?}", stats(&bench));
        assert!(!pings_from(topology, "10.7.0.1"), "it holds");
        assert!(in_router(topology, "nft", "delete element inet t banned { 10.7.0.0/16 }"));
    }
    bench.finish();
}

/// The kernel drops packets whose source matches a local route that a user added. With such a
/// route, or with any rule, it also drops packets from the broadcast address of another port
/// (`fib_validate_source`).
fn nothing_is_forwarded_from_local_routes(forwarder: Forwarder) {
    let bench = Bench::start(Options::default(), forwarder);
    let topology = &bench.topology;
    let local = ["10.9.8.7", "10.8.0.1"];
    let [a, b, c, _] = RIGHT.v4.octets();
    let shared = format!("{a}.{b}.{c}.255");
    for address in local.into_iter().chain([shared.as_str()]) {
        topology.source.ip(&format!("address add {address}/32 dev lo")).unwrap();
    }
    let sink = topology.sink.enter(|| UdpSocket::bind((SINK.v4, 0)).unwrap()).unwrap();
    sink.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let arrives = |from: &str| {
        let socket = topology.source.enter(|| UdpSocket::bind((from, 0)).unwrap()).unwrap();
        socket.send_to(b"a", sink.local_addr().unwrap()).unwrap();
        let expected = socket.local_addr().unwrap();
        let mut one = [0; 1];
        std::iter::from_fn(|| sink.recv_from(&mut one).ok()).any(|(_, from)| from == expected)
    };
    let other = SOURCE.v4.to_string();
    let all = || local.into_iter().chain([shared.as_str(), other.as_str()]);
    until(&bench, "all arrive", || all().all(&arrives));
    for (change, stops) in [
        ("route add local 10.9.0.0/16 dev lo", local[0]),
        ("route add local 10.8.0.1 dev lo", local[1]),
        ("route add broadcast 10.8.0.0/24 dev lo table main", local[1]),
    ] {
        topology.router.ip(change).unwrap();
        until(&bench, change, || !arrives(stops) && !arrives(&shared));
        assert!(all().filter(|from| ![stops, &shared].contains(from)).all(&arrives), "{change}");
        assert!(are(&bench, "up"), "{:?}", stats(&bench));
        topology.router.ip(&change.replace("add", "del")).unwrap();
        until(&bench, "its packets are forwarded again", || arrives(stops));
        assert!(!arrives(&shared), "the kernel does not forget that there was one");
    }
    bench.finish();
}

fn forwarding_that_is_switched_off_stops_and_is_reported(forwarder: Forwarder) {
    if !has("ping", "forwarding_that_is_switched_off_stops_and_is_reported") {
        return;
    }
    let bench = Bench::start(Options::default(), forwarder);
    let topology = &bench.topology;
    let (v4, v6) = (SINK.v4.to_string(), SINK.v6.to_string());
    until(&bench, "pings", || ping_once(topology, &v4) && ping_once(topology, &v6));
    // The setting, the address that it makes unreachable, and the other address.
    for (setting, stops, goes_on) in [
        ("ipv4/conf/left/forwarding", &v4, &v6),
        // The direction of answers.
        ("ipv4/conf/right/forwarding", &v4, &v6),
        ("ipv4/ip_forward", &v4, &v6),
        ("ipv6/conf/all/forwarding", &v6, &v4),
    ] {
        topology.router.sysctl(&[(setting, "0")]).unwrap();
        let switched = Instant::now();
        until(&bench, setting, || !ping_once(topology, stops));
        println!("{forwarder:?}: {setting} acted within {:?}", switched.elapsed());
        let family = if *stops == v4 { "IPv4 is not forwarded" } else { "IPv6 is not forwarded" };
        until(&bench, "a reason", || {
            stats(&bench).is_none_or(|stats| {
                let reason = |port: usize| stats["ports"][port]["reason"].as_str().unwrap_or("");
                reason(0).contains(family) || reason(1).contains(family)
            })
        });
        assert!(are(&bench, "up"), "{:?}", stats(&bench));
        assert!(!ping_once(topology, stops), "{setting}");
        assert!(ping_once(topology, goes_on), "{setting} stops the other family");
        topology.router.sysctl(&[(setting, "1")]).unwrap();
        until(&bench, "forwarding again", || ping_once(topology, stops));
    }
    bench.finish();
}

/// A configuration with this choice.
fn choosing(choice: &str, mode: Mode) -> impl FnOnce(&std::path::Path) -> String {
    let choice = format!("[router]\ntakeover = \"{choice}\"\n");
    move |socket| configuration(mode, 1, socket).replace("[router]\n", &choice)
}

#[test]
fn renamed_port_is_left_and_taken_back() {
    quiet("renamed_port_is_left_and_taken_back", || {
        let topology = Topology::build(Options::default()).unwrap();
        assert!(in_router(&topology, "ip", "rule add from 10.9.0.0/16 prohibit pref 10"));
        let narrow = choosing("narrow", Mode::Adaptive);
        let router = Wattline::start_with(&topology, binary(), narrow).unwrap();
        let until_shown = |state: &str, words: &[&str]| {
            let shown = || {
                let port = &router.stats().unwrap()["ports"][1];
                let reason = port["reason"].as_str().unwrap_or_default();
                port["state"] == state && words.iter().all(|it| reason.contains(it))
            };
            wattline_needs::until_or(shown, || router.stats().unwrap());
        };
        until_shown("up", &["10.9.0.0/16"]);
        let renamed = "link set right down\nlink set right name east\nlink set east up";
        topology.router.ip(renamed).unwrap();
        until_shown("up", &["is called east now", "10.9.0.0/16"]);
        let shaper = "qdisc add dev east root tbf rate 1gbit burst 1mb latency 50ms";
        assert!(in_router(&topology, "tc", shaper));
        until_shown("left", &["tbf"]);
        assert!(in_router(&topology, "tc", "qdisc del dev east root"));
        until_shown("up", &["is called east now", "10.9.0.0/16"]);
    });
}

#[test]
fn configuration_decides_about_ports_with_rules() {
    quiet_with(&["ping"], "configuration_decides_about_ports_with_rules", || {
        let topology = Topology::build(Options::default()).unwrap();
        // A shaper on one port, and a rule for both.
        assert!(in_router(
            &topology,
            "tc",
            "qdisc add dev right root tbf rate 1gbit burst 1mb latency 50ms"
        ));
        for forwarder in [ADAPTIVE, XDP] {
            let Forwarder::Wattline { mode, .. } = forwarder else { unreachable!() };
            let narrow =
                Wattline::start_with(&topology, binary(), choosing("narrow", mode)).unwrap();
            wattline_needs::until_or(|| passes(&topology), || narrow.log());
            let stats = narrow.stats().unwrap();
            assert_eq!(stats["ports"][0]["state"], "up", "{stats}");
            assert_eq!(stats["ports"][1]["state"], "left", "{stats}");
            assert!(stats["ports"][1]["reason"].as_str().unwrap().contains("tbf"), "{stats}");
            // The log has no mode for a port that is left.
            let log = narrow.log();
            assert!(
                log.contains("port left: af_xdp") && !log.contains("port right: af_xdp"),
                "{log}"
            );
            drop(narrow);
        }
        let rule = format!("rule add from {}/32 prohibit pref 10", SOURCE.v4);
        assert!(in_router(&topology, "ip", &rule));
        let strict = Wattline::start_with(&topology, binary(), choosing("strict", Mode::Adaptive));
        let refusal = strict.unwrap_err().to_string();
        for word in ["tbf", "prohibit", "takeover", "exit status: 69"] {
            assert!(refusal.contains(word), "{word}: {refusal}");
        }
        // Nothing was taken over, so there is nothing that the kernel forwards in its place.
        assert!(!refusal.contains("the kernel forwards"), "reported before the refusal: {refusal}");
        assert!(!passes(&topology), "by the kernel");
        let force =
            Wattline::start_with(&topology, binary(), choosing("force", Mode::Adaptive)).unwrap();
        wattline_needs::until_or(|| passes(&topology), || force.log());
        let log = force.log();
        assert!(log.contains("prohibit") && log.contains("forwards packets without it"), "{log}");

        // The same by a reload: its answer has the new state of the ports, and the log names the
        // treatment of rules each time.
        let reload = |choice: &str| {
            let text = choosing(choice, Mode::Adaptive)(&force.socket());
            std::fs::write(force.config(), text).unwrap();
            let report = force.ask(&["reload", "--json"]).unwrap();
            serde_json::from_str::<Value>(&report).unwrap()["not_as_configured"].clone()
        };
        let lines = |words: &str| force.log().matches(words).count();
        let (by_kernel, passed_by) =
            ("the kernel forwards the packets", "forwards packets without");
        // Repeated, because the kernel may not have released the previous sockets yet.
        for _ in 0..20 {
            let before = (lines(by_kernel), lines(passed_by));
            let left = reload("narrow").to_string();
            assert!(left.contains("right: left: traffic control"), "{left}");
            // The log has a thread of its own, which may write after the answer.
            wattline_needs::until_or(|| lines(by_kernel) > before.0, || force.log());
            assert_eq!(reload("force"), serde_json::json!([]), "{}", force.log());
            wattline_needs::until_or(|| lines(passed_by) > before.1, || force.log());
        }
        assert!(passes(&topology), "{}", force.log());
    });
}
