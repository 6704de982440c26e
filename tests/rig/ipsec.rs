//! Wattline's ESP with the kernel of an emulated machine and with strongSwan as its peers.
//! Skipped where `rig/fetch` (part of `make tools`) has fetched nothing.

use crate::{checks, found, hold_all, wattline};

#[test]
fn the_kernel_and_strongswan_are_understood() {
    let Some(rig) = found("the_kernel_and_strongswan_are_understood") else { return };
    hold_all(|checks| checks::ipsec(&rig, wattline(), checks));
}
