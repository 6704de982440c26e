//! The model of a server: its throughput and its power at any operating point.
//!
//! A server is data: `crates/server/servers/*.toml` (`docs/reference/server-model.md` describes the format).
//! [`ServerModel::load`] reads a shipped file by name or another file by path, and checks it
//! completely. The model's methods are used by the simulator and by the closed forms against which
//! the simulator is checked.
#![forbid(unsafe_code)]

pub mod bolla;
mod busy_time;
pub mod components;
mod costs;
mod file;
mod input;
pub mod library;
mod model;
mod parts;
mod requests;
pub mod sparse;
pub mod tables;

pub use busy_time::BusyTimePower;
pub use components::ComponentFile;
pub use costs::{CostsError, MeasuredCosts, Scaling, SizeCost};
pub use file::{Platform, ServerFile};
pub use input::{
    Figure, FigureValue, Incomplete, InvalidFile, LoadError, Origin, Problem, ProblemKind, nearest,
};
pub use model::{
    Application, ApplicationCost, Capacity, Component, DvfsDomain, ETHERNET_OVERHEAD_BYTES,
    IdleState, Latency, MAX_CORES, Mode, Moderation, Nic, NoPath, PacketCost, PartPower, Path,
    PathCost, PowerBreakdown, PowerModel, PowerPart, PowerTerms, Processor, ServerModel,
    ServiceDistribution, Sources, UniformPoint, UnknownApplication, WakeUpCost,
};
pub use requests::{KernelCosts, RequestIdleState, RequestPower, RequestServer, RequestService};
