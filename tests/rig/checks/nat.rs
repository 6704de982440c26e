//! A router with a firewall and address translation: XDP programs forward the established flows of its
//! flowtable, and the kernel everything else.
//!
//! ```text
//!   near: p0 ── c1: Wattline, masquerade: c0 ── d0: far, without a route back
//!   10.1.0.2    10.1.0.1            10.2.0.1    10.2.0.2
//!   fd01::2     fd01::1              fd02::1    fd02::2
//! ```
//!
//! Later c1 is a port of a bridge, which has its addresses, and IPv6 is not translated.

use super::ipsec::{ip, write};
use super::lag::site::{self, FAR, Router, begin, by_kernel, end};
use super::{Checks, INSIDE, Witness};
use std::path::Path;
use std::time::Duration;
use wattline_testbed::Error;
use wattline_testbed::rig::{Machine, Options, Rig};

/// Time for all checks, on a busy host.
const LIMIT: Duration = Duration::from_secs(3600);
/// Time for one exchange.
const EXCHANGE: Duration = Duration::from_secs(400);
/// Target of flows, and the address as which the far end sees the near one.
type Ends = (&'static str, &'static str);
const ENDS: Ends = ("10.2.0.2:7000", "10.2.0.1");
const ENDS_V6: Ends = ("[fd02::2]:7000", "fd02::1");
const PLAIN_V6: Ends = ("[fd02::2]:7000", "fd01::2");
/// Flows at a time, limited by the descriptors of a process.
const FLOWS: u64 = 500;
/// Datagrams of a flow, and the most of them that the kernel forwards until the flow is
/// established, in both directions.
const ROUNDS: u64 = 5;
const FIRST: u64 = 2;
pub(super) const RULES: &str = "/tmp/rules.nft";

/// A firewall as it is found on many routers.
const FIREWALL: &str = "\
    flush ruleset\n\
    table inet router {\n\
      chain forward {\n\
        type filter hook forward priority filter; policy drop;\n\
        ct state established,related accept\n\
        iifname { c1, br0 } oifname c0 accept\n\
      }\n\
      chain translate {\n\
        type nat hook postrouting priority srcnat;\n\
        oifname c0 masquerade\n\
      }\n\
    }\n";
/// Changes of the flowtable while flows run, each followed by a pause.
const CHANGES: [&str; 6] = [
    "nft flush chain inet router forward; nft -f /tmp/forward.nft",
    "nft 'delete flowtable inet router wattline { hook ingress priority filter; devices = { c1 }; }'",
    "nft 'add flowtable inet router wattline { hook ingress priority filter; devices = { c1 }; }'",
    "nft flush chain inet router forward; nft 'add rule inet router forward ct state established accept; \
     add rule inet router forward iifname c1 accept'; nft delete flowtable inet router wattline",
    "nft -f /tmp/whole.nft",
    "nft -f /tmp/whole.nft",
];

/// Makes c1 a port of a bridge, and turns off translation of IPv6.
const BRIDGE: &str = "\
    link add br0 type bridge\nlink set br0 address 02:00:00:00:00:b0\naddress flush dev c1 scope global\n\
    link set c1 master br0\naddress add 10.1.0.1/24 dev br0\naddress add fd01::1/64 dev br0 nodad\n\
    link set br0 up";
const PLAIN: &str = "nft flush chain inet router translate; \
    nft add rule inet router translate meta nfproto ipv4 oifname c0 masquerade";

/// Boots a machine and makes all checks; `agent` is a program that sends and receives flows, in
/// `batches` of each kind.
///
/// # Errors
/// When the machine fails; a check that does not hold is not an error.
pub fn nat(
    rig: &Rig,
    wattline: &Path,
    agent: &Path,
    batches: u64,
    checks: &mut Checks,
) -> Result<(), Error> {
    let programs = vec![("wattline", wattline.to_owned()), ("agent", agent.to_owned())];
    let options = Options { programs, nat: true, limit: Some(LIMIT), ..Options::default() };
    let mut machine = Machine::boot(rig, &options)?;
    let machine = &mut machine;
    build(machine)?;
    let router = start(machine)?;
    router.until(machine, "left")?;
    let lines = lines_of(&router, machine)?;
    checks.equal("lines for a flowtable", Witness::Inside, &true, &lines.contains("add flowtable"));
    let (forwarded, kernel) = exchange(machine, &router, ENDS, (FLOWS, ROUNDS), checks)?;
    checks.equal("by XDP without a flowtable", Witness::Inside, &0, &forwarded);
    let all = 2 * FLOWS * ROUNDS;
    checks.equal("by the kernel without one", Witness::Inside, &true, &(kernel >= all));

    machine.run(&lines, INSIDE)?;
    until_flows(&router, machine, checks)?;
    machine.run("nft list chain inet router forward > /tmp/forward.nft", INSIDE)?;
    machine.run("(echo flush ruleset; nft list ruleset) > /tmp/whole.nft", INSIDE)?;
    for ends in [ENDS, ENDS_V6] {
        pass(machine, &router, ends, batches, checks)?;
    }
    for address in FAR {
        stream(machine, &router, address, checks)?;
    }
    unfinished(machine, &router, checks)?;
    times_out(machine, checks)?;
    changes(machine, &router, checks)?;
    left_alone(machine, &router, checks)?;
    let status = router.stop(machine)?;
    checks.equal("exit code of the router", Witness::Inside, &0, &status);

    let router = start(machine)?;
    until_flows(&router, machine, checks)?;
    ip(machine, None, BRIDGE)?;
    ip(machine, Some("near"), "neigh flush all")?;
    ip(machine, Some("far"), "route add fd01::/64 via fd02::1")?;
    machine.run(PLAIN, INSIDE)?;
    site::until(machine, "wattline show ports --socket /tmp/nat.socket | grep -q 'bridge br0'")?;
    until_flows(&router, machine, checks)?;
    for ends in [ENDS, PLAIN_V6] {
        pass(machine, &router, ends, batches, checks)?;
    }
    stream(machine, &router, FAR[1], checks)?;
    router.stop(machine)?;
    let left = machine.run("/bin/ip link show | grep -c xdp || true", INSIDE)?;
    checks.equal("programs left", Witness::Inside, &"0", &left.trim());
    Ok(())
}

