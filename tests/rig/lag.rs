//! Bonds as ports, with the driver `bonding` of an emulated machine's kernel. Skipped where
//! `rig/fetch` (part of `make tools`) has fetched nothing.

use crate::{checks, found, hold_all, this_program, wattline};

#[test]
#[ignore = "takes minutes; `make rig` makes these checks, too"]
fn a_bond_is_forwarded_through_by_workers() {
    let Some(rig) = found("a_bond_is_forwarded_through_by_workers") else { return };
    hold_all(|checks| checks::lag(&rig, wattline(), &this_program(), checks));
}
