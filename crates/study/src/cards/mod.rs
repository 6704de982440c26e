//! Network cards: power, throughput, comparison and choice.
//!
//! The data is in [`wattline_server::ComponentFile`]. The computations follow R. Sohan et al., Characterizing
//! 10 Gbps network interface energy consumption (LCN 2010).

pub mod analysis;
mod choose;
mod links;
mod measure;
mod power_model;

pub use choose::{Candidate, HostPower, Need, NeedError, choose};
pub use links::LinkModel;
pub use measure::{Unaccepted, accepted_mean, shunt_power};
pub use power_model::{DevicePowerModel, InterfacePower, PortState, PowerModelError, Terms};
