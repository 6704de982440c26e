//! The complete model of a server, with everything that a simulation needs.

mod closed_form;
mod nic;
mod power;
mod processor;
mod sources;
mod workload;

pub use closed_form::{Latency, Mode, UniformPoint};
pub use nic::{ETHERNET_OVERHEAD_BYTES, Moderation, Nic};
pub use power::{Component, PowerBreakdown, PowerModel, PowerTerms};
pub(crate) use processor::micros;
pub use processor::{DvfsDomain, IdleState, MAX_CORES, Processor};
pub use sources::{PartPower, PowerPart, Sources};
pub use workload::{
    Application, ApplicationCost, Capacity, PacketCost, Path, PathCost, ServiceDistribution,
    UnknownApplication, WakeUpCost,
};

use serde::Serialize;
use std::collections::BTreeMap;
use thiserror::Error;
use wattline_units::{Hertz, Span, Watts};

/// A server: its throughput and its power at any operating point.
///
/// [`crate::ServerFile`] builds it and has checked every figure. The fields are the parameters. The
/// simulator computes the methods once per frequency and number of cores, and keeps the results in
/// tables.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ServerModel {
    /// Name of the model, such as `westmere-2010`.
    pub name: String,
    /// Description in one line.
    pub description: String,
    /// Chips, cores and P-states.
    pub processor: Processor,
    /// C-states of a core, shallowest first; never empty.
    pub idle_states: Vec<IdleState>,
    /// Memory stall and contention of every packet.
    pub capacity: Capacity,
    /// Cost of waking a core.
    pub wake_up: WakeUpCost,
    /// Parameters of the power.
    pub power: PowerModel,
    /// Its network ports.
    pub nic: Nic,
    /// Costs of the applications; at least one.
    pub applications: BTreeMap<Application, ApplicationCost>,
    /// The path of the packets, to which the costs apply.
    pub path: Path,
    /// Costs of the other paths.
    pub paths: BTreeMap<Path, PathCost>,
    /// Sources of the watts.
    #[serde(skip)]
    pub sources: Sources,
}

/// A server file without the costs of a path.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("path {}: server {server} gives no cost for it; add cycles_per_packet in [path.{}]", .path.name(), .path.name())]
pub struct NoPath {
    path: Path,
    server: String,
}

impl ServerModel {
    /// Returns the model whose packets take this path. The other applications cost the same cycles
    /// more than IPv4 as under workers.
    ///
    /// # Errors
    /// Fails when the file gives no cost of the path, or none of IPv4.
    pub fn on_path(&self, path: Path) -> Result<Self, NoPath> {
        if path == self.path {
            return Ok(self.clone());
        }
        let ipv4 = self.applications.get(&Application::Ipv4);
        let (Some(cost), Some(ipv4), Path::Workers) = (self.paths.get(&path), ipv4, self.path)
        else {
            return Err(NoPath { path, server: self.name.clone() });
        };
        let more = cost.cycles_per_packet - ipv4.cycles_per_packet;
        let mut model = self.clone();
        model.name = format!("{}+{}", self.name, path.name());
        model.path = path;
        for application in model.applications.values_mut() {
            application.cycles_per_packet = (application.cycles_per_packet + more).max(0.0);
        }
        let WakeUpCost { cycles, interrupt_cycles, .. } = &mut model.wake_up;
        *cycles = cost.wake_up_cycles.unwrap_or(*cycles);
        *interrupt_cycles = cost.interrupt_cycles.unwrap_or(*interrupt_cycles);
        Ok(model)
    }

    /// Returns the cost of a frame of `frame_bytes` under `application`; `None` if the file gives
    /// no cost of that application.
    pub fn packet_cost(&self, application: Application, frame_bytes: u32) -> Option<PacketCost> {
        let cost = self.applications.get(&application)?;
        Some(PacketCost {
            cycles: cost.cycles_per_packet + cost.cycles_per_byte * f64::from(frame_bytes),
            stall_seconds: self.capacity.stall_seconds + cost.stall_seconds,
        })
    }

