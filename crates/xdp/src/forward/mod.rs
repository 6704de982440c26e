//! Forwarding in the XDP program itself, without a socket and a worker.
//!
//! If frames would be copied to sockets, forwarding a plain packet in the driver takes a third of
//! the time: no copy, no socket buffer, no wake-up of a thread. The program looks up the kernel's
//! own table (`bpf_fib_lookup`), so routes, rules and neighbours are the kernel's. All other
//! packets go to the socket as before. The program is `bpf/forward.bpf.c`.

mod losses;

#[cfg(test)]
mod copied;
#[cfg(test)]
mod tests;

use crate::bpf::{BpfError, Link, object};
use crate::copies::Copies;
use crate::egress::EgressPorts;
use crate::loaded::Loaded;
use rustix::io::Errno;
use std::sync::Arc;

/// The ports of a router between which XDP programs forward. All programs share it, except for
/// their own counters.
#[derive(Debug)]
pub struct XdpForward {
    ports: Arc<EgressPorts>,
    _losses: [Link; 2],
}

impl XdpForward {
    /// Prepares forwarding between interfaces of this thread's network namespace; nothing is
    /// forwarded before ports are opened. Forwarded packets can be copied to `copies`.
    ///
    /// # Errors
    /// Without CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON (refused frames are reported by tracepoints
    /// only), in a kernel without type information, or one that refuses the program.
    pub fn new(copies: &Arc<Copies>) -> Result<Self, BpfError> {
        let ports = EgressPorts::new(&object!("redirect")?, copies)?;
        let losses = losses::count(&ports)?;
        let forward = Self { ports: ports.into(), _losses: losses };
        // If the kernel's verifier does not accept the program, that should be known before a port
        // is attached.
        Loaded::new([0; 6], Some(&forward.ports))?;
        Ok(forward)
    }

    /// Returns the maps for copies of forwarded packets.
    pub fn copies(&self) -> &Arc<Copies> {
        &self.ports.copies
    }

    /// Returns the maps that the programs of ports share.
    pub(crate) fn ports(&self) -> &Arc<EgressPorts> {
        &self.ports
    }

    /// Adds a port: an interface that gets a program, and whose counters as an egress port are at
    /// `slot`. Nothing is forwarded to it before it is opened.
    ///
    /// # Errors
    /// When `slot` is not below [`crate::FORWARD_PORTS_MAX`], or there is no such interface.
    pub fn add(&self, ifindex: u32, slot: u32) -> Result<(), BpfError> {
        let key = ifindex.to_ne_bytes();
        self.ports.members.set(&key, &slot.to_ne_bytes())?;
        self.ports.devices.set(&key, &key)
    }

    /// Removes an interface that is gone. Its slot continues to count for the next interface that
    /// is added there.
    ///
    /// # Errors
    /// Only from the kernel.
    pub fn remove(&self, ifindex: u32) -> Result<(), BpfError> {
        let key = ifindex.to_ne_bytes();
        self.ports.close(ifindex)?;
        self.ports.members.remove(&key)?;
        self.ports.devices.remove(&key).map(|_| ())
    }

    /// Lets programs forward to an added port; with `in_fragments` also frames in several pieces of
    /// memory (jumbo frames), which the driver has to support (`wattline_linux::xdp_features`, from
    /// Linux 6.3 on). The first batch (of up to 16 frames) that it refuses with an error is lost
    /// and counted, and closes the port again ([`Self::cause`]).
    ///
    /// # Errors
    /// ENOENT if it was not added.
    pub fn open(&self, ifindex: u32, in_fragments: bool) -> Result<(), BpfError> {
        let key = ifindex.to_ne_bytes();
        let slot = self.ports.members.get(&key)?.ok_or_else(|| BpfError::System {
            action: format!("opening the egress of interface {ifindex}"),
            source: Errno::NOENT,
        })?;
        self.ports.causes.set(&slot, &0_u32.to_ne_bytes())?;
        let slot = slot.first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes));
        self.ports.open(ifindex, slot, in_fragments)
    }

    /// Returns the error that has closed the interface at `slot` since it was last opened: ENXIO if
    /// it has no queue for frames of XDP programs, or a veth's far end does not run NAPI; ENETDOWN
    /// if it is down; EOPNOTSUPP if the kernel knows that it takes none.
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
        // It remains a member and a device: frames under way may still be sent and counted.
        self.ports.close(ifindex)
    }

    /// Returns true if programs may forward to this interface now.
    ///
    /// # Errors
    /// Only from the kernel.
    pub fn is_open(&self, ifindex: u32) -> Result<bool, BpfError> {
        self.ports.is_open(ifindex)
    }

    /// Returns the number of frames that the interface at `slot` refused; they count as forwarded,
    /// too.
    ///
    /// # Errors
    /// Only from the kernel.
    pub fn refused(&self, slot: u32) -> Result<u64, BpfError> {
        let values = self.ports.refused.get(&slot.to_ne_bytes())?.unwrap_or_default();
        let (per_cpu, _) = values.as_chunks::<8>();
        Ok(per_cpu.iter().map(|value| u64::from_ne_bytes(*value)).sum())
    }
}
