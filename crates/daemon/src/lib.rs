//! What every daemon of Wattline hears and shows, whether it routes or governs: the control socket
//! ([`socket`]), the service manager ([`notify`]), the endpoint for Prometheus ([`metrics`]) and the
//! page for browsers ([`dashboard`]). [`rates`] makes rates from what a daemon counts; [`reload`] says
//! what became of a changed configuration; [`http`] serves those who look.
#![forbid(unsafe_code)]

pub mod dashboard;
mod group;
pub mod http;
pub mod metrics;
pub mod moderation;
pub mod notify;
mod pending;
pub mod rates;
pub mod reload;
pub mod socket;
pub mod stream;
