//! Maps that the programs of all ports share: the ports between which they forward.

use crate::bpf::{BpfError, Map, Object};
use crate::copies::Copies;
use std::sync::Arc;

/// Maximum number of ports between which programs forward; `bpf/ways.h` has the same figure.
pub const FORWARD_PORTS_MAX: u32 = 256;

/// The maps that the programs of all ports share (`bpf/ways.h`).
#[derive(Debug)]
pub(crate) struct Ways {
    /// Interfaces to which programs may send now, with their slot and whether they take frames in
    /// fragments.
    pub(crate) outs: Map,
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

/// Maps of one program: the shared ones and its own counters.
pub(crate) struct ForwardMaps {
    ways: Arc<Ways>,
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

impl Ways {
    /// Creates the maps as `object` defines them.
    pub(crate) fn new(object: &Object, copies: &Arc<Copies>) -> Result<Self, BpfError> {
        Ok(Self {
            outs: object.create("wl_outs")?,
            members: object.create("wl_members")?,
            devices: object.create("wl_devices")?,
            refused: object.create("wl_refused")?,
            causes: object.create("wl_causes")?,
            copies: copies.clone(),
        })
    }

    /// Returns all shared maps.
    pub(crate) fn all(&self) -> [&Map; 8] {
        let Self { outs, members, devices, refused, causes, copies } = self;
        let [copying, rings, uncopied] = copies.all();
        [outs, members, devices, refused, causes, copying, rings, uncopied]
    }
}

impl ForwardMaps {
    /// Creates the maps of one port's program, which is `object`.
    pub(crate) fn new(ways: &Arc<Ways>, object: &Object) -> Result<Self, BpfError> {
        Ok(Self { ways: ways.clone(), forwarded: object.create("wl_forwarded")? })
    }

    /// Returns all maps of the program, shared ones included.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Map> {
        self.ways.all().into_iter().chain([&self.forwarded])
    }

    /// Returns the frames that one program has sent out of the interface at `slot`.
    pub(crate) fn sent(&self, slot: u32) -> Result<Sent, BpfError> {
        let values = self.forwarded.get(&slot.to_ne_bytes())?.unwrap_or_default();
        let (words, _) = values.as_chunks::<8>();
        let sum = |first: usize| {
            words.iter().skip(first).step_by(2).map(|word| u64::from_ne_bytes(*word)).sum()
        };
        Ok(Sent { packets: sum(0), bytes: sum(1) })
    }
}
