//! A server that answers requests through the kernel's network stack.
//!
//! The section `[requests]` of a server file describes such a server, in addition to processor and
//! card: the costs of an interrupt, a segment and a request, the idle states of the cores, and the
//! power of the processor's package. The parameters of a router are not needed.

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

/// A request server, complete for simulation.
///
/// [`crate::ServerFile`] builds it and has checked every figure.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RequestServer {
    /// Name of the model.
    pub name: String,
    /// Description in one line.
    pub description: String,
    /// Chips, cores and V/F states.
    pub processor: Processor,
    /// Network card.
    pub nic: Nic,
    /// Costs of the kernel's part.
    pub kernel: KernelCosts,
    /// Idle states of a core, shallowest first; never empty.
    pub idle_states: Vec<RequestIdleState>,
    /// Power of the package.
    pub power: RequestPower,
    /// Costs of one request of each workload, by name of the workload.
    pub services: BTreeMap<String, RequestService>,
}
