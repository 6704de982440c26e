//! All governors against each other, and against what is possible at all.
//!
//! A [`Case`] is a server, its traffic, a span of time and a [`Budget`] of latency. For a case
//! there are three yardsticks: [`bound::lower_bound`] is below the energy of every schedule that
//! keeps the budget, [`best_fixed`] is the best operating point that never changes, in hindsight,
//! and [`best_schedule`] is a schedule that was found and played, so the best of all lies between
//! it and the bound. [`league`](mod@league) plays policies beside them.
//!
//! [`simulated`] has the pages of simulations outside a league.
//!
//! `docs/explanation/league.md` says why the bound is one.
#![forbid(unsafe_code)]

mod arrivals;
pub mod bound;
mod case;
mod error;
mod fixed;
pub mod league;
mod page;
mod pieces;
pub mod plan;
mod play;
mod prediction;
mod schedule;
mod script;
pub mod simulated;
mod standings;
mod wrong;

pub use arrivals::Arrivals;
pub use case::{Budget, Case};
pub use error::LeagueError;
pub use fixed::{BestFixed, best_fixed};
pub use league::{Envelope, Results, Row, envelope};
pub use page::page;
pub use pieces::Store;
pub use plan::Plan;
pub use play::{Played, play_points, play_policy, play_wrong};
pub use prediction::Prediction;
pub use schedule::{BestSchedule, best_schedule};
pub use script::{FixedPoint, Script};
pub use standings::{Standing, standings};
pub use wrong::{Meter, Wrong};
