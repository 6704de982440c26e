//! A router with a firewall and address translation: XDP programs forward the established flows of its
//! flowtable, and the kernel everything else.
//!
//! ```text
//!   near: p0 ── c1: Wattline, masquerade: c0 ── d0: far, without a route back
//!   10.1.0.2    10.1.0.1            10.2.0.1    10.2.0.2
//! ```

use super::ipsec::{ip, write};
use super::lag::site::{self, Router, begin, by_kernel, end};
use super::{Checks, INSIDE, Witness};
use std::path::Path;
use std::time::Duration;
use wattline_testbed::Error;
use wattline_testbed::rig::{Machine, Options, Rig};

/// Time for all checks, on a busy host.
const LIMIT: Duration = Duration::from_secs(1200);
/// Time for one exchange.
const EXCHANGE: Duration = Duration::from_secs(400);
const REFLECTOR: &str = "10.2.0.2:7000";
/// The address as which the far end sees the near one.
const TRANSLATED: &str = "10.2.0.1";
/// Flows at a time, which a process has descriptors for, and how often.
const FLOWS: u64 = 500;
const BATCHES: u64 = 20;
/// Datagrams of a flow, and the most of them that the kernel forwards: those until it is established, in
/// both directions.
const ROUNDS: u64 = 5;
const FIRST: u64 = 2;
/// Ticks a second in which /proc/stat counts.
const TICKS: f64 = 100.0;
const RULES: &str = "/tmp/rules.nft";

/// A firewall as it is found on many routers.
const FIREWALL: &str = "\
    flush ruleset\n\
    table ip router {\n\
      chain forward {\n\
        type filter hook forward priority filter; policy drop;\n\
        ct state established,related accept\n\
        iifname c1 oifname c0 accept\n\
      }\n\
      chain translate {\n\
        type nat hook postrouting priority srcnat;\n\
        oifname c0 masquerade\n\
      }\n\
    }\n";
/// Changes of the flowtable while flows run, each followed by a pause.
const CHANGES: [&str; 6] = [
    "nft flush chain ip router forward; nft -f /tmp/forward.nft",
    "nft 'delete flowtable ip router wattline { hook ingress priority filter; devices = { c1 }; }'",
    "nft 'add flowtable ip router wattline { hook ingress priority filter; devices = { c1 }; }'",
    "nft flush chain ip router forward; nft 'add rule ip router forward ct state established accept; \
     add rule ip router forward iifname c1 accept'; nft delete flowtable ip router wattline",
    "nft -f /tmp/whole.nft",
    "nft -f /tmp/whole.nft",
];

/// Boots a machine and makes all checks; `agent` is a program that sends and receives flows.
///
/// # Errors
/// When the machine fails; a check that does not hold is not an error.
pub fn nat(rig: &Rig, wattline: &Path, agent: &Path, checks: &mut Checks) -> Result<(), Error> {
    let programs = vec![("wattline", wattline.to_owned()), ("agent", agent.to_owned())];
    let options = Options { programs, nat: true, limit: Some(LIMIT), ..Options::default() };
    let mut machine = Machine::boot(rig, &options)?;
    let machine = &mut machine;
    build(machine)?;
    let router =
        Router::start_with(machine, "nat", "xdp_forward = \"on\"", [("lan", "c1"), ("wan", "c0")])?;
    router.until(machine, "left")?;
    let lines = lines_of(&router, machine)?;
    checks.equal("lines for a flowtable", Witness::Inside, &true, &lines.contains("add flowtable"));
    let (forwarded, kernel) = exchange(machine, &router, (FLOWS, ROUNDS), checks)?;
    checks.equal("by XDP without a flowtable", Witness::Inside, &0, &forwarded);
    let all = 2 * FLOWS * ROUNDS;
    checks.equal("by the kernel without one", Witness::Inside, &true, &(kernel >= all));

    machine.run(&lines, INSIDE)?;
    until_flows(&router, machine, checks)?;
    machine.run("nft list chain ip router forward > /tmp/forward.nft", INSIDE)?;
    machine.run("(echo flush ruleset; nft list ruleset) > /tmp/whole.nft", INSIDE)?;
    let (mut forwarded, mut kernel) = (0, 0);
    for _ in 0..BATCHES {
        let counted = exchange(machine, &router, (FLOWS, ROUNDS), checks)?;
        (forwarded, kernel) = (forwarded + counted.0, kernel + counted.1);
    }
    let expected = 2 * FLOWS * BATCHES * (ROUNDS - FIRST);
    let what = format!("{forwarded} packets by XDP, {kernel} by the kernel, as established");
    checks.equal(what, Witness::Inside, &true, &(forwarded >= expected));
    stream(machine, &router, checks)?;
    times_out(machine, checks)?;
    changes(machine, &router, checks)?;
    left_alone(machine, &router, checks)?;
    let status = router.stop(machine)?;
    checks.equal("exit code of the router", Witness::Inside, &0, &status);
    costs(machine, checks)?;
    let left = machine.run("/bin/ip link show | grep -c xdp || true", INSIDE)?;
    checks.equal("programs left", Witness::Inside, &"0", &left.trim());
    Ok(())
}

