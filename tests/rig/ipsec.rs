//! Wattline's ESP with the kernel of an emulated machine and with strongSwan as its peers.
//! Skipped where `rig/fetch` (part of `make tools`) has fetched nothing.

use crate::{checks, found, hold_all, wattline};

#[test]
fn esp_interoperates_with_the_kernel_and_strongswan() {
    let Some(rig) = found("esp_interoperates_with_the_kernel_and_strongswan") else { return };
    hold_all(|checks| checks::ipsec(&rig, wattline(), checks));
}
