//! Wattline's ESP with the kernel of an emulated machine and with strongSwan as its peers.
//! Skipped where `rig/fetch` (part of `make tools`) has fetched nothing.

use crate::checks::{self, Checks};
use std::path::Path;
use wattline_testbed::rig::Rig;

#[test]
fn the_kernel_and_strongswan_are_understood() {
    let test = "the_kernel_and_strongswan_are_understood";
    let Some(rig) = Rig::find() else {
        return wattline_needs::skip(
            Some(test),
            wattline_needs::Need::Tool,
            "emulator and guest in target/rig",
        );
    };
    let wattline = Path::new(env!("CARGO_BIN_EXE_wattline"));
    let mut checks = Checks::told_by(|check| println!("{check}"));
    let ended = checks::ipsec(&rig, wattline, &mut checks);
    ended.unwrap_or_else(|error| panic!("{error}"));
    assert!(!checks.checks.is_empty());
    let failed: Vec<String> = checks.failed().map(|check| format!("{check:?}")).collect();
    assert!(failed.is_empty(), "{failed:#?}");
}
