//! A server that answers requests through the kernel's network stack.
//!
//! Such a server is described by a section `[requests]` of its file, beside processor and card:
//! what an interrupt, a segment and a request cost, in which states cores idle, and what the
//! processor's package draws. Nothing of what a router needs has to be known for it.

mod idle;
mod power;
mod read;
mod service;

pub use idle::RequestIdleState;
pub use power::RequestPower;
pub use service::{KernelCosts, RequestService};

use crate::model::{Nic, Processor};
use serde::Serialize;
use std::collections::BTreeMap;

/// A server of requests, complete for simulation.
///
/// Built by [`crate::ServerFile`], which has checked every figure.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RequestServer {
    /// Name of the model.
    pub name: String,
    /// One line on what it describes.
    pub description: String,
    /// Chips, cores and V/F states.
    pub processor: Processor,
    /// Its card.
    pub nic: Nic,
    /// What the kernel's part costs.
    pub kernel: KernelCosts,
    /// Idle states of a core, the shallowest first; never empty.
    pub idle_states: Vec<RequestIdleState>,
    /// What the package draws.
    pub power: RequestPower,
    /// What one request of each workload costs, by its name.
    pub services: BTreeMap<String, RequestService>,
}
