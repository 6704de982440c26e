//! Liao and Bhuyan: the receive path of a 10 GbE host, its cycles, misses and power.
//!
//! Misses come from the cache simulator in `wattline_study::receive`. No source gives how many
//! receive queues were busy, what stood in the sockets, or which prefetchers the firmware left on.
//! These decide how much data lies between two uses of a buffer, and what a load still has to wait
//! for. Results that depend on them are therefore at best *fitted*, and two figures show how much
//! they depend.

mod assumptions;
mod cycles;
mod known;
mod misses;
mod power;
mod proposals;

use crate::step::Step;

pub(super) const STEPS: &[Step] = &[
    Step::new("liao: cycles", &["fig3", "registers"], cycles::figures),
    Step::new("liao: misses", &["fig4-8", "readings", "rings", "llc"], misses::figures),
    Step::new("liao: proposals", &["proposals", "rate-adaptive"], proposals::figures),
    Step::new("liao: power", &["fig10-11", "fig12-13"], power::figures),
];

#[cfg(test)]
mod tests {
    use crate::paper::Paper;
    use crate::reproduction::reproduce;
    use wattline_report::{Basis, Verdict};

    #[test]
    fn every_claim_of_liao_is_answered_with_a_reason() {
        let results = reproduce(&[Paper::Liao.into()], |_| ()).unwrap();
        let [liao] = results.as_slice() else { panic!("one paper") };
        assert_eq!(liao.claims.len(), 98);
        for claim in &liao.claims {
            assert!(claim.note != "nothing is known of it here", "{}", claim.claim.id);
            let reasoned = claim.verdict == Verdict::Meets || !claim.note.is_empty();
            assert!(reasoned, "{} has no reason", claim.claim.id);
        }
        let made: Vec<_> = liao.figures.iter().flat_map(|figure| &figure.checks).collect();
        let planned = crate::planned::made_for(Paper::Liao).unwrap();
        for check in &planned.checks {
            let answers = |claim: &String| made.iter().any(|m| m.claims.contains(&claim.as_str()));
            assert!(check.claims.iter().all(answers), "{}", check.id);
        }
        assert_eq!(made.len(), planned.checks.len());
        // Results that rest on the assumed rings are at best fitted.
        let simulated = ["LI-041", "LI-045", "LI-052", "LI-057", "LI-061"];
        for id in simulated {
            let claim = liao.claims.iter().find(|claim| claim.claim.id == id).unwrap();
            assert!(claim.basis >= Some(Basis::Fitted), "{id}");
        }
    }
}
