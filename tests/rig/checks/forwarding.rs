//! The router on the emulated cards: AF_XDP on a real driver, an indirection table that steers its
//! workers, and XDP programs that forward by themselves.

use super::stretch::{BEFORE_THE_CARD, Counted};
use super::{Checks, INSIDE, Witness, knobs, sensors};
use std::collections::BTreeMap;
use std::time::Duration;
use wattline_testbed::Error;
use wattline_testbed::rig::{Machine, traffic};
use wattline_testbed::topology::mac_text;

/// Frames a second and for how long: fewer than a queue of the card has descriptors (256), so that
/// none is lost however long a busy host stops the guest.
const RATE: f64 = 50.0;
const TIME: Duration = Duration::from_secs(4);
/// The control socket of the router inside.
const SOCKET: &str = "/tmp/router.socket";

/// Forwards from `eth0` to `eth1`.
pub(super) fn check(machine: &mut Machine, checks: &mut Checks) -> Result<(), Error> {
    start(machine, "")?;
    let stats = stats();
    let counted = Counted::ask(machine)?;
    let first = pass(machine)?;
    let mut lost = Counted::ask(machine)?.lost_since(&counted, &first);
    // Frames that the emulator loses before its card never reach the guest.
    let emulator = lost.remove(BEFORE_THE_CARD).unwrap_or(0);
    checks.equal("frames lost on their way", Witness::Outside, &BTreeMap::new(), &lost);
    let given = first.sent - emulator;
    checks.equal("frames forwarded by the router", Witness::Outside, &given, &first.forwarded);
    checks.equal(
        "nine frames of ten, at least",
        Witness::Outside,
        &true,
        &(given * 10 >= first.sent * 9),
    );
    checks.equal("frames forwarded wrongly", Witness::Outside, &0, &first.odd);
    checks.equal("frames were sent at all", Witness::Outside, &true, &(first.sent > 0));
    let before = sensors::json(machine, &stats)?;
    let mode = before["ports"][0]["mode"].as_str().unwrap_or_default().to_owned();
    checks.equal("mode of eth0", Witness::Inside, &"af_xdp, copy, native xdp", &mode.as_str());
    let had: Vec<bool> = received(&before).iter().map(|frames| *frames > 0).collect();
    if machine.card == "igb" {
        checks.equal("workers that got frames", Witness::Inside, &vec![true, true], &had);
        knobs::start(machine, &["redirect eth0 1"])?;
        let second = pass(machine)?;
        let after = sensors::json(machine, &stats)?;
        let gained: Vec<bool> = received(&before)
            .iter()
            .zip(received(&after))
            .map(|(before, after)| after - before == second.sent)
            .collect();
        let what = "worker 1 gets all that is steered to it";
        checks.equal(what, Witness::Inside, &vec![false, true], &gained);
        checks.equal(
            "frames forwarded by that one",
            Witness::Outside,
            &second.sent,
            &second.forwarded,
        );
        knobs::end(machine, "TERM")?;
    }
    let status = stop(machine)?;
    checks.equal("exit code of the router", Witness::Inside, &0, &status);
    by_xdp(machine, checks)
}

/// Forwards from `eth0` to `eth1` by XDP programs, without a worker.
fn by_xdp(machine: &mut Machine, checks: &mut Checks) -> Result<(), Error> {
    let neighbour = format!("arp -i eth1 -s 10.2.0.2 {}", mac_text(traffic::SINK));
    machine.run(&neighbour, INSIDE)?;
    launch(machine, "xdp_forward = \"on\"", "")?;
    let mode = |machine: &mut Machine| -> Result<String, Error> {
        let stats = sensors::json(machine, &stats())?;
        Ok(stats["ports"][1]["mode"].as_str().unwrap_or_default().to_owned())
    };
    let expected = "af_xdp, copy, native xdp, xdp forward";
    let found = mode(machine)?;
    checks.equal("mode of eth1 with XDP programs", Witness::Inside, &expected, &found.as_str());
    let counts = pass(machine)?;
    let what = "frames forwarded by XDP";
    checks.equal(what, Witness::Outside, &counts.sent, &counts.forwarded);
    checks.equal("frames forwarded wrongly by XDP", Witness::Outside, &0, &counts.odd);
    let stats = sensors::json(machine, &stats())?;
    let counted = stats["xdp_forwarded"].as_u64().unwrap_or(0);
    checks.equal("frames that XDP counts", Witness::Inside, &counts.sent, &counted);
    let status = stop(machine)?;
    machine.run("arp -i eth1 -d 10.2.0.2", INSIDE)?;
    checks.equal("exit code of that router", Witness::Inside, &0, &status);
    Ok(())
}

