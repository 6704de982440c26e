//! A real memcached, profiled and governed by Co-PI in an emulated machine. Skipped where `rig/fetch`
//! (part of `make tools`) has fetched nothing, and without root.

use crate::checks::{self, Checks};
use std::path::Path;
use wattline_testbed::rig::Rig;

#[test]
#[ignore = "takes ten minutes, on a busy host half an hour; `make rig-copi` makes the same checks"]
fn memcached_is_profiled_and_governed_within_its_latency() {
    let test = "memcached_is_profiled_and_governed_within_its_latency";
    let Some(rig) = Rig::find() else {
        return wattline_needs::skip(
            Some(test),
            wattline_needs::Need::Tool,
            "emulator and guest in target/rig",
        );
    };
    let wattline = Path::new(env!("CARGO_BIN_EXE_wattline"));
    let mut checks = Checks::told_by(|check| println!("{check}"));
    let skipped = checks::copi(&rig, wattline, &mut checks).unwrap_or_else(|e| panic!("{e}"));
    if let Some(why) = skipped {
        return wattline_needs::skip(Some(test), wattline_needs::Need::Machine, why);
    }
    assert!(!checks.checks.is_empty());
    let failed: Vec<String> = checks.failed().map(|check| format!("{check:?}")).collect();
    assert!(failed.is_empty(), "{failed:#?}");
}
