//! Captures and traces: what `wattline capture` and `wattline trace` get over the control socket.
//!
//! Each worker writes what it sees into a ring of its own ([`wattline_dataplane::tap`]); the thread of
//! the connection reads them all. It may be as slow as it likes: what finds a ring full is counted as
//! missed. XDP programs go on forwarding, and copy what they forward ([`copying`]).

mod begin;
mod capture;
mod form;
mod rounds;
mod session;
mod trace;
