//! Traffic between both neighbours that workers forward, and no other.

use super::super::{Checks, Witness};
use super::site::{self, FAR, Flow, NEAR, Router, by_kernel, echoes};
use std::path::Path;
use std::time::Duration;
use wattline_testbed::Error;
use wattline_testbed::rig::{Machine, Options, Rig};

/// Boots a machine with bonds and VLANs and builds the plain port and both neighbours in it.
/// `agent` is a program that calls [`super::serve`].
pub fn boot(rig: &Rig, wattline: &Path, agent: &Path, limit: Duration) -> Result<Machine, Error> {
    let programs = vec![("wattline", wattline.to_owned()), ("agent", agent.to_owned())];
    let options = Options { programs, bonds: true, limit: Some(limit), ..Options::default() };
    let mut machine = Machine::boot(rig, &options)?;
    site::build(&mut machine)?;
    Ok(machine)
}

/// Checks that echoes, datagrams and a TCP stream arrive complete, and that workers forward all of
/// them and the kernel none. `count` is the number of datagrams of a flow.
pub fn by_workers(
    machine: &mut Machine,
    router: &Router,
    kind: &str,
    count: u32,
    checks: &mut Checks,
) -> Result<(), Error> {
    let before = (router.stats(machine)?["forwarded"].as_u64(), by_kernel(machine)?);
    let mut packets = 2 * echoes(machine)?;
    checks.equal(format!("{kind}: echo packets"), Witness::Inside, &20, &packets);
    for (from, to, [v4, v6]) in [("near", "far", FAR), ("far", "near", NEAR)] {
        for address in [v4, v6] {
            let flow = Flow { from, to, address, count };
            let (received, ..) = flow.pass(machine, |_| Ok(()))?;
            packets += received;
            let what = format!("{kind}: datagrams from {from} to {address}");
            checks.equal(what, Witness::Inside, &u64::from(count), &received);
        }
    }
    let said = site::stream(machine, site::FAR[0])?;
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
