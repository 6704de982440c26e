//! Prefixes whose packets are left to the kernel.

use crate::bpf::{BpfError, Map};
use crate::program::XdpProgram;
use crate::station::Station;
use std::net::IpAddr;

/// Most prefixes of each family whose packets can be left to the kernel, as in `bpf/port.h`.
pub const LEFT_PREFIXES_MAX: u32 = 1024;

impl XdpProgram {
    /// Leaves packets from this prefix, and those to it, to the kernel: an address, and the number of
    /// bits that count. Nothing is left before [`Self::set_leaves`] says so.
    ///
    /// # Errors
    /// When there are more than [`LEFT_PREFIXES_MAX`] of the family, or more bits than addresses have.
    pub fn add_left(&self, address: IpAddr, bits: u8) -> Result<(), BpfError> {
        let (map, key) = self.left(address, bits);
        map.set(&key, &[1])
    }

    /// Takes a prefix back; nothing happens if it was not added.
    ///
    /// # Errors
    /// Only from the kernel.
    pub fn remove_left(&self, address: IpAddr, bits: u8) -> Result<(), BpfError> {
        let (map, key) = self.left(address, bits);
        map.remove(&key).map(|_| ())
    }

    /// Says whether prefixes are looked for at all: without any, that would be time for nothing.
    ///
    /// # Errors
    /// Only from the kernel.
    pub fn set_leaves(&self, leaves: bool) -> Result<(), BpfError> {
        let station = &self.loaded.maps.station;
        Station { leaves, ..Station::read(station)? }.write(station)
    }

    /// The map of a prefix, and its key there.
    fn left(&self, address: IpAddr, bits: u8) -> (&Map, Vec<u8>) {
        let maps = &self.loaded.maps;
        let length = u32::from(bits).to_ne_bytes();
        match address {
            IpAddr::V4(address) => (&maps.left_v4, [&length[..], &address.octets()].concat()),
            IpAddr::V6(address) => (&maps.left_v6, [&length[..], &address.octets()].concat()),
        }
    }
}
