//! Between which ports programs forward: maps that the programs of all ports share.

use crate::bpf::{BpfError, Map, Object};
use std::sync::Arc;

/// Most ports of a router that forward so, as in `bpf/ways.h`.
pub const FORWARD_PORTS_MAX: u32 = 256;

/// The maps that the programs of all ports share (`bpf/ways.h`).
#[derive(Debug)]
pub(crate) struct Ways {
    /// Interfaces that take frames from us now, with their slot, and whether also those in fragments.
    pub(crate) outs: Map,
    /// All interfaces that are ports, to their slot.
    pub(crate) members: Map,
    /// Devices to which frames are sent, by interface.
    pub(crate) devices: Map,
    /// Frames that an interface did not take, by slot.
    pub(crate) refused: Map,
    /// The error for which an interface was closed since it was last opened, by slot; 0 for none.
    pub(crate) causes: Map,
}

/// Maps of one program: the common ones, and its own counters.
pub(crate) struct ForwardMaps {
    ways: Arc<Ways>,
    /// Packets and bytes forwarded, by slot of the way out.
    forwarded: Map,
}

/// Count of frames sent out of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sent {
    /// Frames.
    pub packets: u64,
    /// Bytes of those, with their Ethernet header.
    pub bytes: u64,
}

impl Ways {
    /// Creates them, as this object wants them.
    pub(crate) fn new(object: &Object) -> Result<Self, BpfError> {
        Ok(Self {
            outs: object.create("wl_outs")?,
            members: object.create("wl_members")?,
            devices: object.create("wl_devices")?,
            refused: object.create("wl_refused")?,
            causes: object.create("wl_causes")?,
        })
    }

    /// All of them.
    pub(crate) fn all(&self) -> [&Map; 5] {
        let Self { outs, members, devices, refused, causes } = self;
        [outs, members, devices, refused, causes]
    }
}

impl ForwardMaps {
    /// For the program of one port, which is this object.
    pub(crate) fn new(ways: &Arc<Ways>, object: &Object) -> Result<Self, BpfError> {
        Ok(Self { ways: ways.clone(), forwarded: object.create("wl_forwarded")? })
    }

    /// All of them, the common ones too.
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