    /// Returns the mean time that one core needs for a packet: cycles / frequency, the stall, and
    /// the contention with the other `active_cores - 1` cores.
    pub fn service_time(&self, cost: PacketCost, frequency: Hertz, active_cores: usize) -> Span {
        Span::from_seconds(self.service_seconds(cost, frequency, active_cores))
    }

    /// [`Self::service_time`] in seconds, unrounded.
    pub fn service_seconds(&self, cost: PacketCost, frequency: Hertz, active_cores: usize) -> f64 {
        let others = active_cores.saturating_sub(1) as f64;
        cost.cycles / frequency.0 + cost.stall_seconds + self.capacity.contention_seconds * others
    }

    /// Returns the work of a napping core from the waking interrupt to its first packet, at
    /// `frequency`: exit from the shallowest idle state, the interrupt and its handler. It was
    /// fitted as a whole, so the shallowest state's exit latency is not added to it.
    pub fn wake_up_work(&self, frequency: Hertz) -> Span {
        Span::from_seconds(self.wake_up_seconds(frequency))
    }

    /// [`Self::wake_up_work`] in seconds, unrounded.
    pub fn wake_up_seconds(&self, frequency: Hertz) -> f64 {
        self.wake_up.fixed_seconds + self.wake_up.cycles / frequency.0
    }

    /// Returns the time to leave the idle state `index` in addition to [`Self::wake_up_work`]: its
    /// exit latency minus that of the shallowest state. The core draws the power of an awake core
    /// meanwhile.
    ///
    /// # Panics
    /// Panics when there is no such idle state.
    pub fn extra_exit_latency(&self, index: usize) -> Span {
        self.idle_states[index].exit_latency - self.idle_states[0].exit_latency
    }

    /// Returns the time from raising an interrupt to its arrival at the core, which sleeps
    /// meanwhile.
    pub fn interrupt_delivery(&self) -> Span {
        Span::from_seconds(self.wake_up.delivery_seconds)
    }

    /// Returns the power of a core that executes at `frequency`, above a core in the deepest idle
    /// state.
    pub fn awake_core_power(&self, frequency: Hertz) -> Watts {
        self.power.awake_core(frequency)
    }

    /// Returns the power of a core in the idle state `index`, above a core in the deepest one.
    ///
    /// # Panics
    /// Panics when there is no such idle state.
    pub fn idle_core_power(&self, index: usize) -> Watts {
        self.idle_states[index].power
    }

    /// Returns the index of the shallowest idle state, in which active cores nap.
    pub const fn shallowest_idle_state(&self) -> usize {
        0
    }

    /// Returns the index of the deepest idle state, in which inactive cores are parked.
    pub fn deepest_idle_state(&self) -> usize {
        self.idle_states.len().saturating_sub(1)
    }

    /// Returns the index of the idle state with this name.
    pub fn idle_state(&self, name: &str) -> Option<usize> {
        self.idle_states.iter().position(|state| state.name == name)
    }

    /// Returns the cycles that the named receive path takes of each packet on the model's path.
    pub fn receive_cycles(&self) -> f64 {
        if self.path == Path::Kernel { self.sources.receive_cycles } else { 0.0 }
    }

    /// Divides power by the source of its figures; the parts add up to the total. `receive` is the
    /// power of the named receive path, part of the awake cores' power.
    pub fn power_by_source(&self, terms: &PowerTerms, receive: Watts) -> Vec<PartPower> {
        let cards = self.power.base.nic;
        let parts = PowerPart::ALL.map(|part| {
            let watts = match part {
                PowerPart::Cores => terms.awake_cores - receive,
                PowerPart::Receive => receive,
                PowerPart::IdleCores => terms.idle_cores,
                PowerPart::Uncore => terms.uncore,
                PowerPart::Platform => terms.base - cards,
                PowerPart::Cards => cards - self.sources.links,
                PowerPart::Links => self.sources.links,
                PowerPart::Traffic => terms.traffic,
            };
            let source = self.sources.of.get(&part).cloned().unwrap_or_default();
            PartPower { part, watts, source }
        });
        let named = |it: &PartPower| match it.part {
            PowerPart::Receive => self.receive_cycles() > 0.0,
            _ => !it.source.is_empty() || it.watts != Watts::ZERO,
        };
        parts.into_iter().filter(named).collect()
    }
}
