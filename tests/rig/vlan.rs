//! VLAN subinterfaces, with the driver `8021q` of an emulated machine's kernel. Skipped where
//! `rig/fetch` (part of `make tools`) has fetched nothing.

use crate::{checks, found, hold_all, this_program, wattline};

#[test]
#[ignore = "takes minutes; `make rig` makes these checks, too"]
fn packets_of_vlans_are_forwarded_by_workers() {
    let Some(rig) = found("packets_of_vlans_are_forwarded_by_workers") else { return };
    hold_all(|checks| checks::vlan(&rig, wattline(), &this_program(), checks));
}