pub(super) fn start(machine: &mut Machine) -> Result<Router, Error> {
    Router::start_with(machine, "nat", "xdp_forward = \"on\"", [("lan", "c1"), ("wan", "c0")])
}

/// Passes batches of flows; each packet is forwarded by XDP programs or by the kernel.
fn pass(
    machine: &mut Machine,
    router: &Router,
    ends: Ends,
    batches: u64,
    checks: &mut Checks,
) -> Result<(), Error> {
    let (mut forwarded, mut kernel) = (0, 0);
    for _ in 0..batches {
        let counted = exchange(machine, router, ends, (FLOWS, ROUNDS), checks)?;
        (forwarded, kernel) = (forwarded + counted.0, kernel + counted.1);
    }
    let all = 2 * FLOWS * batches * ROUNDS;
    let counts = forwarded + kernel;
    let what = format!("{counts} of {all} packets of {} to {}", FLOWS * batches, ends.0);
    // The kernel's flowtable counts none of the few that it forwards itself on a busy machine.
    let counted = (all - all / 1_000..=all).contains(&counts);
    checks.equal(what, Witness::Inside, &true, &counted);
    let expected = 2 * FLOWS * batches * (ROUNDS - FIRST);
    let what = format!("{forwarded} packets by XDP, {kernel} by the kernel, as established");
    checks.equal(what, Witness::Inside, &true, &(forwarded >= expected));
    Ok(())
}

pub(super) fn build(machine: &mut Machine) -> Result<(), Error> {
    machine.run("mkdir -p /run/netns; ln -sf ../run /var/run", INSIDE)?;
    ip(
        machine,
        None,
        "netns add near\nnetns add far\nlink add c0 type veth peer name d0 netns far\n\
         link add c1 type veth peer name p0 netns near\n\
         address add 10.2.0.1/24 dev c0\naddress add 10.1.0.1/24 dev c1\n\
         address add fd02::1/64 dev c0 nodad\naddress add fd01::1/64 dev c1 nodad\n\
         link set c0 up\nlink set c1 up",
    )?;
    ip(
        machine,
        Some("far"),
        "address add 10.2.0.2/24 dev d0\naddress add fd02::2/64 dev d0 nodad\nlink set d0 up\n\
         link set lo up",
    )?;
    ip(
        machine,
        Some("near"),
        "address add 10.1.0.2/24 dev p0\naddress add fd01::2/64 dev p0 nodad\nlink set p0 up\n\
         route add default via 10.1.0.1\nroute add default via fd01::1",
    )?;
    for (namespace, interface) in [("near", "p0"), ("far", "d0")] {
        site::plain(machine, namespace, interface)?;
        // Without it, a veth takes no frames from XDP programs.
        let on = format!("/bin/ip netns exec {namespace} ethtool -K {interface} gro on");
        machine.run(&on, INSIDE)?;
    }
    let on = "for it in ipv4/ip_forward ipv6/conf/all/forwarding; do echo 1 > /proc/sys/net/$it; done; \
              echo 262144 > /proc/sys/net/netfilter/nf_conntrack_max";
    machine.run(on, INSIDE)?;
    write(machine, RULES, FIREWALL)?;
    machine.run(&format!("nft -f {RULES}"), INSIDE).map(drop)
}

/// Returns the lines that would enable a flowtable, as `show ports` prints them.
pub(super) fn lines_of(router: &Router, machine: &mut Machine) -> Result<String, Error> {
    let (_, _, reason) = router.port(machine)?;
    Ok(reason.split_once("to add one: ").map_or(String::new(), |(_, lines)| lines.to_owned()))
}

