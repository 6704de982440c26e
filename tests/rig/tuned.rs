//! A trial between two profiles of TuneD. Skipped where `rig/fetch-tuned` has fetched nothing.

use crate::{checks, found, hold_all, wattline};
use wattline_needs::{Need, skip};

#[test]
#[ignore = "takes minutes"]
fn profile_of_tuned_from_before_a_killed_trial_is_active_again() {
    let test = "profile_of_tuned_from_before_a_killed_trial_is_active_again";
    let Some(rig) = found(test) else { return };
    if rig.tuned().is_none() {
        return skip(Some(test), Need::Tool, "TuneD in target/rig (rig/fetch-tuned)");
    }
    hold_all(|checks| checks::tuned(&rig, wattline(), checks));
}
