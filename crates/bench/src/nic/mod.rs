//! `wattline bench nic`: the network cards of this machine, and what a pair of them carries.

mod measure;
mod page;
mod probe;
mod report;

pub use measure::{Carried, Measured, Options, measure};
pub use page::page;
pub use probe::{Card, Pcie, probe};
pub use report::Report;
