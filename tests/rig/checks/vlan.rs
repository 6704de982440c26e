//! Ports with VLAN subinterfaces. Workers forward frames that arrive with a tag and leave with
//! another one or with none. While the interface strips tags, the kernel forwards.
//!
//! ```text
//!   near: p0.7 ── c1.7: Wattline: c0 ── d0: far, and then c0.9 ── d0.9
//!   10.1.0.2, fd01::2  10.1.0.1, fd01::1  10.2.0.1, fd02::1   10.2.0.2, fd02::2
//! ```

use super::ipsec::ip;
use super::lag::forwarding;
use super::lag::site::{self, Router, by_kernel, echoes};
use super::{Checks, INSIDE, Witness};
use std::path::Path;
use std::time::Duration;
use wattline_testbed::Error;
use wattline_testbed::rig::{Machine, Rig};

/// Time for all checks, on a busy host.
const LIMIT: Duration = Duration::from_secs(900);
/// Datagrams of a flow.
const COUNT: u32 = 250;

/// Boots a machine and makes all checks; `agent` is a program that sends and receives flows.
///
/// # Errors
/// When the machine fails; a check that does not hold is not an error.
pub fn vlan(rig: &Rig, wattline: &Path, agent: &Path, checks: &mut Checks) -> Result<(), Error> {
    let mut machine = forwarding::boot(rig, wattline, agent, LIMIT)?;
    trunk(&mut machine)?;
    let router = Router::start_with(&mut machine, "vlan", "", [("trunk", "c1"), ("plain", "c0")])?;
    by_the_kernel(&mut machine, &router, checks)?;
    whole_tags(&mut machine, "c1")?;
    router.until(&mut machine, "up")?;
    site::until_echoes(&mut machine)?;
    forwarding::by_workers(&mut machine, &router, "a tag and none", COUNT, checks)?;
    tagged_far(&mut machine)?;
    site::until_echoes(&mut machine)?;
    forwarding::by_workers(&mut machine, &router, "two tags", COUNT, checks)?;
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

/// The interface writes tags into the frames, as on a cable.
fn written_out(machine: &mut Machine, namespace: &str, interface: &str) -> Result<(), Error> {
    let off = format!("/bin/ip netns exec {namespace} ethtool -K {interface} txvlan off");
    machine.run(&off, INSIDE).map(drop)
}

/// The router's interface leaves tags in the frames.
fn whole_tags(machine: &mut Machine, interface: &str) -> Result<(), Error> {
    machine.run(&format!("ethtool -K {interface} rxvlan off txvlan off"), INSIDE).map(drop)
}

/// While the interface strips tags, frames of a VLAN look like untagged ones: the kernel forwards.
fn by_the_kernel(machine: &mut Machine, router: &Router, checks: &mut Checks) -> Result<(), Error> {
    let (state, _, reason) = router.port(machine)?;
    checks.equal("a port whose tags are stripped", Witness::Inside, &"left", &state.as_str());
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
