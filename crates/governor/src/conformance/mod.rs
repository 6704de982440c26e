//! One test of what a platform promises to policies ([`wattline_policy::Can`]), for all platforms:
//! what is promised happens, what is denied is left alone.
//!
//! A [`probe`] is a policy. A platform's test puts it in charge, lets time pass until
//! [`Findings::are_complete`], and finds nothing in [`Findings::complaints`].
//!
//! The probe judges by effects, not by what a platform says of itself. Each knob has a trial: the
//! machine is brought to a point, watched for a period, the knob is turned, and it is watched for
//! another period. What a promise changes is then seen in figures that follow from it: the time
//! that a packet takes at another frequency, the queues that packets arrive at under another
//! table, the time in an idle state, the packets of a batch. Each kind of question is asked for by
//! itself, once so that it has to come and once so that it must not. What a platform shows is
//! compared with what else it shows.
//!
//! Not everything can be seen on every platform: on a recorded tree nothing arrives. Such a promise
//! is in [`Findings::unjudged`] with the reason, and the platform's page lists it ([`page`]).

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
