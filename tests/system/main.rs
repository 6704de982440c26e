//! The router as a whole: real programs and real captures through real namespaces, once
//! through the kernel and once through `wattline run`, whose answers must be the same.
//!
//! The tests need root; without root each one says that it is skipped.
//! `WATTLINE_SECONDS` sets how long the long loads last (default 5; 2 in `make test`, 30 for a full run).

#[macro_use]
mod harness;

mod applications;
mod audit;
mod bgp;
mod capture_ports;
mod chain;
mod consumers;
mod control;
mod cores;
mod crafted;
mod decisions;
mod differential;
mod errors;
mod faults;
mod filter;
mod governed_forwarder;
mod governed_ports;
mod guards;
mod histories;
mod hot_ports;
mod ipsec;
mod ipsec_block;
mod ipsec_clear;
mod life;
mod looking;
mod multipath;
mod neighbour_scan;
mod on_interfaces;
mod one_next_hop;
mod reachability;
mod recorded;
mod redundancy;
mod returning;
mod segments;
mod soak;
mod starting;
mod steering;
mod takeover;
mod throughput;
mod watching;
mod workers;
mod xdp_forward;