/// Compares rate and processor time of established flows by the kernel's chains, its flowtable and XDP
/// programs, both ends of the flows included.
fn costs(machine: &mut Machine, checks: &mut Checks) -> Result<(), Error> {
    machine.run(&format!("nft -f {RULES}"), INSIDE)?;
    let chains = cost(machine, checks)?;
    machine.run("nft -f /tmp/whole.nft", INSIDE)?;
    let flowtable = cost(machine, checks)?;
    let router =
        Router::start_with(machine, "nat", "xdp_forward = \"on\"", [("lan", "c1"), ("wan", "c0")])?;
    until_flows(&router, machine, checks)?;
    // Drivers run it, not the kernel on whole packets (`xdpgeneric`).
    let mode = machine.run("/bin/ip link show c1 | grep -o ' xdp[a-z]* '", INSIDE)?;
    checks.equal("mode of the program", Witness::Inside, &"xdp", &mode.trim());
    let xdp = cost(machine, checks)?;
    router.stop(machine)?;
    let ratio = |part: usize| {
        let of_chains = chains[part];
        format!("1 : {:.2} : {:.2}", flowtable[part] / of_chains, xdp[part] / of_chains)
    };
    let what = format!(
        "time of an exchange by chains, flowtable, XDP as {}, CPU time as {}, {:.0} % of XDP's in \
         the router's process; {chains:.2?} {flowtable:.2?} {xdp:.2?}",
        ratio(0),
        ratio(1),
        xdp[2] / xdp[1] * 100.0
    );
    checks.equal(what, Witness::Inside, &true, &(chains[0] > 0.0 && chains[1] > 0.0));
    Ok(())
}

/// Returns the time of an exchange, the processor time of all meanwhile, and that of the router's process
/// where it runs, in seconds.
fn cost(machine: &mut Machine, checks: &mut Checks) -> Result<[f64; 3], Error> {
    let counts = |machine: &mut Machine| -> Result<[f64; 3], Error> {
        let line = "cut -d' ' -f1 /proc/uptime; awk '/^cpu / { print $2 + $4 + $7 + $8 }' /proc/stat; \
                    cut -d' ' -f14,15 /proc/$(cat /tmp/nat.pid)/stat 2> /dev/null || true";
        let text = machine.run(line, INSIDE)?;
        let numbers: Vec<f64> =
            text.split_whitespace().filter_map(|it| it.parse::<f64>().ok()).collect();
        let at = |place: usize| numbers.get(place).copied().unwrap_or(0.0);
        Ok([at(0), at(1) / TICKS, (at(2) + at(3)) / TICKS])
    };
    begin(machine, "far", &format!("reflect {REFLECTOR}"))?;
    let before = counts(machine)?;
    let wish = format!("exchange {REFLECTOR} 50 200 0 {TRANSLATED}");
    let said = exchanged(&machine.run(&end("near", &wish), EXCHANGE)?);
    let after = counts(machine)?;
    checks.equal(
        "its datagrams",
        Witness::Inside,
        &"exchanged 10000 lost 0 wrong 0",
        &said.as_str(),
    );
    site::until(machine, "[ -e /tmp/end.done ]")?;
    Ok(std::array::from_fn(|part| after[part] - before[part]))
}

