//! A router in the guest with a bond and a plain port, and a neighbour behind either.
//!
//! ```text
//!   near: lag0 ═ p0, p1 ══ m0, m1 ═ lag0: Wattline: c0 ── d0: far
//!   10.1.0.2, fd01::2      10.1.0.1, fd01::1  10.2.0.1, fd02::1   10.2.0.2, fd02::2
//! ```

use super::super::ipsec::{ip, pinged, write};
use super::super::{INSIDE, sensors};
use super::end::TASK;
use serde_json::Value;
use std::time::Duration;
use wattline_testbed::Error;
use wattline_testbed::rig::Machine;

/// Addresses of the neighbours.
pub const NEAR: [&str; 2] = ["10.1.0.2", "[fd01::2]"];
pub const FAR: [&str; 2] = ["10.2.0.2", "[fd02::2]"];
/// Datagrams a second: far below what an emulated machine forwards on a busy host.
pub const RATE: u32 = 250;
/// Number of echo requests.
const ECHOES: u64 = 5;

/// The plain port, and the neighbours' namespaces.
pub fn build(machine: &mut Machine) -> Result<(), Error> {
    machine.run("mkdir -p /run/netns; ln -sf ../run /var/run", INSIDE)?;
    ip(
        machine,
        None,
        "netns add near\nnetns add far\nlink add c0 type veth peer name d0 netns far\n\
         address add 10.2.0.1/24 dev c0\naddress add fd02::1/64 dev c0 nodad\nlink set c0 up",
    )?;
    ip(
        machine,
        Some("far"),
        "address add 10.2.0.2/24 dev d0\naddress add fd02::2/64 dev d0 nodad\nlink set d0 up\n\
         route add default via 10.2.0.1\nroute add default via fd02::1",
    )?;
    plain(machine, "far", "d0")?;
    let on =
        "for it in ipv4/ip_forward ipv6/conf/all/forwarding; do echo 1 > /proc/sys/net/$it; done";
    machine.run(on, INSIDE).map(drop)
}

/// Frames leave as they are on a cable: whole, and with checksums.
pub fn plain(machine: &mut Machine, namespace: &str, interface: &str) -> Result<(), Error> {
    let off = format!("ethtool -K {interface} tx off tso off gso off gro off");
    machine.run(&format!("/bin/ip netns exec {namespace} {off}"), INSIDE).map(drop)
}

/// Bonds, as options of `ip link add type bond`, with two queues each.
pub fn bond(machine: &mut Machine, how: &str) -> Result<(), Error> {
    ip(
        machine,
        None,
        &format!(
            "link add lag0 numrxqueues 2 numtxqueues 2 type bond miimon 50 {how}\n\
             link add m0 type veth peer name p0 netns near\n\
             link add m1 type veth peer name p1 netns near\n\
             link set m0 master lag0\nlink set m1 master lag0\n\
             link set m0 up\nlink set m1 up\n\
             address add 10.1.0.1/24 dev lag0\naddress add fd01::1/64 dev lag0 nodad"
        ),
    )?;
    ip(
        machine,
        Some("near"),
        &format!(
            "link add lag0 type bond miimon 50 {how}\n\
             link set p0 master lag0\nlink set p1 master lag0\n\
             link set p0 up\nlink set p1 up\nlink set lag0 up\n\
             address add 10.1.0.2/24 dev lag0\naddress add fd01::2/64 dev lag0 nodad\n\
             route add default via 10.1.0.1\nroute add default via fd01::1"
        ),
    )?;
    ["p0", "p1", "lag0"].iter().try_for_each(|name| plain(machine, "near", name))?;
    ip(machine, None, "link set lag0 up")?;
    until(machine, "cat /sys/class/net/lag0/carrier | grep -q 1")?;
    until_agreed(machine)?;
    until(machine, "ping -c 1 -W 1 10.1.0.2 > /dev/null")
}

/// Waits until a command succeeds here, and at the far end of the bond.
fn in_both(machine: &mut Machine, line: &str) -> Result<(), Error> {
    until(machine, line)?;
    until(machine, &format!("/bin/ip netns exec near sh -c '{line}'"))
}

/// Waits until LACP, if it is in use, lets both members send and receive at both ends.
pub fn until_agreed(machine: &mut Machine) -> Result<(), Error> {
    // The states of each member and of its partner, with all bits except defaulted and expired.
    let agreed = "! grep -q 802.3ad $f || [ $(grep -c \"port state: 63\" $f) = 4 ]";
    in_both(machine, &agreed.replace("$f", "/proc/net/bonding/lag0"))
}

