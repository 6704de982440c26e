//! A gateway in the guest: Wattline over the kernel that it follows, the kernel of another
//! namespace as its peer.
//!
//! ```text
//!   lan ── gw: Wattline ═══ tunnel ═══ peer: the kernel
//!   10.1.0.2      192.0.2.1         192.0.2.2, inside 10.2.0.1
//! ```

use super::{INSIDE, ip, pinged, write};
use wattline_testbed::Error;
use wattline_testbed::rig::Machine;

const SOCKET: &str = "/tmp/gw.socket";
/// The associations' ends.
pub(super) const ENDS: [&str; 2] = ["192.0.2.1", "192.0.2.2"];
/// Networks behind them.
pub(super) const NETS: [&str; 2] = ["10.1.0.0/24", "10.2.0.0/24"];
/// A host behind the peer.
const INNER: &str = "10.2.0.1";

/// Namespaces, cables and addresses.
pub(super) fn build(machine: &mut Machine) -> Result<(), Error> {
    machine.run("mkdir -p /run/netns; ln -sf ../run /var/run", INSIDE)?;
    ip(
        machine,
        None,
        "netns add gw\nnetns add peer\nnetns add lan\n\
         link add g0 netns gw type veth peer name lan netns lan\n\
         link add g1 netns gw type veth peer name wan netns peer",
    )?;
    for (namespace, lines) in [
        (
            "gw",
            "address add 10.1.0.1/24 dev g0\naddress add 192.0.2.1/24 dev g1\n\
             link set lo up\nlink set g0 up\nlink set g1 up\nroute add 10.2.0.0/16 via 192.0.2.2",
        ),
        ("lan", "address add 10.1.0.2/24 dev lan\nlink set lan up\nroute add default via 10.1.0.1"),
        (
            "peer",
            "address add 192.0.2.2/24 dev wan\naddress add 10.2.0.1/24 dev lo\n\
             link set lo up\nlink set wan up\nroute add 10.1.0.0/16 via 192.0.2.1",
        ),
    ] {
        ip(machine, Some(namespace), lines)?;
    }
    for (namespace, interface) in [("gw", "g0"), ("gw", "g1"), ("lan", "lan"), ("peer", "wan")] {
        let off = format!("ethtool -K {interface} tx off rx off sg off gro off");
        inside(machine, namespace, &off)?;
    }
    inside(machine, "gw", "sh -c \"echo 1 > /proc/sys/net/ipv4/ip_forward\"").map(drop)
}

/// Runs a program in a namespace of the guest.
pub(super) fn inside(machine: &mut Machine, namespace: &str, line: &str) -> Result<String, Error> {
    machine.run(&format!("/bin/ip netns exec {namespace} {line}"), INSIDE)
}

/// Starts Wattline in the gateway and waits until it answers.
pub(super) fn start(machine: &mut Machine) -> Result<(), Error> {
    write(
        machine,
        "/tmp/gw.toml",
        &format!(
            "[router]\nsocket = \"{SOCKET}\"\n\
             [[port]]\nname = \"lan\"\ninterface = \"g0\"\n\
             [[port]]\nname = \"wan\"\ninterface = \"g1\"\n\
             [ipsec]\nkernel = true\nstate = \"/tmp/state\""
        ),
    )?;
    let line = "rm -f /tmp/gw.status; (/bin/ip netns exec gw sh -c 'echo $$ > /tmp/gw.pid; \
                exec wattline run /tmp/gw.toml --json' > /tmp/gw.out 2> /tmp/gw.log; \
                echo $? > /tmp/gw.status) & true";
    machine.run(line, INSIDE)?;
    let wait = format!(
        "until wattline stats --socket {SOCKET} > /dev/null 2>&1; do \
         [ -e /tmp/gw.status ] && {{ cat /tmp/gw.log >&2; exit 1; }}; sleep 0.2; done"
    );
    machine.run(&wait, INSIDE).map(drop)
}

/// Sends it a signal that ends it; its exit code, as a shell would see it.
pub(super) fn end(machine: &mut Machine, signal: &str) -> Result<i32, Error> {
    let line = format!(
        "kill -{signal} $(cat /tmp/gw.pid); until [ -s /tmp/gw.status ]; do sleep 0.1; done; \
         cat /tmp/gw.status"
    );
    Ok(machine.run(&line, INSIDE)?.trim().parse().unwrap_or(-1))
}

/// The gateway's counters of the kernel's associations, and all drops.
pub(super) struct Stats(serde_json::Value);

impl Stats {
    /// Asks the gateway.
    pub fn get(machine: &mut Machine) -> Result<Self, Error> {
        let text = machine.run(&format!("wattline stats --json --socket {SOCKET}"), INSIDE)?;
        let stats = serde_json::from_str(&text).map_err(|error| Error::Rig {
            what: format!("`wattline stats` answered no JSON: {error}"),
            console: String::new(),
        })?;
        Ok(Self(stats))
    }

    fn kernel(&self) -> &serde_json::Value {
        &self.0["applications"]["ipsec"]["kernel"]
    }

    /// SPIs and packets of a direction, in the order of the SPIs.
    pub fn associations(&self, direction: &str) -> Vec<(u64, u64)> {
        let all = self.kernel()[direction].as_array().into_iter().flatten();
        let mut found: Vec<(u64, u64)> = all
            .filter_map(|one| {
                let spi = one["spi"].as_str()?.strip_prefix("0x")?;
                Some((u64::from_str_radix(spi, 16).ok()?, one["packets"].as_u64()?))
            })
            .collect();
        found.sort_unstable();
        found
    }

    /// The SPIs alone.
    pub fn spis(&self, direction: &str) -> Vec<u64> {
        self.associations(direction).into_iter().map(|(spi, _)| spi).collect()
    }

    /// Returns the number of packets that the gateway leaves to its kernel.
    pub fn left(&self) -> u64 {
        self.kernel()["left_to_kernel"].as_u64().unwrap_or(u64::MAX)
    }

    /// Drops for a reason.
    pub fn dropped(&self, reason: &str) -> u64 {
        self.0["dropped"][reason].as_u64().unwrap_or(0)
    }

    /// Drops for any reason.
    pub fn all_dropped(&self) -> u64 {
        let all = self.0["dropped"].as_object().into_iter().flatten();
        all.filter_map(|(_, count)| count.as_u64()).sum()
    }
}

/// Sends echo requests through the tunnel, 20 a second: sent, received, received twice.
pub(super) fn ping(machine: &mut Machine, count: u32) -> Result<(u64, u64, u64), Error> {
    start_ping(machine, count)?;
    end_ping(machine)
}

/// The same, while other things are done.
pub(super) fn start_ping(machine: &mut Machine, count: u32) -> Result<(), Error> {
    let line = format!(
        "rm -f /tmp/ping.*; (/bin/ip netns exec lan ping -q -c {count} -i 0.05 -W 3 {INNER} \
         > /tmp/ping.text 2>&1; mv /tmp/ping.text /tmp/ping.out) & true"
    );
    machine.run(&line, INSIDE).map(drop)
}

/// Waits for its end.
pub(super) fn end_ping(machine: &mut Machine) -> Result<(u64, u64, u64), Error> {
    let text =
        machine.run("until [ -e /tmp/ping.out ]; do sleep 0.1; done; cat /tmp/ping.out", INSIDE)?;
    pinged(&text)
        .ok_or_else(|| Error::Rig { what: format!("ping said: {text}"), console: String::new() })
}
