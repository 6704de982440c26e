//! All policies against each other, and against a lower bound on energy.
//!
//! A [`Case`] is a server, its traffic, a span of time and a latency [`Budget`]. Three references
//! are computed for a case. [`bound::lower_bound`] is below the energy of every schedule that keeps
//! the budget. [`best_fixed`] is the best constant operating point, chosen in hindsight.
//! [`best_schedule`] is a good schedule, found by search and played; the optimum lies between it
//! and the bound. [`league`](mod@league) compares policies with these three; rivals play settings
//! that were tuned on other seeds ([`Tuning`]).
//!
//! [`simulated`] writes the pages of simulations outside a league.
//!
//! `docs/explanation/league.md` proves the bound.
#![forbid(unsafe_code)]

mod arrivals;
pub mod bound;
mod build_mark;
mod case;
mod choice;
mod draws;
mod endings;
mod envelope;
mod error;
mod fixed;
mod foresight;
mod hull;
pub mod league;
mod outcome;
mod packets;
mod page;
mod page_plots;
mod page_tables;
mod pieces;
pub mod plan;
mod play;
mod playable;
mod point;
mod policy_text;
mod prediction;
mod problems;
mod rival;
mod rows;
mod runs;
mod scattered;
mod schedule;
mod script;
pub mod simulated;
mod span;
mod standings;
mod tuning;
mod twice;
mod wrong;

pub use arrivals::Arrivals;
pub use case::{Budget, Case};
pub use envelope::{Envelope, envelope};
pub use error::LeagueError;
pub use fixed::{BestFixed, best_fixed};
pub use page::{is_page, page};
pub use pieces::Store;
pub use plan::Plan;
pub use play::{Played, play_points, play_policy, play_wrong};
pub use point::FixedPoint;
pub use prediction::Prediction;
pub use rows::{EnvelopeRow, Results, Row, TunedRow};
pub use scattered::Scattered;
pub use schedule::{BestSchedule, best_schedule};
pub use script::Script;
pub use standings::{Standing, standings};
pub use tuning::{Contender, Tuning};
pub use wrong::{Meter, Wrong};
