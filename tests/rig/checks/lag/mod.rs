//! A bond as a port of the router: workers forward its traffic, also while members fail and after
//! the bond was deleted and made again. The port is left to the kernel while the kernel would do
//! more with its frames than route them.

mod end;
pub(super) mod forwarding;
pub(super) mod site;

pub use end::serve;

use super::{Checks, INSIDE, Witness};
use site::{FAR, Flow, NEAR, RATE, Router, by_kernel, echoes};
use std::path::Path;
use std::time::Duration;
use wattline_testbed::Error;
use wattline_testbed::rig::{Machine, Rig};

/// Bonds that are tested.
const KINDS: [&str; 3] = ["mode active-backup", "mode balance-xor", "mode 802.3ad lacp_rate fast"];
/// Time for all checks, on a busy host.
const LIMIT: Duration = Duration::from_secs(1500);
/// The mode that a bond's port reports.
const MODE: &str = "af_xdp, copy, generic xdp; workers forward received packets: it is a bond";
/// The same where workers forward everything.
const BY_WORKERS: &str = "af_xdp, copy, generic xdp";
/// Datagrams of a flow.
const COUNT: u32 = 500;

/// Boots a machine and makes all checks; `agent` is a program that calls [`serve`].
///
/// # Errors
/// When the machine fails; a check that does not hold is not an error.
pub fn lag(rig: &Rig, wattline: &Path, agent: &Path, checks: &mut Checks) -> Result<(), Error> {
    let mut machine = forwarding::boot(rig, wattline, agent, LIMIT)?;
    for kind in KINDS {
        forwards(&mut machine, kind, checks)?;
    }
    merging_members_and_vlans(&mut machine, checks)?;
    beside_another(&mut machine, checks)?;
    machine.power_off()
}

/// Workers forward the traffic of one kind of bond.
fn forwards(machine: &mut Machine, kind: &str, checks: &mut Checks) -> Result<(), Error> {
    site::bond(machine, kind)?;
    let router = Router::start(machine, "lag", "", "c0")?;
    let found = router.port(machine)?;
    let up = |mode: &str| ("up".to_owned(), mode.to_owned(), String::new());
    checks.equal(format!("{kind}: the port"), Witness::Inside, &up(MODE), &found);
    let shown = machine.run("wattline show ports --socket /tmp/lag.socket", INSIDE)?;
    let named = shown.lines().any(|line| line.contains("how ") && line.contains(MODE));
    checks.equal(format!("{kind}: show ports says how it runs"), Witness::Inside, &true, &named);
    let log = router.log(machine)?;
    let reported = log.contains("workers send to it: it is a bond");
    checks.equal(
        format!("{kind}: the log says who sends to it"),
        Witness::Inside,
        &true,
        &reported,
    );

    forwarding::by_workers(machine, &router, kind, COUNT, checks)?;

    if kind.contains("802.3ad") {
        // Three seconds without LACPDUs would have ended it; all of the above took longer.
        let state =
            machine.run("grep -E 'Number of ports|Partner Mac' /proc/net/bonding/lag0", INSIDE)?;
        let holds = state.contains("Number of ports: 2") && !state.contains("00:00:00:00:00:00");
        checks.equal("LACP still holds both members together", Witness::Inside, &true, &holds);
    }
    members_fail(machine, kind, checks)?;
    if kind.contains("active-backup") {
        inactive_member(machine, checks)?;
    }
    comes_back(machine, kind, &router, checks)?;
    let status = router.stop(machine)?;
    checks.equal(format!("{kind}: exit code of the router"), Witness::Inside, &0, &status);
    let left = machine.run("/bin/ip link show | grep -c xdp || true", INSIDE)?;
    checks.equal(format!("{kind}: programs left"), Witness::Inside, &"0", &left.trim());
    site::unbond(machine)
}

/// Each member in turn goes down under traffic and comes back; one of them was in use.
fn members_fail(machine: &mut Machine, kind: &str, checks: &mut Checks) -> Result<(), Error> {
    for (from, to, address) in [("near", "far", FAR[0]), ("far", "near", NEAR[1])] {
        let flow = Flow { from, to, address, count: 12 * RATE };
        let (received, last, missing) = flow.pass(machine, |machine| {
            ["m0", "m1"].iter().try_for_each(|member| {
                site::fail(machine, member)?;
                machine.run("sleep 2", INSIDE)?;
                site::mend(machine, member)
            })
        })?;
        let lost = u64::from(flow.count) - received;
        let what = format!("{kind}: the last datagram from {from} came");
        checks.equal(what, Witness::Inside, &u64::from(flow.count - 1), &last);
        // A bond polls its links every 50 ms, an emulated machine on a busy host more slowly. All
        // datagrams while a member is down would be two seconds' worth each. LACP negotiates again,
        // which takes longer.
        let what = format!(
            "{kind}: datagrams from {from} lost, of {} ({missing} in a row at most)",
            flow.count
        );
        let most = if kind.contains("802.3ad") { 3 * RATE } else { 2 * RATE };
        checks.within(what, Witness::Inside, &(0.0..f64::from(most)), lost as f64);
        site::until_echoes(machine)?;
        let what = format!("{kind}: echoes after that");
        checks.equal(what, Witness::Inside, &10, &echoes(machine)?);
    }
    site::fail(machine, "m0")?;
    site::until_echoes(machine)?;
    checks.equal(format!("{kind}: echoes without m0"), Witness::Inside, &10, &echoes(machine)?);
    site::mend(machine, "m0")
}

