//! Sohan et al.: ten network cards, idle and under load.
//!
//! The tables are kept as data (`crates/server/servers/components/sohan-2010-nics.toml`), and a test compares
//! every cell with `claims.csv`. Cells are not checks; values computed from cells are.

mod active;
mod idle;
mod known;
mod ports;

use crate::step::Step;

pub(super) const STEPS: &[Step] = &[
    Step::new("sohan: idle power", &["table2", "table3"], idle::figures),
    Step::new("sohan: at work", &["table4", "fig2", "fig3"], active::figures),
    Step::new("sohan: 1G against 10G", &["table5", "fig4"], ports::figures),
];

#[cfg(test)]
mod tests {
    use crate::paper::Paper;
    use crate::reproduction::reproduce;
    use wattline_report::{Basis, Verdict};

    #[test]
    fn every_claim_of_sohan_is_answered_with_a_reason() {
        let results = reproduce(&[Paper::Sohan.into()], |_| ()).unwrap();
        let [sohan] = results.as_slice() else { panic!("one paper") };
        assert_eq!(sohan.claims.len(), 143);
        for claim in &sohan.claims {
            assert!(claim.note != "nothing is known of it here", "{}", claim.claim.id);
            let reasoned = claim.verdict == Verdict::Meets || !claim.note.is_empty();
            assert!(reasoned, "{} has no reason", claim.claim.id);
        }
        let planned = crate::planned::made_for(Paper::Sohan).unwrap();
        for check in planned.checks.iter().flat_map(|check| &check.claims) {
            let made = sohan.figures.iter().flat_map(|f| &f.checks);
            assert!(made.into_iter().any(|m| m.claims.contains(&check.as_str())), "{check}");
        }
        let with = |verdict| {
            let claims = sohan.claims.iter().filter(move |claim| claim.verdict == verdict);
            claims.map(|claim| claim.claim.id.as_str()).collect::<Vec<_>>()
        };
        // Rounded further in the text than in the table.
        assert_eq!(with(Verdict::Differs), ["SO-057", "SO-140"]);
        assert!(sohan.claims.iter().all(|claim| claim.basis != Some(Basis::Fitted)));
        // These are exactly the slips that crates/reproduce/published/conflicts.md lists.
        let listed = ["002", "059", "062", "075", "109", "134", "138"];
        let listed = listed.map(|number| format!("SO-{number}"));
        assert_eq!(with(Verdict::PaperContradictsItself), listed);
    }
}
