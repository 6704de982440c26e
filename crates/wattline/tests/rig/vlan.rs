//! VLAN subinterfaces, with the driver `8021q` of an emulated machine's kernel. Skipped where
//! `rig/fetch` (part of `make tools`) has fetched nothing.

use crate::checks::{self, Checks};
use std::path::Path;
use wattline_testbed::rig::Rig;

#[test]
#[ignore = "takes minutes; `make rig` makes these checks, too"]
fn packets_of_vlans_are_forwarded_by_workers() {
    let test = "packets_of_vlans_are_forwarded_by_workers";
    let Some(rig) = Rig::find() else {
        return wattline_needs::skip(
            Some(test),
            wattline_needs::Need::Tool,
            "emulator and guest in target/rig",
        );
    };
    let wattline = Path::new(env!("CARGO_BIN_EXE_wattline"));
    let mut checks = Checks::told_by(|check| println!("{check}"));
    let ended = checks::vlan(&rig, wattline, &std::env::current_exe().unwrap(), &mut checks);
    ended.unwrap_or_else(|error| panic!("{error}"));
    assert!(!checks.checks.is_empty());
    let failed: Vec<String> = checks.failed().map(|check| format!("{check:?}")).collect();
    assert!(failed.is_empty(), "{failed:#?}");
}
