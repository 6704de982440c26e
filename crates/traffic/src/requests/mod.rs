//! Requests to servers in time: what clients send, open loop.
//!
//! A [`RequestSpec`] says which workload at which rate; [`Arrivals`] gives the requests of one
//! core in order of time. Clients do not wait for answers: a server that falls behind is asked no
//! less often, as the published loads are meant.

mod arrivals;
mod sizes;
mod spec;
mod workload;

pub use arrivals::{Arrivals, Request};
pub use spec::{RequestSpec, RequestSpecError};
pub use workload::Workload;
