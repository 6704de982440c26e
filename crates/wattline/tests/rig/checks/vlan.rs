//! Ports with VLAN subinterfaces: what comes in with a tag, goes out with another or without one, by
//! workers; and who forwards while the interface takes tags off.
//!
//! ```text
//!   near: p0.7 ── c1.7: Wattline: c0 ── d0: far, and then c0.9 ── d0.9
//!   10.1.0.2, fd01::2  10.1.0.1, fd01::1  10.2.0.1, fd02::1   10.2.0.2, fd02::2
//! ```

use super::ipsec::ip;
use super::lag::site::{self, FAR, Flow, NEAR, Router, by_kernel, echoes};
use super::{Checks, INSIDE, Witness};
use std::path::Path;
use std::time::Duration;
use wattline_testbed::Error;
use wattline_testbed::rig::{Machine, Options, Rig};

/// For the whole of it, on a busy host.
const LIMIT: Duration = Duration::from_secs(900);
/// Datagrams of a flow.
const COUNT: u32 = 250;

/// Boots a machine for it and adds all checks; `agent` is a program that is an end of a flow.
///
/// # Errors
/// When the machine fails; a check that does not hold is no error.
pub fn vlan(rig: &Rig, wattline: &Path, agent: &Path, checks: &mut Checks) -> Result<(), Error> {
    let programs = vec![("wattline", wattline.to_owned()), ("agent", agent.to_owned())];
    let limit = Some(LIMIT);
    let options = Options { programs, bonds: true, limit, ..Options::default() };
    let mut machine = Machine::boot(rig, &options)?;
    site::build(&mut machine)?;
    trunk(&mut machine)?;
    let router = Router::start_with(&mut machine, "vlan", "", [("trunk", "c1"), ("plain", "c0")])?;
    by_the_kernel(&mut machine, &router, checks)?;
    whole_tags(&mut machine, "c1")?;
    router.until(&mut machine, "up")?;
    forwards(&mut machine, &router, "a tag and none", checks)?;
    tagged_far(&mut machine)?;
    forwards(&mut machine, &router, "two tags", checks)?;
    let status = router.stop(&mut machine)?;
    checks.equal("exit code of the router", Witness::Inside, &0, &status);
    checks.equal("echoes by the kernel after that", Witness::Inside, &10, &echoes(&mut machine)?);
    machine.power_off()
}

/// The neighbour behind VLAN 7.
fn trunk(machine: &mut Machine) -> Result<(), Error> {
    ip(
        machine,
        None,
        "link add c1 type veth peer name p0 netns near\nlink set c1 up\n\
         link add link c1 name c1.7 type vlan id 7\nlink set c1.7 up\n\
         address add 10.1.0.1/24 dev c1.7\naddress add fd01::1/64 dev c1.7 nodad",
    )?;
    ip(
        machine,
        Some("near"),
        "link set p0 up\nlink add link p0 name p0.7 type vlan id 7\nlink set p0.7 up\n\
         address add 10.1.0.2/24 dev p0.7\naddress add fd01::2/64 dev p0.7 nodad\n\
         route add default via 10.1.0.1\nroute add default via fd01::1",
    )?;
    ["p0", "p0.7"].iter().try_for_each(|name| site::plain(machine, "near", name))?;
    written_out(machine, "near", "p0")
}

/// Tags are in the frames, as on a cable.
fn written_out(machine: &mut Machine, namespace: &str, interface: &str) -> Result<(), Error> {
    let off = format!("/bin/ip netns exec {namespace} ethtool -K {interface} txvlan off");
    machine.run(&off, INSIDE).map(drop)
}

/// The router's own interface leaves them there.
fn whole_tags(machine: &mut Machine, interface: &str) -> Result<(), Error> {
    machine.run(&format!("ethtool -K {interface} rxvlan off txvlan off"), INSIDE).map(drop)
}

/// While tags are taken off, frames of a VLAN look like others: the kernel forwards.
fn by_the_kernel(machine: &mut Machine, router: &Router, checks: &mut Checks) -> Result<(), Error> {
    let (state, _, reason) = router.port(machine)?;
    checks.equal("a port whose tags are taken off", Witness::Inside, &"left", &state.as_str());
    let named = reason.contains("rxvlan");
    checks.equal(format!("why: {reason}"), Witness::Inside, &true, &named);
    site::until_echoes(machine)?;
    let before = by_kernel(machine)?;
    checks.equal("echoes by the kernel", Witness::Inside, &10, &echoes(machine)?);
    let counted = by_kernel(machine)? - before >= 10;
    checks.equal("counted by the kernel", Witness::Inside, &true, &counted);
    Ok(())
}

/// The other neighbour gets its addresses behind VLAN 9.
fn tagged_far(machine: &mut Machine) -> Result<(), Error> {
    whole_tags(machine, "c0")?;
    ip(
        machine,
        None,
        "address flush dev c0 scope global\nlink add link c0 name c0.9 type vlan id 9\n\
         link set c0.9 up\naddress add 10.2.0.1/24 dev c0.9\naddress add fd02::1/64 dev c0.9 nodad",
    )?;
    ip(
        machine,
        Some("far"),
        "address flush dev d0 scope global\nlink add link d0 name d0.9 type vlan id 9\n\
         link set d0.9 up\naddress add 10.2.0.2/24 dev d0.9\naddress add fd02::2/64 dev d0.9 nodad\n\
         route replace default via 10.2.0.1\nroute replace default via fd02::1",
    )?;
    site::plain(machine, "far", "d0.9")?;
    written_out(machine, "far", "d0")
}

/// Everything comes through, and no packet of it by the kernel.
fn forwards(
    machine: &mut Machine,
    router: &Router,
    kind: &str,
    checks: &mut Checks,
) -> Result<(), Error> {
    site::until_echoes(machine)?;
    let before = (router.stats(machine)?["forwarded"].as_u64(), by_kernel(machine)?);
    let mut packets = 2 * echoes(machine)?;
    checks.equal(format!("{kind}: echo packets"), Witness::Inside, &20, &packets);
    for (from, to, [v4, v6]) in [("near", "far", FAR), ("far", "near", NEAR)] {
        for address in [v4, v6] {
            let flow = Flow { from, to, address, count: COUNT };
            let (received, ..) = flow.pass(machine, |_| Ok(()))?;
            packets += received;
            let what = format!("{kind}: datagrams from {from} to {address}");
            checks.equal(what, Witness::Inside, &u64::from(COUNT), &received);
        }
    }
    let said = site::stream(machine)?;
    let whole = "received 1000000 whole";
    checks.equal(format!("{kind}: a stream"), Witness::Inside, &whole, &said.as_str());
    let after = (router.stats(machine)?["forwarded"].as_u64(), by_kernel(machine)?);
    let forwarded = after.0.unwrap_or(0) - before.0.unwrap_or(0);
    let what = format!("{kind}: workers forwarded at least the {packets} packets");
    checks.equal(what, Witness::Inside, &true, &(forwarded >= packets));
    let by_kernel = after.1 - before.1;
    checks.equal(format!("{kind}: packets by the kernel"), Witness::Inside, &0, &by_kernel);
    Ok(())
}
