//! Cost of a packet: applications, memory, and contention on the same chip.

use crate::input::Section;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use thiserror::Error;
use wattline_units::named;

named! {
    /// The packet applications of the PowerSave paper, section 7, in the order of their cost.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum Application {
        /// IPv4 routing.
        Ipv4 = "ipv4",
        /// Routing with a record per flow.
        Netflow = "netflow",
        /// Encryption of every packet (AES-128).
        Ipsec = "ipsec",
        /// Redundancy elimination: repeated content is removed.
        Re = "re",
    }
}

impl fmt::Display for Application {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

named! {
    /// The part of the system that forwards the packets.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum Path {
        /// Threads in user space, which poll the rings of all ports in turn.
        #[default]
        Workers = "workers",
        /// XDP programs within the polls of NAPI.
        Xdp = "xdp",
        /// The kernel's stack within the polls of NAPI.
        Kernel = "kernel",
    }
}

impl FromStr for Path {
    type Err = String;
    fn from_str(word: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|path| path.name() == word);
        found.ok_or_else(|| {
            format!("unknown path {word:?}; known are {}", Self::ALL.map(Self::name).join(", "))
        })
    }
}

/// Cost of forwarding by NAPI polls. `None` for a cost of the workers.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PathCost {
    /// Clock cycles of a forwarded IPv4 packet.
    pub cycles_per_packet: f64,
    /// Clock cycles of a wake-up.
    pub wake_up_cycles: Option<f64>,
    /// Clock cycles of an interrupt that reaches an awake core.
    pub interrupt_cycles: Option<f64>,
}

impl PathCost {
    fn read(section: &Section<'_, '_>) -> Option<Self> {
        Some(Self {
            cycles_per_packet: section.number("cycles_per_packet", 1.0..=1e9)?,
            wake_up_cycles: section.optional_number("wake_up_cycles", 0.0..=1e9),
            interrupt_cycles: section.optional_number("interrupt_cycles", 0.0..=1e9),
        })
    }

    pub(crate) fn read_all(section: &Section<'_, '_>) -> Option<BTreeMap<Path, Self>> {
        let costs = [Path::Xdp, Path::Kernel].into_iter();
        Some(
            costs
                .filter_map(|path| Some((path, section.section(path.name(), Self::read)?)))
                .collect(),
        )
    }
}

/// A word that is not the name of an application.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("unknown application {0:?}; known are ipv4, netflow, ipsec, re")]
pub struct UnknownApplication(pub String);

impl FromStr for Application {
    type Err = UnknownApplication;
    fn from_str(word: &str) -> Result<Self, UnknownApplication> {
        Self::ALL
            .into_iter()
            .find(|application| application.name() == word)
            .ok_or_else(|| UnknownApplication(word.to_string()))
    }
}

/// Cost of one application per packet.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ApplicationCost {
    /// Clock cycles per packet, whatever its length.
    pub cycles_per_packet: f64,
    /// Clock cycles per byte of the frame.
    pub cycles_per_byte: f64,
    /// Memory stall in seconds that this application adds to the server's own.
    pub stall_seconds: f64,
}

impl ApplicationCost {
    fn read(section: &Section<'_, '_>) -> Option<Self> {
        let cycles_per_packet = section.number("cycles_per_packet", 0.0..=1e9);
        let cycles_per_byte = section.number_or("cycles_per_byte", 0.0, 0.0..=1e6);
        let stall = section.number_or("stall_ns_per_packet", 0.0, 0.0..=1e9);
        Some(Self {
            cycles_per_packet: cycles_per_packet?,
            cycles_per_byte: cycles_per_byte?,
            stall_seconds: stall? * 1e-9,
        })
    }

    pub(crate) fn read_all(section: &Section<'_, '_>) -> Option<BTreeMap<Application, Self>> {
        let costs: BTreeMap<Application, Self> = Application::ALL
            .into_iter()
            .filter_map(|app| Some((app, section.section(app.name(), Self::read)?)))
            .collect();
        let named = Application::ALL.iter().any(|app| section.has(app.name()));
        if !named {
            section.contradiction("", "name at least one of ipv4, netflow, ipsec, re".into());
        }
        (!costs.is_empty()).then_some(costs)
    }
}

/// Distribution of service times around their mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServiceDistribution {
    /// Every packet of a kind takes the same time.
    Fixed,
    /// Exponential distribution, for comparison of the simulator with M/M/1 theory.
    Exponential,
}

/// Delays of every packet, whatever the application and the frequency.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Capacity {
    /// Memory stall per packet in seconds, with one core active.
    pub stall_seconds: f64,
    /// Seconds that each further active core adds to every packet.
    pub contention_seconds: f64,
    /// Distribution of the service time.
    pub service: ServiceDistribution,
}

impl Capacity {
    pub(crate) fn read(section: &Section<'_, '_>) -> Option<Self> {
        let stall = section.number("stall_ns_per_packet", 0.0..=1e9);
        let contention = section.number("contention_ns_per_core", 0.0..=1e6);
        let service = section.choice_or_first(
            "service_time",
            &[
                ("fixed", ServiceDistribution::Fixed),
                ("exponential", ServiceDistribution::Exponential),
            ],
        );
        Some(Self {
            stall_seconds: stall? * 1e-9,
            contention_seconds: contention? * 1e-9,
            service: service?,
        })
    }
}

/// Cost of one packet at a core: a part that scales with the clock, and a part that does not.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PacketCost {
    /// Clock cycles.
    pub cycles: f64,
    /// Memory stall in seconds, with one core active.
    pub stall_seconds: f64,
}

/// Cost of waking a napping core (an interrupt, its handler and the return), and the time for the
/// delivery of the interrupt.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct WakeUpCost {
    /// Seconds from a packet's arrival until its interrupt reaches the core. The core sleeps
    /// meanwhile, so this is latency but no work.
    pub delivery_seconds: f64,
    /// Part of the work in seconds that does not depend on the frequency.
    pub fixed_seconds: f64,
    /// Part of the work in clock cycles.
    pub cycles: f64,
    /// Clock cycles of an interrupt that reaches an awake core.
    pub interrupt_cycles: f64,
}

impl WakeUpCost {
    pub(crate) fn read(section: &Section<'_, '_>) -> Option<Self> {
        let fixed = section.number("fixed_us", 0.0..=1e6);
        let cycles = section.number("cycles", 0.0..=1e9);
        let interrupt = section.number_or("interrupt_cycles", 0.0, 0.0..=1e9);
        let delivery = section.number_or("delivery_us", 0.0, 0.0..=1e6);
        Some(Self {
            delivery_seconds: delivery? * 1e-6,
            fixed_seconds: fixed? * 1e-6,
            cycles: cycles?,
            interrupt_cycles: interrupt?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for application in Application::ALL {
            assert_eq!(application.name().parse(), Ok(application));
        }
        assert!("ipv6".parse::<Application>().is_err());
    }
}