/// Takes a member down.
pub fn fail(machine: &mut Machine, member: &str) -> Result<(), Error> {
    ip(machine, None, &format!("link set {member} down"))
}

/// Brings it up again, and waits until both ends use it.
pub fn mend(machine: &mut Machine, member: &str) -> Result<(), Error> {
    ip(machine, None, &format!("link set {member} up"))?;
    in_both(machine, "! grep -q \"MII Status: down\" /proc/net/bonding/lag0")?;
    until_agreed(machine)
}

/// Deletes both bonds.
pub fn unbond(machine: &mut Machine) -> Result<(), Error> {
    ip(machine, None, "link delete lag0\nlink delete m0\nlink delete m1")?;
    ip(machine, Some("near"), "link delete lag0")
}

/// Waits until a command succeeds.
pub fn until(machine: &mut Machine, line: &str) -> Result<(), Error> {
    let wait = format!(
        "i=0; until {line}; do i=$((i+1)); [ $i -lt 200 ] || {{ echo '{}' >&2; exit 1; }}; \
         sleep 0.2; done",
        format_args!("does not come true: {}", line.replace('\'', "`"))
    );
    machine.run(&wait, INSIDE).map(drop)
}

/// A router inside.
pub struct Router {
    name: &'static str,
}

impl Router {
    /// Starts one with a port `lag` and another, and waits until it answers.
    pub fn start(
        machine: &mut Machine,
        name: &'static str,
        keys: &str,
        other: &str,
    ) -> Result<Self, Error> {
        Self::start_with(machine, name, keys, [("lag", "lag0"), ("plain", other)])
    }

