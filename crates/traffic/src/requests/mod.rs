//! Requests to servers over time, as clients send them in an open loop.
//!
//! A [`RequestSpec`] gives workload and rate; [`Arrivals`] returns the requests of one core in
//! order of time. Clients do not wait for answers. A server that falls behind gets requests at the
//! same rate, as the published loads assume.

mod arrivals;
mod sizes;
mod spec;
mod workload;

pub use arrivals::{Arrivals, Request};
pub use spec::{RequestSpec, RequestSpecError};
pub use workload::Workload;
