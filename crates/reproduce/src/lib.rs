//! Reproduction of the papers: recomputes their results and compares them with the printed ones.
//!
//! Every figure has data, plots and [`Check`](wattline_report::Check)s. Every row of
//! `crates/reproduce/published/claims.csv` gets a verdict. Contradictions within a paper and lost figures are
//! reported as such; nothing is corrected silently.
#![forbid(unsafe_code)]

pub mod bolla;
pub mod characterise;
mod claim;
mod claims;
mod copi;
mod curves;
mod error;
mod figure;
mod flips;
mod inputs;
mod judged_sets;
mod liao;
mod made;
mod output;
mod own;
mod page;
mod paper;
mod planned;
pub mod powersave;
mod printed;
mod reproduction;
mod runner;
mod sets;
mod sohan;
mod step;
mod summary;
mod target;
mod watts;
mod worth;

pub use claim::Claim;
pub use claims::ClaimReport;
pub use error::ReproduceError;
pub use figure::Figure;
pub use output::{write, write_watts};
pub use own::OwnTraffic;
pub use paper::Paper;
pub use reproduction::{
    Reproduction, recorded, reproduce, reproduce_changed, reproduce_fresh, reproduce_own, steps,
};
pub use runner::Progress;
pub use sets::{OverSets, SetVerdict};
pub use summary::Summary;
pub use target::Target;
pub use watts::published_watts;
