//! strongSwan at both ends of the guest's tunnel: it agrees upon keys through Wattline's
//! gateway and puts them into its kernel, and Wattline uses them.

use super::gateway::{self, ENDS, NETS, Stats, end_ping, inside, ping, start_ping};
use super::{INSIDE, write};
use crate::checks::{Checks, Witness};
use wattline_testbed::Error;
use wattline_testbed::rig::Machine;

/// A tunnel as it is configured at both ends.
struct Tunnel {
    name: &'static str,
    proposal: &'static str,
    /// ESP in UDP, as if there were a NAT.
    udp: bool,
    /// Further options of its child association.
    more: &'static str,
}

const TUNNELS: [Tunnel; 2] = [
    Tunnel { name: "gcm", proposal: "aes128gcm128", udp: false, more: "" },
    Tunnel {
        name: "cbc",
        proposal: "aes256-sha256-esn",
        udp: true,
        // Rekeyed after 40 packets in each direction, which only Wattline counts.
        more: "rekey_packets = 40\nrand_packets = 0\nlife_packets = 1000\n",
    },
];

/// Keys by IKE, plain and in UDP; replaced by hand and because they are used up.
pub(super) fn check(machine: &mut Machine, checks: &mut Checks) -> Result<(), Error> {
    gateway::start(machine)?;
    for (namespace, own) in [("gw", 0), ("peer", 1)] {
        start(machine, Some(namespace), namespace)?;
        write(machine, &format!("/tmp/{namespace}/swanctl.conf"), &connections(own))?;
        swanctl(machine, namespace, &format!("--load-all --file /tmp/{namespace}/swanctl.conf"))?;
    }
    let version = "STRONGSWAN_CONF=/tmp/gw/strongswan.conf charon --version";
    let version = machine.run(version, INSIDE)?;
    let known = version.contains("strongSwan");
    let what = format!("the IKE daemon is strongSwan ({})", version.trim());
    checks.equal(what, Witness::Inside, &true, &known);
    for tunnel in &TUNNELS {
        let name = tunnel.name;
        swanctl(machine, "gw", &format!("--initiate --child {name}"))?;
        until(machine, |stats| {
            !stats.spis("outbound").is_empty() && !stats.spis("inbound").is_empty()
        })?;
        let echoes = ping(machine, 10)?;
        let what = format!("IKE, {}: echoes", tunnel.proposal);
        checks.equal(what, Witness::Inside, &(10, 10, 0), &echoes);
        let stats = Stats::get(machine)?;
        let carried = |stats: &Stats, direction| {
            stats.associations(direction).iter().map(|it| it.1).sum::<u64>()
        };
        let found = (carried(&stats, "outbound"), carried(&stats, "inbound"), stats.left());
        let what = format!("IKE, {}: Wattline sent, received; left to the kernel", tunnel.proposal);
        checks.equal(what, Witness::Inside, &(10, 10, 0), &found);
        let states = machine.run("/bin/ip -n gw xfrm state", INSIDE)?;
        let found = (states.contains("espinudp"), states.contains("esn"));
        let expected = (tunnel.udp, tunnel.proposal.contains("esn"));
        let what = format!("IKE, {}: in UDP, extended numbers", tunnel.proposal);
        checks.equal(what, Witness::Inside, &expected, &found);

        let before = stats.spis("outbound");
        start_ping(machine, 100)?;
        if tunnel.more.is_empty() {
            swanctl(machine, "gw", &format!("--rekey --child {name}"))?;
            swanctl(machine, "gw", &format!("--rekey --ike {name}"))?;
        }
        until(machine, |stats| {
            !stats.spis("outbound").is_empty() && stats.spis("outbound") != before
        })?;
        let echoes = end_ping(machine)?;
        let what = format!("IKE, {}: echoes while keys were replaced", tunnel.proposal);
        checks.equal(what, Witness::Inside, &(100, 100, 0), &echoes);
        // The daemon sees the packets that Wattline has carried.
        machine.run("sleep 1.5", INSIDE)?;
        let list = swanctl(machine, "gw", "--list-sas")?;
        let idle = idle(&list);
        let what = format!("IKE, {}: associations that the daemon sees idle", tunnel.proposal);
        checks.equal(what, Witness::Inside, &0, &idle);
        swanctl(machine, "gw", &format!("--terminate --ike {name}"))?;
        until(machine, |stats| {
            stats.spis("outbound").is_empty() && stats.spis("inbound").is_empty()
        })?;
    }
    let stats = Stats::get(machine)?;
    checks.equal("IKE: packets dropped", Witness::Inside, &0, &stats.all_dropped());
    for namespace in ["gw", "peer"] {
        let errors =
            inside(machine, namespace, "sh -c \"grep -v -w 0 /proc/net/xfrm_stat; true\"")?;
        // The counters include earlier checks: states that ended with packets under way.
        let other: Vec<&str> = errors
            .lines()
            .filter(|line| {
                !line.starts_with("XfrmInNoStates") && !line.starts_with("XfrmOutNoStates")
            })
            .collect();
        let what = format!("errors of the kernel's ESP at {namespace}");
        checks.equal(what, Witness::Inside, &Vec::<&str>::new(), &other);
        stop(machine, namespace)?;
    }
    let status = gateway::end(machine, "TERM")?;
    checks.equal("exit code of the gateway", Witness::Inside, &0, &status);
    Ok(())
}