/// Frames that arrive at the inactive member are not for the bond.
fn inactive_member(machine: &mut Machine, checks: &mut Checks) -> Result<(), Error> {
    let active = machine.run("cat /sys/class/net/lag0/bonding/active_slave", INSIDE)?;
    let set = |member: &str| {
        format!(
            "/bin/ip netns exec near sh -c \
             'echo {member} > /sys/class/net/lag0/bonding/active_slave'"
        )
    };
    let (same, other) = if active.trim() == "m0" { ("p0", "p1") } else { ("p1", "p0") };
    machine.run(&set(other), INSIDE)?;
    let what = "echoes that came in by the member that is not active";
    checks.equal(what, Witness::Inside, &0, &echoes(machine)?);
    machine.run(&set(same), INSIDE)?;
    checks.equal("echoes by the active one again", Witness::Inside, &10, &echoes(machine)?);
    Ok(())
}

/// The bond is deleted and made again.
fn comes_back(
    machine: &mut Machine,
    kind: &str,
    router: &Router,
    checks: &mut Checks,
) -> Result<(), Error> {
    site::unbond(machine)?;
    router.until(machine, "absent")?;
    site::bond(machine, kind)?;
    router.until(machine, "up")?;
    site::until_echoes(machine)?;
    let before = by_kernel(machine)?;
    checks.equal(
        format!("{kind}: echoes by the new bond"),
        Witness::Inside,
        &10,
        &echoes(machine)?,
    );
    let by_kernel = by_kernel(machine)? - before;
    checks.equal(format!("{kind}: of those by the kernel"), Witness::Inside, &0, &by_kernel);
    let (_, mode, _) = router.port(machine)?;
    checks.equal(format!("{kind}: how the new one runs"), Witness::Inside, &MODE, &mode.as_str());
    Ok(())
}

/// While a member merges packets, or a VLAN exists, the port is left to the kernel.
fn merging_members_and_vlans(machine: &mut Machine, checks: &mut Checks) -> Result<(), Error> {
    site::bond(machine, "mode balance-xor xmit_hash_policy layer3+4")?;
    let router = Router::start(machine, "lag", "xdp_forward = \"off\"", "c0")?;
    let (_, mode, _) = router.port(machine)?;
    checks.equal(
        "mode of a bond without XDP forwarding",
        Witness::Inside,
        &BY_WORKERS,
        &mode.as_str(),
    );
    let log = router.log(machine)?;
    let reported = log.contains("by layer3+4 (`xmit_hash_policy`)");
    checks.equal("the log names the hash", Witness::Inside, &true, &reported);
    let changes = [
        ("ethtool -K m1 gro on", "ethtool -K m1 gro off", "its member m1 merges packets"),
        (
            "/bin/ip link add link lag0 name lag0.7 type vlan id 7",
            "/bin/ip link delete lag0.7",
            "lag0 is a bond with VLANs",
        ),
    ];
    for (on, off, why) in changes {
        machine.run(on, INSIDE)?;
        router.until(machine, "left")?;
        let (_, _, reason) = router.port(machine)?;
        checks.equal(format!("{on}: {reason}"), Witness::Inside, &true, &reason.contains(why));
        let before = by_kernel(machine)?;
        checks.equal(format!("{on}: echoes"), Witness::Inside, &10, &echoes(machine)?);
        // The kernel also forwards the plain port's packets to the bond.
        let by_kernel = by_kernel(machine)? - before;
        checks.equal(format!("{on}: packets by the kernel"), Witness::Inside, &20, &by_kernel);
        machine.run(off, INSIDE)?;
        router.until(machine, "up")?;
        checks.equal(format!("{off}: echoes"), Witness::Inside, &10, &echoes(machine)?);
    }
    let status = router.stop(machine)?;
    checks.equal("exit code of that router", Witness::Inside, &0, &status);
    site::unbond(machine)
}

/// A router starts although another program holds its bond.
fn beside_another(machine: &mut Machine, checks: &mut Checks) -> Result<(), Error> {
    site::bond(machine, "mode active-backup")?;
    let spare = "link add e0 type veth peer name e1\nlink set e0 up\nlink set e1 up";
    super::ipsec::ip(machine, None, spare)?;
    let first = Router::start(machine, "first", "", "c0")?;
    let second = Router::start(machine, "lag", "", "e0")?;
    let (state, _, reason) = second.port(machine)?;
    checks.equal("a bond of another router", Witness::Inside, &"failed", &state.as_str());
    let named = reason.contains("has an XDP program already");
    checks.equal(format!("why: {reason}"), Witness::Inside, &true, &named);
    checks.equal("exit code of the first", Witness::Inside, &0, &first.stop(machine)?);
    second.until(machine, "up")?;
    let (_, mode, _) = second.port(machine)?;
    checks.equal("mode after that", Witness::Inside, &MODE, &mode.as_str());
    checks.equal("exit code of the second", Witness::Inside, &0, &second.stop(machine)?);
    super::ipsec::ip(machine, None, "link delete e0")?;
    site::unbond(machine)
}
