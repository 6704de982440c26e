//! What the papers print, computed anew and held against it.
//!
//! Every figure gives its data, plots and [`Check`](wattline_report::Check)s; every row of
//! `published/claims.csv` is reported, with a verdict. Where a paper contradicts itself, or its
//! figure is lost, that is said and nothing is mended.
#![forbid(unsafe_code)]

pub mod bolla;
mod claim;
mod claims;
mod copi;
mod error;
mod figure;
mod liao;
mod output;
mod page;
mod paper;
mod planned;
pub mod powersave;
mod reproduction;
mod sohan;
mod step;
mod target;

pub use claim::Claim;
pub use claims::ClaimReport;
pub use error::ReproduceError;
pub use figure::Figure;
pub use output::write;
pub use paper::Paper;
pub use reproduction::{Reproduction, reproduce, steps};
pub use target::Target;

#[cfg(test)]
mod tests {
    use super::*;

    /// Every claim of a paper is either checked by some figure or has a word in its context.
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