fn build(machine: &mut Machine) -> Result<(), Error> {
    machine.run("mkdir -p /run/netns; ln -sf ../run /var/run", INSIDE)?;
    ip(
        machine,
        None,
        "netns add near\nnetns add far\nlink add c0 type veth peer name d0 netns far\n\
         link add c1 type veth peer name p0 netns near\n\
         address add 10.2.0.1/24 dev c0\naddress add 10.1.0.1/24 dev c1\n\
         link set c0 up\nlink set c1 up",
    )?;
    ip(machine, Some("far"), "address add 10.2.0.2/24 dev d0\nlink set d0 up\nlink set lo up")?;
    ip(
        machine,
        Some("near"),
        "address add 10.1.0.2/24 dev p0\nlink set p0 up\nroute add default via 10.1.0.1",
    )?;
    for (namespace, interface) in [("near", "p0"), ("far", "d0")] {
        site::plain(machine, namespace, interface)?;
        // Without it, a veth takes no frames from XDP programs.
        let on = format!("/bin/ip netns exec {namespace} ethtool -K {interface} gro on");
        machine.run(&on, INSIDE)?;
    }
    machine.run("echo 1 > /proc/sys/net/ipv4/ip_forward", INSIDE)?;
    write(machine, RULES, FIREWALL)?;
    machine.run(&format!("nft -f {RULES}"), INSIDE).map(drop)
}

/// Returns the lines that would enable a flowtable, as `show ports` prints them.
fn lines_of(router: &Router, machine: &mut Machine) -> Result<String, Error> {
    let (_, _, reason) = router.port(machine)?;
    Ok(reason.split_once("to add one: ").map_or(String::new(), |(_, lines)| lines.to_owned()))
}

/// Waits until XDP programs forward flows.
fn until_flows(router: &Router, machine: &mut Machine, checks: &mut Checks) -> Result<(), Error> {
    let mut reason = String::new();
    for _ in 0..60 {
        reason = router.port(machine)?.2;
        if reason.contains("XDP programs forward the established flows") {
            break;
        }
        std::thread::sleep(Duration::from_millis(500));
    }
    let flows =
        reason.contains("XDP programs forward the established flows of flowtable ip router");
    checks.equal(format!("flows are forwarded: {reason}"), Witness::Inside, &true, &flows);
    Ok(())
}

/// Has datagrams and their answers pass, none of which may be lost or translated wrongly. Returns the packets
/// that XDP programs and the kernel forwarded.
fn exchange(
    machine: &mut Machine,
    router: &Router,
    (flows, rounds): (u64, u64),
    checks: &mut Checks,
) -> Result<(u64, u64), Error> {
    let counts = |machine: &mut Machine| -> Result<(u64, u64), Error> {
        let stats = router.stats(machine)?;
        Ok((stats["xdp_forwarded"].as_u64().unwrap_or(0), by_kernel(machine)?))
    };
    let before = counts(machine)?;
    begin(machine, "far", &format!("reflect {REFLECTOR}"))?;
    let wish = format!("exchange {REFLECTOR} {flows} {rounds} 0 {TRANSLATED}");
    let said = exchanged(&machine.run(&end("near", &wish), EXCHANGE)?);
    let whole = format!("exchanged {} lost 0 wrong 0", flows * rounds);
    checks.equal("datagrams and answers", Witness::Inside, &whole, &said);
    let after = counts(machine)?;
    site::until(machine, "[ -e /tmp/end.done ]")?;
    Ok((after.0 - before.0, after.1 - before.1))
}

fn exchanged(text: &str) -> String {
    text.lines().find(|line| line.starts_with("exchanged")).unwrap_or(text).to_owned()
}

