//! A real memcached, profiled and governed by Co-PI in an emulated machine. Skipped where
//! `rig/fetch` (part of `make tools`) has fetched nothing, and without root.

use crate::checks::{self, Checks};
use crate::{all_hold, found, wattline};
use wattline_needs::{Need, skip};

#[test]
#[ignore = "takes ten minutes, on a busy host half an hour; `make rig-copi` makes the same checks"]
fn memcached_is_profiled_and_governed_within_its_latency() {
    let test = "memcached_is_profiled_and_governed_within_its_latency";
    let Some(rig) = found(test) else { return };
    let mut checks = Checks::reported_by(|check| println!("{check}"));
    let skipped = checks::copi(&rig, wattline(), &mut checks).unwrap_or_else(|e| panic!("{e}"));
    match skipped {
        Some(why) => skip(Some(test), Need::Machine, why),
        None => all_hold(&checks),
    }
}
