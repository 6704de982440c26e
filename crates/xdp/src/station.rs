//! Settings of a program about its interface, in the layout of its memory.

use crate::bpf::{BpfError, Map};

/// Bytes of a [`Station`] in its map.
const STATION_BYTES: usize = 16;

/// Settings of a program about its interface, as in `bpf/port.h`.
pub(crate) struct Station {
    pub(crate) mac: [u8; 6],
    /// The length in bytes of the longest IP packet that sockets take.
    pub(crate) longest: u16,
    /// True if policies decide about forwarded packets.
    pub(crate) guarded: bool,
    /// Bits of packets that are left to the kernel, as [`crate::Leaves`].
    pub(crate) leaves: u32,
}

impl Station {
    pub(crate) fn read(map: &Map) -> Result<Self, BpfError> {
        let value = map.get(&0_u32.to_ne_bytes())?.unwrap_or_default();
        let field = |at: usize| value.get(at..).unwrap_or_default();
        let word = |at: usize| field(at).first_chunk().map_or(0, |it| u32::from_ne_bytes(*it));
        Ok(Self {
            mac: field(0).first_chunk().copied().unwrap_or_default(),
            longest: field(6).first_chunk().map_or(u16::MAX, |bytes| u16::from_ne_bytes(*bytes)),
            guarded: word(8) != 0,
            leaves: word(12),
        })
    }

    pub(crate) fn write(&self, map: &Map) -> Result<(), BpfError> {
        let mut value = [0; STATION_BYTES];
        value[..6].copy_from_slice(&self.mac);
        value[6..8].copy_from_slice(&self.longest.to_ne_bytes());
        value[8..12].copy_from_slice(&u32::from(self.guarded).to_ne_bytes());
        value[12..].copy_from_slice(&self.leaves.to_ne_bytes());
        map.set(&0_u32.to_ne_bytes(), &value)
    }
}