/// Packets of a stream are translated with right checksums, and its end ends the flow.
fn stream(machine: &mut Machine, router: &Router, checks: &mut Checks) -> Result<(), Error> {
    let forwarded = |machine: &mut Machine| -> Result<u64, Error> {
        Ok(router.stats(machine)?["xdp_forwarded"].as_u64().unwrap_or(0))
    };
    let before = forwarded(machine)?;
    let said = site::stream(machine)?;
    checks.equal("a stream", Witness::Inside, &"received 1000000 whole", &said.as_str());
    let by_xdp = forwarded(machine)? - before;
    checks.equal("its packets by XDP", Witness::Inside, &true, &(by_xdp > 500));
    let line = "grep dport=7001 /proc/net/nf_conntrack";
    let entry = machine.run(line, INSIDE)?;
    let ended = !entry.contains("OFFLOAD") && !entry.contains("ESTABLISHED");
    checks.equal(format!("its connection has ended: {entry}"), Witness::Inside, &true, &ended);
    Ok(())
}

/// Flows in use stay, others time out.
fn times_out(machine: &mut Machine, checks: &mut Checks) -> Result<(), Error> {
    let set = "echo 3 > /proc/sys/net/netfilter/nf_flowtable_udp_timeout";
    machine.run(set, INSIDE)?;
    let line = "grep 10.1.0.2 /proc/net/nf_conntrack | grep -c 'dport=7000.*OFFLOAD' || true";
    site::until(machine, &format!("[ $({line}) = 0 ]"))?;
    begin(machine, "far", &format!("reflect {REFLECTOR}"))?;
    let wish = format!("exchange {REFLECTOR} 1 40 200 {TRANSLATED}");
    machine.run(&format!("({} > /tmp/near.out) & sleep 7", end("near", &wish)), INSIDE)?;
    let used = machine.run(line, INSIDE)?;
    checks.equal("flow in use after twice its timeout", Witness::Inside, &"1", &used.trim());
    site::until(machine, "grep -q exchanged /tmp/near.out")?;
    site::until(machine, &format!("[ $({line}) = 0 ]"))?;
    let said = exchanged(&machine.run("cat /tmp/near.out", INSIDE)?);
    let whole = "exchanged 40 lost 0 wrong 0";
    checks.equal("its datagrams", Witness::Inside, &whole, &said.as_str());
    site::until(machine, "[ -e /tmp/end.done ]")
}

/// The flowtable changes while flows run.
fn changes(machine: &mut Machine, router: &Router, checks: &mut Checks) -> Result<(), Error> {
    begin(machine, "far", &format!("reflect {REFLECTOR}"))?;
    let wish = format!("exchange {REFLECTOR} 20 300 50 {TRANSLATED}");
    machine.run(&format!("({} > /tmp/near.out) & sleep 2", end("near", &wish)), INSIDE)?;
    for change in CHANGES {
        machine.run(&format!("{change}; sleep 2"), INSIDE)?;
    }
    site::until(machine, "grep -q exchanged /tmp/near.out")?;
    let said = exchanged(&machine.run("cat /tmp/near.out", INSIDE)?);
    let whole = "exchanged 6000 lost 0 wrong 0";
    checks.equal("datagrams while the flowtable changed", Witness::Inside, &whole, &said.as_str());
    site::until(machine, "[ -e /tmp/end.done ]")?;
    until_flows(router, machine, checks)
}

/// A flowtable that counts stays with the kernel.
fn left_alone(machine: &mut Machine, router: &Router, checks: &mut Checks) -> Result<(), Error> {
    let counting = "sed 's/hook ingress/counter; hook ingress/' /tmp/whole.nft | nft -f -";
    machine.run(counting, INSIDE)?;
    site::until(
        machine,
        "wattline show ports --socket /tmp/nat.socket | grep -q 'its .counter. would miss'",
    )?;
    let (forwarded, _) = exchange(machine, router, (20, ROUNDS), checks)?;
    checks.equal("by XDP beside a counter", Witness::Inside, &0, &forwarded);
    Ok(())
}