fn pass(machine: &Machine) -> Result<traffic::TrafficCounts, Error> {
    let [into, out, ..] = &machine.wires[..] else { return Ok(traffic::TrafficCounts::default()) };
    traffic::pass(into, out, RATE, TIME)
}

/// The command that asks the router inside for its counters.
pub(super) fn stats() -> String {
    format!("wattline stats --json --socket {SOCKET}")
}

/// Frames that each worker has taken.
fn received(stats: &serde_json::Value) -> Vec<u64> {
    let workers = stats["workers"].as_array().into_iter().flatten();
    workers.map(|worker| worker["received"].as_u64().unwrap_or(0)).collect()
}

/// Starts the router in the guest, a worker per CPU, with `more` in its configuration.
pub(super) fn start(machine: &mut Machine, more: &str) -> Result<(), Error> {
    let neighbour = format!(
        "[[neighbour]]\naddress = \"10.2.0.2\"\nport = \"b\"\nmac = \"{}\"\n{more}",
        mac_text(traffic::SINK)
    );
    launch(machine, "", &neighbour)
}

/// Starts it with keys of `[router]` and with `more`.
pub(super) fn launch(machine: &mut Machine, keys: &str, more: &str) -> Result<(), Error> {
    let config = format!(
        "[router]\nworkers = 2\ncpus = [0, 1]\nsocket = \"{SOCKET}\"\n{keys}\n\
         [[port]]\nname = \"a\"\ninterface = \"eth0\"\n\
         [[port]]\nname = \"b\"\ninterface = \"eth1\"\n{more}"
    );
    machine.run("rm -f /tmp/router.*; echo 1 > /proc/sys/net/ipv4/ip_forward", INSIDE)?;
    for (interface, address) in [("eth0", "10.1.0.1/16"), ("eth1", "10.2.0.1/24")] {
        let line = format!("ip addr replace {address} dev {interface}; ip link set {interface} up");
        machine.run(&line, INSIDE)?;
    }
    for line in config.lines() {
        machine.run(&format!("echo '{line}' >> /tmp/router.toml"), INSIDE)?;
    }
    let line = "(sh -c 'echo $$ > /tmp/router.pid; exec wattline run /tmp/router.toml --json' \
                > /tmp/router.out 2> /tmp/router.log; echo $? > /tmp/router.status) & true";
    machine.run(line, INSIDE)?;
    let wait = format!(
        "until wattline stats --socket {SOCKET} > /tmp/router.stats 2>&1 && \
         cat /sys/class/net/eth?/carrier | tr -d '\\n' | grep -q 11; do \
         [ -e /tmp/router.status ] && {{ cat /tmp/router.log >&2; exit 1; }}; sleep 0.2; done"
    );
    machine.run(&wait, INSIDE).map(drop)
}

/// Stops the router and returns its exit code.
pub(super) fn stop(machine: &mut Machine) -> Result<i32, Error> {
    let line = "kill -TERM $(cat /tmp/router.pid); until [ -s /tmp/router.status ]; \
                do sleep 0.1; done; cat /tmp/router.status";
    Ok(machine.run(line, INSIDE)?.trim().parse().unwrap_or(-1))
}
