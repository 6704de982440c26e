//! One test of the promises that a platform makes to policies ([`wattline_policy::Can`]), for all
//! platforms: promised abilities work, denied ones are never used.
//!
//! A [`probe`] is a policy. A platform's test puts it in charge, lets time pass until
//! [`Findings::are_complete`], and finds nothing in [`Findings::complaints`].
//!
//! The probe judges by effects, not by the platform's own claims. Each knob has a trial: the
//! machine is brought to a point and observed for a period, then the knob is turned, and the
//! machine is observed for another period. Figures that depend on the promise show its effect: the
//! time per packet at another frequency, the queues at which packets arrive under another table,
//! the time in an idle state, the packets of a batch. Each kind of question is requested
//! separately, once so that it must come and once so that it must not. The platform's figures are
//! compared with each other.
//!
//! Some effects cannot be observed on some platforms: on a recorded tree no packets arrive. Such a
//! promise is in [`Findings::unjudged`] with the reason, and the platform's page lists it
//! ([`page`]).

mod effects;
mod figures;
mod findings;
pub mod page;
mod period;
mod probe;
mod questions;
mod trials;

pub use findings::{Circumstances, Findings, Follows, Judgement, Turn, Verdict};
pub use probe::{LATE_AFTER, probe};
