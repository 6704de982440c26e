//! `wattline bench nic`: the network cards of this machine, and the throughput of a pair of them.

mod method;
mod page;
mod probe;
mod report;
mod streams;

pub use method::{Figure, Measured, Options, Run, State, measure};
pub use page::page;
pub use probe::{Card, Pcie, probe};
pub use report::Report;
pub use streams::Traffic;
