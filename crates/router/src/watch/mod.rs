//! Captures and traces, for `wattline capture` and `wattline trace` over the control socket.
//!
//! Each worker writes the packets that it sees into a ring of its own
//! ([`wattline_dataplane::tap`]); the connection's thread reads all rings. It may be slow: records
//! that find a ring full are counted as missed. XDP programs continue to forward, and copy the
//! packets ([`copying`]).

mod begin;
mod capture;
mod form;
mod rounds;
mod session;
mod trace;
