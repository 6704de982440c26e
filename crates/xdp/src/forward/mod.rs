//! Forwarding in the XDP program itself, without a socket and a worker.
//!
//! Where frames reach sockets by copies, a packet that needs nothing but a route is forwarded for
//! a third of the price in the driver: no copy, no socket buffer, no wake-up of a thread. The
//! kernel's own table says where to (`bpf_fib_lookup`), so routes, rules and neighbours are those
//! that the kernel would use. Whatever is not plain goes to the socket as before.

mod code;
mod losses;

#[cfg(test)]
mod tests;

pub(super) use code::{ipv4, ipv6};

use crate::bpf::{BpfError, Link, Map, MapKind};
use rustix::io::Errno;
use std::ops::Deref;
use std::sync::Arc;

/// Most ports of a router that forward so.
pub const FORWARD_PORTS_MAX: u32 = 256;

/// The ports of a router between which XDP programs forward. It is theirs together, each program's
/// own counters aside.
#[derive(Debug)]
pub struct XdpForward {
    ports: Arc<Ports>,
    _losses: [Link; 2],
}

/// The maps that the programs of all ports share.
#[derive(Debug)]
pub(super) struct Ports {
    /// Interfaces that take frames from us now, to their slot.
    outs: Map,
    /// All interfaces that are ports, to their slot.
    members: Map,
    /// Where frames are sent, by interface.
    devices: Map,
    /// Frames that an interface did not take, by slot.
    refused: Map,
    /// The error for which an interface was closed since it was last opened, by slot; 0 for none.
    causes: Map,
}

/// What one program uses: the common maps, and its own counters.
pub(super) struct ForwardMaps {
    ports: Arc<Ports>,
    /// Packets and bytes forwarded, by slot of the way out.
    forwarded: Map,
}

impl Deref for ForwardMaps {
    type Target = Ports;

    fn deref(&self) -> &Ports {
        &self.ports
    }
}

/// What was sent out of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sent {
    /// Frames.
    pub packets: u64,
    /// Bytes of those, with their Ethernet header.
    pub bytes: u64,
}

impl XdpForward {
    /// Prepares forwarding between interfaces of this thread's network namespace; nothing is
    /// forwarded before ports are opened.
    ///
    /// # Errors
    /// Without CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON (what interfaces refuse is told by
    /// tracepoints only), in a kernel without type information, or one that refuses the program.
    pub fn new() -> Result<Self, BpfError> {
        let map = |kind, name, value| Map::create(kind, name, 4, value, FORWARD_PORTS_MAX);
        let ports = Ports {
            outs: map(MapKind::Hash, "wl_outs", 4)?,
            members: map(MapKind::Hash, "wl_members", 4)?,
            devices: map(MapKind::Devices, "wl_devices", 4)?,
            refused: map(MapKind::PerCpuArray, "wl_refused", 8)?,
            causes: map(MapKind::Array, "wl_causes", 4)?,
        };
        let losses = losses::count(&ports)?;
        let forward = Self { ports: ports.into(), _losses: losses };
        // A kernel whose verifier does not understand the program should be known before a port is
        // attached.
        super::XdpProgram::prepare([0; 6], Some(&forward))?;
        Ok(forward)
    }

    /// The maps for the program of one port.
    pub(super) fn maps(&self) -> Result<ForwardMaps, BpfError> {
        let slots = FORWARD_PORTS_MAX;
        let forwarded = Map::create(MapKind::PerCpuArray, "wl_forwarded", 4, 16, slots)?;
        Ok(ForwardMaps { ports: self.ports.clone(), forwarded })
    }

    /// Adds a port: an interface that gets a program, and whose counters as a way out are at `slot`.
    /// Nothing is forwarded to it before it is opened.
    ///
    /// # Errors
    /// When `slot` is not below [`FORWARD_PORTS_MAX`], or there is no such interface.
    pub fn add(&self, ifindex: u32, slot: u32) -> Result<(), BpfError> {
        let key = ifindex.to_ne_bytes();
        self.ports.members.set(&key, &slot.to_ne_bytes())?;
        self.ports.devices.set(&key, &key)
    }

    /// Forgets an interface that is gone; its slot goes on counting for whichever is added there.
    ///
    /// # Errors
    /// Only from the kernel.
    pub fn remove(&self, ifindex: u32) -> Result<(), BpfError> {
        let key = ifindex.to_ne_bytes();
        for map in [&self.ports.outs, &self.ports.members, &self.ports.devices] {
            map.remove(&key)?;
        }
        Ok(())
    }

    /// Lets programs forward to a port that was added. The driver has to take XDP frames
    /// (`wattline_linux::xdp_features`): the first batch (of up to 16 frames) that it refuses
    /// with an error is lost and counted, and closes it again ([`Self::cause`]).
    ///
    /// # Errors
    /// ENOENT where it was not added.
    pub fn open(&self, ifindex: u32) -> Result<(), BpfError> {
        let key = ifindex.to_ne_bytes();
        let slot = self.ports.members.get(&key)?.ok_or_else(|| BpfError::System {
            action: format!("opening the way out of interface {ifindex}"),
            source: Errno::NOENT,
        })?;
        self.ports.causes.set(&slot, &0_u32.to_ne_bytes())?;
        self.ports.outs.set(&key, &slot)
    }

    /// The error for which the interface at `slot` has been closed since it was last opened: ENXIO
    /// where it has no queue for frames of XDP programs, or a veth's far end does not run NAPI;
    /// ENETDOWN where it is down; EOPNOTSUPP where the kernel knows that it takes none.
    ///
    /// # Errors
    /// Only from the kernel.
    pub fn cause(&self, slot: u32) -> Result<Option<Errno>, BpfError> {
        let value = self.ports.causes.get(&slot.to_ne_bytes())?.unwrap_or_default();
        let number = value.first_chunk().map_or(0, |bytes| i32::from_ne_bytes(*bytes));
        Ok((number != 0).then(|| Errno::from_raw_os_error(number)))
    }

    /// Sends packets to this interface through the sockets again.
    ///
    /// # Errors
    /// Only from the kernel.
    pub fn close(&self, ifindex: u32) -> Result<(), BpfError> {
        // It stays a member and a device: what is on its way may still be sent and counted.
        self.ports.outs.remove(&ifindex.to_ne_bytes()).map(|_| ())
    }

    /// Whether programs may forward to this interface now.
    ///
    /// # Errors
    /// Only from the kernel.
    pub fn is_open(&self, ifindex: u32) -> Result<bool, BpfError> {
        Ok(self.ports.outs.get(&ifindex.to_ne_bytes())?.is_some())
    }

    /// Frames that the interface at `slot` did not take: they count as forwarded, too.
    ///
    /// # Errors
    /// Only from the kernel.
    pub fn refused(&self, slot: u32) -> Result<u64, BpfError> {
        let values = self.ports.refused.get(&slot.to_ne_bytes())?.unwrap_or_default();
        let (per_cpu, _) = values.as_chunks::<8>();
        Ok(per_cpu.iter().map(|value| u64::from_ne_bytes(*value)).sum())
    }
}

impl ForwardMaps {
    /// What one program has sent out of the interface at `slot`.
    pub(super) fn sent(&self, slot: u32) -> Result<Sent, BpfError> {
        let values = self.forwarded.get(&slot.to_ne_bytes())?.unwrap_or_default();
        let (words, _) = values.as_chunks::<8>();
        let sum = |first: usize| {
            words.iter().skip(first).step_by(2).map(|word| u64::from_ne_bytes(*word)).sum()
        };
        Ok(Sent { packets: sum(0), bytes: sum(1) })
    }
}
