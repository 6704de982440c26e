//! What every daemon of Wattline hears and shows, whether it routes or governs: the control socket
//! ([`socket`]), the service manager ([`notify`]) and the endpoint for Prometheus ([`metrics`]).
#![forbid(unsafe_code)]

mod group;
pub mod metrics;
pub mod notify;
pub mod socket;
pub mod stream;
