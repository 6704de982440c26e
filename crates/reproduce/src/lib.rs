//! Reproduction of the papers: their results computed again and compared with the printed ones.
//!
//! Every figure has data, plots and [`Check`](wattline_report::Check)s. Every row of
//! `crates/reproduce/published/claims.csv` gets a verdict. Contradictions within a paper and lost figures are
//! reported as such; nothing is corrected silently.
#![forbid(unsafe_code)]

pub mod bolla;
mod claim;
mod claims;
mod copi;
mod error;
mod figure;
#[cfg(test)]
mod flips;
mod inputs;
mod liao;
mod output;
mod page;
mod paper;
mod planned;
pub mod powersave;
mod printed;
mod reproduction;
mod runner;
mod sohan;
mod step;
mod summary;
mod target;

pub use claim::Claim;
pub use claims::ClaimReport;
pub use error::ReproduceError;
pub use figure::Figure;
pub use output::write;
pub use paper::Paper;
pub use reproduction::{Reproduction, reproduce, reproduce_changed, steps};
pub use runner::Progress;
pub use summary::Summary;
pub use target::Target;

#[cfg(test)]
mod tests {
    use super::*;

    /// Every claim of a paper is either checked by a figure or listed in the paper's context.
    #[test]
    fn no_claim_is_forgotten() {
        let checked = [
            include_str!("powersave/baseline.rs"),
            include_str!("powersave/breakdown.rs"),
            include_str!("powersave/bursts.rs"),
            include_str!("powersave/day.rs"),
            include_str!("powersave/grid.rs"),
            include_str!("powersave/ladder.rs"),
            include_str!("powersave/latency.rs"),
            include_str!("powersave/load_and_power.rs"),
            include_str!("powersave/mod.rs"),
            include_str!("powersave/rules.rs"),
            include_str!("powersave/sleep.rs"),
        ]
        .concat();
        for claim in claims::claims_of(Paper::Powersave).unwrap() {
            assert!(checked.contains(&format!("\"{}\"", claim.id)), "{}", claim.id);
        }
    }
}