/// Starts strongSwan's daemon, in a namespace or in none, with a folder of its own.
pub(super) fn start(
    machine: &mut Machine,
    namespace: Option<&str>,
    name: &str,
) -> Result<(), Error> {
    machine.run(&format!("mkdir -p /tmp/{name}; ln -sf ../run /var/run"), INSIDE)?;
    write(
        machine,
        &format!("/tmp/{name}/strongswan.conf"),
        &format!(
            "charon {{\nload_modular = no\n\
             load = random nonce aes sha1 sha2 hmac kdf gmp drbg kernel-netlink socket-default vici\n\
             filelog {{ log {{ path = /tmp/{name}/log\nflush_line = yes }} }}\n\
             plugins {{ vici {{ socket = unix:///tmp/{name}/vici }} }}\n}}\n\
             swanctl {{\nload = random nonce\n}}"
        ),
    )?;
    // Its file of the process's number has one place only: each gets a /run of its own.
    let within = match namespace {
        Some(namespace) => format!("/bin/ip netns exec {namespace} "),
        None => "unshare -m ".to_owned(),
    };
    let line = format!(
        "({within}sh -c 'mount -t tmpfs tmpfs /run; echo $$ > /tmp/{name}/pid; \
         export STRONGSWAN_CONF=/tmp/{name}/strongswan.conf; exec charon' \
         < /dev/null > /tmp/{name}/out 2>&1 & true)"
    );
    machine.run(&line, INSIDE)?;
    let wait = format!(
        "n=0; until [ -S /tmp/{name}/vici ]; do n=$((n+1)); \
         [ $n -gt 300 ] && {{ cat /tmp/{name}/out /tmp/{name}/log >&2; exit 1; }}; sleep 0.1; done"
    );
    machine.run(&wait, INSIDE).map(drop)
}

/// Ends a daemon.
pub(super) fn stop(machine: &mut Machine, name: &str) -> Result<(), Error> {
    let line = format!(
        "kill -TERM $(cat /tmp/{name}/pid); while kill -0 $(cat /tmp/{name}/pid) 2>/dev/null; \
         do sleep 0.1; done"
    );
    machine.run(&line, INSIDE).map(drop)
}

/// Sends a daemon a command; the error has the daemon's log.
fn swanctl(machine: &mut Machine, name: &str, what: &str) -> Result<String, Error> {
    let line = format!(
        "STRONGSWAN_CONF=/tmp/{name}/strongswan.conf swanctl {what} --uri unix:///tmp/{name}/vici \
         2> /dev/null || {{ tail -n 20 /tmp/{name}/log >&2; false; }}"
    );
    machine.run(&line, INSIDE)
}

/// One end's connections.
fn connections(own: usize) -> String {
    let far = 1 - own;
    let mut text = String::from("connections {\n");
    for Tunnel { name, proposal, udp, more } in &TUNNELS {
        // Only one end replaces keys: two at once would collide.
        let more = if own == 0 { more } else { "" };
        text += &format!(
            "{name} {{\nversion = 2\nlocal_addrs = {0}\nremote_addrs = {1}\n\
             proposals = aes128-sha256-modp2048\nencap = {2}\n\
             local {{\nauth = psk\nid = {name}-{own}\n}}\n\
             remote {{\nauth = psk\nid = {name}-{far}\n}}\n\
             children {{\n{name} {{\nlocal_ts = {3}\nremote_ts = {4}\n\
             esp_proposals = {proposal}\nmode = tunnel\n{more}}}\n}}\n}}\n",
            ENDS[own],
            ENDS[far],
            if *udp { "yes" } else { "no" },
            NETS[own],
            NETS[far],
        );
    }
    text += "}\nsecrets {\nike {\nsecret = \"emulated, and known to all\"\n}\n}\n";
    text
}

/// Returns the directions of installed associations without a packet, from the output of
/// `swanctl --list-sas`.
fn idle(list: &str) -> usize {
    let children = list.split("reqid").filter(|child| child.contains(" INSTALLED"));
    children.flat_map(str::lines).filter(|line| line.contains(" 0 packets")).count()
}

/// Waits until Wattline's counters have the expected values.
fn until(machine: &mut Machine, holds: impl Fn(&Stats) -> bool) -> Result<(), Error> {
    for _ in 0..200 {
        if holds(&Stats::get(machine)?) {
            return Ok(());
        }
        machine.run("sleep 0.1", INSIDE)?;
    }
    let what = "Wattline does not follow the IKE daemon".to_owned();
    let console = machine.run("tail -n 30 /tmp/gw/log; /bin/ip -n gw xfrm state", INSIDE)?;
    Err(Error::Rig { what, console })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn associations_that_are_being_deleted_may_be_idle() {
        let child = |state: &str, packets: u32| {
            format!(
                "  net: #1, reqid 1, {state}, TUNNEL\n    in  ca1dcb3a,   0 bytes, {packets} packets\n"
            )
        };
        assert_eq!(idle(&[child("DELETED", 0), child("INSTALLED", 10)].concat()), 0);
        assert_eq!(idle(&[child("DELETED", 0), child("INSTALLED", 0)].concat()), 1);
    }
}
