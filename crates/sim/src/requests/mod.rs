//! Servers that answer requests through the kernel's network stack, in virtual time.
//!
//! [`run_requests`] sends a workload's requests to a [`wattline_server::RequestServer`]. Each core
//! has a queue of the card, which raises at most one interrupt per moderation period. The kernel
//! handles interrupts before the application runs. A short period therefore takes time from the
//! application, until none is left (receive livelock). Sent responses raise interrupts as well.
//! Between requests, a core idles as the kernel's idle governor chooses.
//!
//! The policies are those of routers, through the same trait, and the same engine carries out their
//! decisions step by step ([`wattline_governor::transition`]). If a policy leaves the moderation of
//! a queue to the driver, the driver's rule sets it, interrupt by interrupt.
//! `docs/explanation/copi.md` explains this.

mod core;
mod costs;
mod engine;
mod idle;
mod platform;
mod profile;
mod report;
mod setting;
mod softirqd;
mod spent;

pub use engine::{
    Trace, run_requests, run_requests_on, run_requests_with, sweep_requests, trace_requests,
};
pub use platform::{REQUEST_KNOBS, request_platform};
pub use profile::{Grid, Profiled, SPARSE_MOST, profile, profile_sparse};
pub use report::{PeriodShare, RequestCore, RequestReport};
pub use setting::{RequestError, RequestSetting};