    /// The same with ports and their interfaces; the first one is checked.
    pub fn start_with(
        machine: &mut Machine,
        name: &'static str,
        keys: &str,
        ports: [(&'static str, &str); 2],
    ) -> Result<Self, Error> {
        let at = format!("/tmp/{name}");
        let port = |(name, interface)| {
            format!("[[port]]\nname = \"{name}\"\ninterface = \"{interface}\"\n")
        };
        write(
            machine,
            &format!("{at}.toml"),
            &format!(
                "[router]\nworkers = 1\nsocket = \"{at}.socket\"\n{keys}\n{}",
                ports.map(port).concat()
            ),
        )?;
        let line = format!(
            "rm -f {at}.status; (sh -c 'echo $$ > {at}.pid; exec wattline run {at}.toml --json' \
             > {at}.out 2> {at}.log; echo $? > {at}.status) & true"
        );
        machine.run(&line, INSIDE)?;
        let wait = format!(
            "until wattline stats --socket {at}.socket > /dev/null 2>&1; do \
             [ -e {at}.status ] && {{ cat {at}.log >&2; exit 1; }}; sleep 0.2; done"
        );
        machine.run(&wait, INSIDE)?;
        Ok(Self { name })
    }

    pub fn stats(&self, machine: &mut Machine) -> Result<Value, Error> {
        sensors::json(machine, &format!("wattline stats --json --socket /tmp/{}.socket", self.name))
    }

    /// State of the checked port, its mode, and its reason.
    pub fn port(&self, machine: &mut Machine) -> Result<(String, String, String), Error> {
        let stats = self.stats(machine)?;
        let text = |key: &str| stats["ports"][0][key].as_str().unwrap_or_default().to_owned();
        Ok((text("state"), text("mode"), text("reason")))
    }

    /// Waits until that port has a state.
    pub fn until(&self, machine: &mut Machine, state: &str) -> Result<(), Error> {
        for _ in 0..200 {
            if self.port(machine)?.0 == state {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        let action = format!("waiting until the first port of {} is {state}", self.name);
        Err(Error::Io { action, source: std::io::ErrorKind::TimedOut.into() })
    }

    /// Returns its log.
    pub fn log(&self, machine: &mut Machine) -> Result<String, Error> {
        machine.run(&format!("cat /tmp/{}.log", self.name), INSIDE)
    }

    /// Stops it, and returns its exit code.
    pub fn stop(self, machine: &mut Machine) -> Result<i32, Error> {
        let at = format!("/tmp/{}", self.name);
        let line = format!(
            "kill -TERM $(cat {at}.pid); until [ -s {at}.status ]; do sleep 0.1; done; \
             cat {at}.status"
        );
        Ok(machine.run(&line, INSIDE)?.trim().parse().unwrap_or(-1))
    }
}

/// Packets that the kernel has forwarded, of both families.
pub fn by_kernel(machine: &mut Machine) -> Result<u64, Error> {
    let line = "awk '/^Ip: [0-9]/ { print $7 }' /proc/net/snmp; \
                awk '/^Ip6OutForwDatagrams/ { print $2 }' /proc/net/snmp6";
    let text = machine.run(line, INSIDE)?;
    Ok(text.split_whitespace().filter_map(|word| word.parse::<u64>().ok()).sum())
}

/// Waits until echoes of both families come back from `far` to `near`.
pub fn until_echoes(machine: &mut Machine) -> Result<(), Error> {
    let within = "/bin/ip netns exec near";
    until(machine, &format!("{within} ping -c 1 -W 1 10.2.0.2 > /dev/null"))?;
    until(machine, &format!("{within} ping6 -c 1 -W 1 fd02::2 > /dev/null"))
}

/// Echoes of both families that came back from `far` to `near`, of ten.
pub fn echoes(machine: &mut Machine) -> Result<u64, Error> {
    let mut received = 0;
    for (program, to) in [("ping", "10.2.0.2"), ("ping6", "fd02::2")] {
        let line = format!("/bin/ip netns exec near {program} -c {ECHOES} -i 0.2 -w 10 {to}");
        let ended = machine.attempt(&line, INSIDE)?;
        received += pinged(&ended.output).map_or(0, |(_, received, _)| received);
    }
    Ok(received)
}

/// A flow of datagrams.
pub struct Flow {
    pub from: &'static str,
    pub to: &'static str,
    pub address: &'static str,
    pub count: u32,
}

impl Flow {
    /// Sends it, runs `meanwhile` a second after its begin, and returns the number of datagrams
    /// that arrived, the number of the last one, and the longest gap.
    pub fn pass(
        &self,
        machine: &mut Machine,
        meanwhile: impl FnOnce(&mut Machine) -> Result<(), Error>,
    ) -> Result<(u64, u64, u64), Error> {
        let Self { from, to, address, count } = self;
        let address = format!("{address}:7000");
        begin(machine, to, &format!("receive {address} {count}"))?;
        let send = end(from, &format!("send {address} {count} {RATE}"));
        machine
            .run(&format!("({send} > /tmp/send.out 2>&1; touch /tmp/sent) & sleep 1"), INSIDE)?;
        meanwhile(machine)?;
        let said = finish(machine)?;
        machine.run("until [ -e /tmp/sent ]; do sleep 0.1; done; rm /tmp/sent", INSIDE)?;
        let number = |after: &str| {
            let mut words = said.split_whitespace().skip_while(|word| *word != after);
            words.nth(1).and_then(|word| word.parse().ok()).unwrap_or(0)
        };
        Ok((number("received"), number("last"), number("missing")))
    }
}

/// Sends a megabyte from `near` to an address of `far` by TCP; returns the output of the far end.
pub fn stream(machine: &mut Machine, address: &str) -> Result<String, Error> {
    let address = format!("{address}:7001");
    begin(machine, "far", &format!("take {address}"))?;
    machine.run(&end("near", &format!("give {address} 1000000")), INSIDE)?;
    finish(machine)
}

pub fn end(namespace: &str, task: &str) -> String {
    format!("/bin/ip netns exec {namespace} env {TASK}='{task}' agent --exact agent --nocapture")
}

/// Starts a receiving end, and waits until it is there.
pub fn begin(machine: &mut Machine, namespace: &str, task: &str) -> Result<(), Error> {
    let line = format!(
        "rm -f /tmp/end.*; ({} > /tmp/end.out 2>&1; touch /tmp/end.done) & true",
        end(namespace, task)
    );
    machine.run(&line, INSIDE)?;
    until(machine, "grep -q ready /tmp/end.out")
}

fn finish(machine: &mut Machine) -> Result<String, Error> {
    until(machine, "[ -e /tmp/end.done ]")?;
    let said = machine.run("cat /tmp/end.out", INSIDE)?;
    let line = said.lines().find(|line| line.starts_with("received"));
    Ok(line.unwrap_or(&said).to_owned())
}