/// Waits until XDP programs forward flows.
pub(super) fn until_flows(
    router: &Router,
    machine: &mut Machine,
    checks: &mut Checks,
) -> Result<(), Error> {
    let mut reason = String::new();
    for _ in 0..60 {
        reason = router.port(machine)?.2;
        if reason.contains("XDP programs forward the established flows") {
            break;
        }
        std::thread::sleep(Duration::from_millis(500));
    }
    let flows =
        reason.contains("XDP programs forward the established flows of flowtable inet router");
    checks.equal(format!("flows are forwarded: {reason}"), Witness::Inside, &true, &flows);
    Ok(())
}

/// Passes datagrams and their answers, none of which may be lost or translated wrongly. Returns the
/// packets that XDP programs and the kernel forwarded.
fn exchange(
    machine: &mut Machine,
    router: &Router,
    (reflector, seen_as): Ends,
    (flows, rounds): (u64, u64),
    checks: &mut Checks,
) -> Result<(u64, u64), Error> {
    let counts = |machine: &mut Machine| -> Result<(u64, u64), Error> {
        let stats = router.stats(machine)?;
        Ok((stats["xdp_forwarded"].as_u64().unwrap_or(0), by_kernel(machine)?))
    };
    let before = counts(machine)?;
    begin(machine, "far", &format!("reflect {reflector}"))?;
    let task = format!("exchange {reflector} {flows} {rounds} 0 {seen_as}");
    let said = exchanged(&machine.run(&end("near", &task), EXCHANGE)?);
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
fn stream(
    machine: &mut Machine,
    router: &Router,
    address: &str,
    checks: &mut Checks,
) -> Result<(), Error> {
    let forwarded = |machine: &mut Machine| -> Result<u64, Error> {
        Ok(router.stats(machine)?["xdp_forwarded"].as_u64().unwrap_or(0))
    };
    let before = forwarded(machine)?;
    let said = site::stream(machine, address)?;
    checks.equal("a stream", Witness::Inside, &"received 1000000 whole", &said.as_str());
    let by_xdp = forwarded(machine)? - before;
    checks.equal("its packets by XDP", Witness::Inside, &true, &(by_xdp > 500));
    let family = if address.starts_with('[') { "^ipv6" } else { "^ipv4" };
    let line = format!("grep {family}.*dport=7001 /proc/net/nf_conntrack");
    let entry = machine.run(&line, INSIDE)?;
    let ended = !entry.contains("OFFLOAD") && !entry.contains("ESTABLISHED");
    checks.equal(format!("its connection has ended: {entry}"), Witness::Inside, &true, &ended);
    Ok(())
}

/// Packets with unfinished checksums go to the kernel, which completes them.
fn unfinished(machine: &mut Machine, router: &Router, checks: &mut Checks) -> Result<(), Error> {
    let offload = |to: &str| format!("/bin/ip netns exec near ethtool -K p0 tx {to}");
    machine.run(&offload("on"), INSIDE)?;
    for ends in [ENDS, ENDS_V6] {
        exchange(machine, router, ends, (20, ROUNDS), checks)?;
    }
    machine.run(&offload("off"), INSIDE).map(drop)
}

/// Flows in use stay, others time out.
fn times_out(machine: &mut Machine, checks: &mut Checks) -> Result<(), Error> {
    let set = "echo 3 > /proc/sys/net/netfilter/nf_flowtable_udp_timeout";
    machine.run(set, INSIDE)?;
    let line = "grep 10.1.0.2 /proc/net/nf_conntrack | grep -c 'dport=7000.*OFFLOAD' || true";
    site::until(machine, &format!("[ $({line}) = 0 ]"))?;
    begin(machine, "far", &format!("reflect {}", ENDS.0))?;
    let task = format!("exchange {} 1 40 200 {}", ENDS.0, ENDS.1);
    machine.run(&format!("({} > /tmp/near.out) & sleep 7", end("near", &task)), INSIDE)?;
    let used = machine.run(line, INSIDE)?;
    checks.equal("flow in use after twice its timeout", Witness::Inside, &"1", &used.trim());
    site::until(machine, "grep -q exchanged /tmp/near.out")?;
    site::until(machine, &format!("[ $({line}) = 0 ]"))?;
    let said = exchanged(&machine.run("cat /tmp/near.out", INSIDE)?);
    let whole = "exchanged 40 lost 0 wrong 0";
    checks.equal("its datagrams", Witness::Inside, &whole, &said.as_str());
    machine.run(&set.replace('3', "30"), INSIDE)?;
    site::until(machine, "[ -e /tmp/end.done ]")
}

/// The flowtable changes while flows run.
fn changes(machine: &mut Machine, router: &Router, checks: &mut Checks) -> Result<(), Error> {
    begin(machine, "far", &format!("reflect {}", ENDS.0))?;
    let task = format!("exchange {} 20 300 50 {}", ENDS.0, ENDS.1);
    machine.run(&format!("({} > /tmp/near.out) & sleep 2", end("near", &task)), INSIDE)?;
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
    let (forwarded, _) = exchange(machine, router, ENDS, (20, ROUNDS), checks)?;
    checks.equal("by XDP beside a counter", Witness::Inside, &0, &forwarded);
    machine.run("nft -f /tmp/whole.nft", INSIDE).map(drop)
}
