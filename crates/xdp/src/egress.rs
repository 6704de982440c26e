//! Maps that the programs of all ports share: the ports between which they forward.

use crate::bpf::{BpfError, Map, Object};
use crate::copies::Copies;
use std::sync::Arc;

/// Maximum number of ports between which programs forward; `bpf/egress.h` has the same figure.
pub const FORWARD_PORTS_MAX: u32 = 256;

/// Number of places of interfaces that are found without hashing; `bpf/egress.h` has the same
/// figure.
const NEAR_EGRESS: u32 = 1024;

/// The maps that the programs of all ports share (`bpf/egress.h`).
#[derive(Debug)]
pub(crate) struct EgressPorts {
    /// Interfaces to which programs may send now, with their slot and a flag for frames in
    /// fragments.
    egress: Map,
    /// The same in an array indexed by [`place`], where most look-ups find them.
    near_egress: Map,
    /// Slot of each interface that is a port.
    pub(crate) members: Map,
    /// Devices to which frames are sent, by interface.
    pub(crate) devices: Map,
    /// Number of frames that each interface refused, by slot.
    pub(crate) refused: Map,
    /// Error that closed each interface after it was last opened, by slot; 0 if none.
    pub(crate) causes: Map,
    pub(crate) copies: Arc<Copies>,
}

/// Returns the key of an interface in [`EgressPorts::near_egress`].
fn place(ifindex: u32) -> [u8; 4] {
    (ifindex & (NEAR_EGRESS - 1)).to_ne_bytes()
}

/// Maps of one program: the shared ones and its own counters.
pub(crate) struct ForwardMaps {
    ports: Arc<EgressPorts>,
    /// Packets and bytes forwarded, by slot of the egress port.
    forwarded: Map,
}

/// Count of frames sent out of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sent {
    /// Frames.
    pub packets: u64,
    /// Bytes of these frames, Ethernet headers included.
    pub bytes: u64,
}

impl EgressPorts {
    /// Creates the maps as `object` defines them.
    pub(crate) fn new(object: &Object, copies: &Arc<Copies>) -> Result<Self, BpfError> {
        Ok(Self {
            egress: object.create("wl_egress")?,
            near_egress: object.create("wl_near_egress")?,
            members: object.create("wl_members")?,
            devices: object.create("wl_devices")?,
            refused: object.create("wl_refused")?,
            causes: object.create("wl_causes")?,
            copies: copies.clone(),
        })
    }

    /// Returns all shared maps.
    pub(crate) fn all(&self) -> [&Map; 9] {
        let Self { egress, near_egress, members, devices, refused, causes, copies } = self;
        let [copying, rings, uncopied] = copies.all();
        [egress, near_egress, members, devices, refused, causes, copying, rings, uncopied]
    }

    /// Lets programs send to an interface.
    pub(crate) fn open(&self, ifindex: u32, slot: u32, in_fragments: bool) -> Result<(), BpfError> {
        // `struct egress_port` of `bpf/egress.h`.
        let port = [slot.to_ne_bytes(), u32::from(in_fragments).to_ne_bytes()].concat();
        self.egress.set(&ifindex.to_ne_bytes(), &port)?;
        let word = u64::from(ifindex) | u64::from(slot) << 32 | u64::from(in_fragments) << 63;
        let near = self.near(ifindex)? as u32;
        if near == 0 || near == ifindex {
            self.near_egress.set(&place(ifindex), &word.to_ne_bytes())?;
        }
        Ok(())
    }

    /// Stops programs from sending to an interface; nothing happens if they did not.
    pub(crate) fn close(&self, ifindex: u32) -> Result<(), BpfError> {
        self.egress.remove(&ifindex.to_ne_bytes())?;
        if self.near(ifindex)? as u32 == ifindex {
            self.near_egress.set(&place(ifindex), &0_u64.to_ne_bytes())?;
        }
        Ok(())
    }

    /// Returns true if programs send to an interface.
    pub(crate) fn is_open(&self, ifindex: u32) -> Result<bool, BpfError> {
        Ok(self.egress.get(&ifindex.to_ne_bytes())?.is_some())
    }

    /// Returns the word at the place of an interface, which may be another's.
    fn near(&self, ifindex: u32) -> Result<u64, BpfError> {
        let value = self.near_egress.get(&place(ifindex))?.unwrap_or_default();
        Ok(value.first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes)))
    }
}

impl ForwardMaps {
    /// Creates the maps of one port's program, which is `object`.
    pub(crate) fn new(ports: &Arc<EgressPorts>, object: &Object) -> Result<Self, BpfError> {
        Ok(Self { ports: ports.clone(), forwarded: object.create("wl_forwarded")? })
    }

    /// Returns all maps of the program, shared ones included.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Map> {
        self.ports.all().into_iter().chain([&self.forwarded])
    }

    /// Returns the count of frames that one program has sent out of the interface at `slot`.
    pub(crate) fn sent(&self, slot: u32) -> Result<Sent, BpfError> {
        let values = self.forwarded.get(&slot.to_ne_bytes())?.unwrap_or_default();
        let (words, _) = values.as_chunks::<8>();
        let sum = |first: usize| {
            words.iter().skip(first).step_by(2).map(|word| u64::from_ne_bytes(*word)).sum()
        };
        Ok(Sent { packets: sum(0), bytes: sum(1) })
    }
}
