//! Flows of an nftables flowtable, with address translation, that XDP programs forward. Skipped where
//! `rig/fetch` (part of `make tools`) has fetched nothing.

use crate::{checks, found, hold_all, this_program, wattline};

#[test]
#[ignore = "takes minutes; `make rig` makes these checks, too"]
fn flows_of_a_flowtable_are_forwarded_and_translated_by_xdp_programs() {
    let test = "flows_of_a_flowtable_are_forwarded_and_translated_by_xdp_programs";
    let Some(rig) = found(test) else { return };
    // Batches of flows for 10,000 of each kind, unless fewer are asked for.
    let batches = extent("WATTLINE_RIG_BATCHES", 20);
    hold_all(|checks| checks::nat(&rig, wattline(), &this_program(), batches, checks));
}

fn extent(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |it| it.parse().unwrap())
}

#[test]
#[ignore = "measures for an hour"]
fn flows_are_measured_by_chains_flowtable_and_xdp_programs() {
    let test = "flows_are_measured_by_chains_flowtable_and_xdp_programs";
    let Some(rig) = found(test) else { return };
    let times = extent("WATTLINE_RIG_TIMES", 10) as usize;
    hold_all(|checks| {
        ["live-frames", "sockets"].into_iter().try_for_each(|send_by| {
            checks::flow_speed(&rig, wattline(), &this_program(), (send_by, times), checks)
        })
    });
}
