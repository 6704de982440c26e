//! Servers that answer requests through the kernel's network stack, in virtual time.
//!
//! [`run_requests`] sends a workload's requests to a [`wattline_server::RequestServer`]: each
//! core has a queue of the card, whose interrupts come at most once per moderation period. What
//! interrupts bring is handled before anything that the application does, so that a short period
//! takes time from it, up to where nothing is left (receive livelock). Responses raise interrupts
//! too when they have been sent. Between requests a core idles as the kernel's idle governor
//! would have it.
//!
//! The policies are those of routers, through the same trait. A queue whose moderation a policy
//! leaves to the driver is moderated by that rule, interrupt by interrupt.
//! `docs/explanation/copi.md` tells more.

mod core;
mod costs;
mod engine;
mod idle;
mod platform;
mod profile;
mod report;
mod setting;
mod spent;

pub use engine::{Trace, run_requests, run_requests_with, sweep_requests, trace_requests};
pub use platform::request_platform;
pub use profile::{Grid, Profiled, SPARSE_MOST, profile, profile_sparse};
pub use report::{PeriodShare, RequestCore, RequestReport};
pub use setting::{RequestError, RequestSetting};
