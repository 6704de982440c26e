//! What a program is told of its interface, as it lies in its memory.

use crate::bpf::{BpfError, Map};

/// Bytes of a [`Station`] in its map.
const STATION_BYTES: usize = 12;

/// What a program knows of its interface, as in `bpf/port.h`.
pub(crate) struct Station {
    pub(crate) mac: [u8; 6],
    /// The length in bytes of the longest IP packet that sockets take.
    pub(crate) longest: u16,
    /// Whether policies say what may leave.
    pub(crate) guarded: bool,
}

impl Station {
    pub(crate) fn read(map: &Map) -> Result<Self, BpfError> {
        let value = map.get(&0_u32.to_ne_bytes())?.unwrap_or_default();
        let field = |at: usize| value.get(at..).unwrap_or_default();
        Ok(Self {
            mac: field(0).first_chunk().copied().unwrap_or_default(),
            longest: field(6).first_chunk().map_or(u16::MAX, |bytes| u16::from_ne_bytes(*bytes)),
            guarded: field(8).first_chunk().is_some_and(|bytes| u32::from_ne_bytes(*bytes) != 0),
        })
    }

    pub(crate) fn write(&self, map: &Map) -> Result<(), BpfError> {
        let mut value = [0; STATION_BYTES];
        value[..6].copy_from_slice(&self.mac);
        value[6..8].copy_from_slice(&self.longest.to_ne_bytes());
        value[8..].copy_from_slice(&u32::from(self.guarded).to_ne_bytes());
        map.set(&0_u32.to_ne_bytes(), &value)
    }
}
