//! Interfaces that all daemons of Wattline share, whether they route or govern: the control socket
//! ([`socket`]), the service manager ([`notify`]), the endpoint for Prometheus ([`metrics`]) and
//! the page for browsers ([`dashboard`]). [`logging`] is the log, [`reload`] the report on a
//! changed configuration, [`http`] the web server, and [`settings`] reads configuration files.
//! Documents that a daemon sends are types of `wattline_status`.
#![forbid(unsafe_code)]
// A daemon writes to its log: printing blocks on a stalled reader and panics without one.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod dashboard;
mod directory;
mod group;
pub mod http;
pub mod logging;
pub mod metrics;
pub mod notify;
mod peer;
mod pending;
mod places;
pub mod reload;
pub mod running;
pub mod settings;
pub mod socket;
mod socket_error;
pub mod stream;
mod timed;
