//! Flows of an nftables flowtable, with address translation, that XDP programs forward. Skipped where
//! `rig/fetch` (part of `make tools`) has fetched nothing.

use crate::{checks, found, hold_all, this_program, wattline};

#[test]
#[ignore = "takes minutes; `make rig` makes these checks, too"]
fn flows_of_a_flowtable_are_forwarded_and_translated_by_xdp_programs() {
    let test = "flows_of_a_flowtable_are_forwarded_and_translated_by_xdp_programs";
    let Some(rig) = found(test) else { return };
    hold_all(|checks| checks::nat(&rig, wattline(), &this_program(), checks));
}
