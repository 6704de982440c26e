//! Local addresses of a program: two maps, and a filter of bits that excludes most other addresses.

use crate::bpf::{BpfError, Map, Object};
use std::net::IpAddr;

/// The maps (`bpf/port.h`).
pub(crate) struct Local {
    v4: Map,
    v6: Map,
    /// A bit of each address, in words of 64. Bits of removed addresses remain, which costs a
    /// look-up.
    bits: Map,
}

impl Local {
    /// Creates the maps as `object` defines them.
    pub(crate) fn new(object: &Object) -> Result<Self, BpfError> {
        Ok(Self {
            v4: object.create("wl_local_v4")?,
            v6: object.create("wl_local_v6")?,
            bits: object.create("wl_local_bits")?,
        })
    }

    /// Returns all maps.
    pub(crate) fn all(&self) -> [&Map; 3] {
        [&self.v4, &self.v6, &self.bits]
    }

    /// Adds an address, or gives it another value.
    ///
    /// # Errors
    /// When the map is full.
    pub(crate) fn add(&self, address: IpAddr, value: u8) -> Result<(), BpfError> {
        let (word, bit) = place(address);
        let key = word.to_ne_bytes();
        let old = self.bits.get(&key)?.unwrap_or_default();
        let old = old.first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes));
        // The bit first: without it, programs do not read the map.
        self.bits.set(&key, &(old | 1 << bit).to_ne_bytes())?;
        match address {
            IpAddr::V4(address) => self.v4.set(&address.octets(), &[value]),
            IpAddr::V6(address) => self.v6.set(&address.octets(), &[value]),
        }
    }

    /// Removes an address; nothing happens if it was not added.
    ///
    /// # Errors
    /// Only from the kernel.
    pub(crate) fn remove(&self, address: IpAddr) -> Result<(), BpfError> {
        match address {
            IpAddr::V4(address) => self.v4.remove(&address.octets()),
            IpAddr::V6(address) => self.v6.remove(&address.octets()),
        }
        .map(|_| ())
    }
}

/// Returns the word and bit of an address, like `may_be_local` in `bpf/port.h`.
fn place(address: IpAddr) -> (u32, u32) {
    let folded = match address {
        IpAddr::V4(address) => u32::from_ne_bytes(address.octets()),
        IpAddr::V6(address) => {
            let octets = address.octets();
            let (words, _) = octets.as_chunks::<4>();
            words.iter().fold(0, |sum, word| sum ^ u32::from_ne_bytes(*word))
        }
    };
    let bit = folded.wrapping_mul(0x9e37_79b1) >> 20;
    (bit / 64, bit % 64)
}
