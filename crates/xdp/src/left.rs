//! Packets that are left to the kernel, by prefix, route or kind.

use crate::bpf::{BpfError, Map};
use crate::program::XdpProgram;
use crate::station::Station;
use std::net::IpAddr;

/// Most prefixes of each family whose packets can be left to the kernel, as in `bpf/port.h`.
pub const LEFT_PREFIXES_MAX: u32 = 1024;
/// Most routes of each family that a program can know, likewise.
pub const ROUTED_PREFIXES_MAX: u32 = 65_536;

/// Kind of packets that a program leaves to the kernel, or to workers; its number is a bit of the
/// program's settings, as in `bpf/port.h`. A program without such kinds is faster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Leaves {
    /// Packets from and to the prefixes of [`XdpProgram::add_left`].
    Prefixes = 1,
    /// Packets by the routes of [`XdpProgram::add_route`].
    Routes = 2,
    /// IPv4 packets that leave by their ingress interface. IPv6 packets that do are always left, if
    /// the program forwards by itself.
    SameInterface = 4,
    /// Packets with an unfinished checksum.
    Unfinished = 8,
    /// Packets that may begin TCP connections, which go to workers.
    Openings = 16,
}

/// Treatment of packets by a route. The number is the value in the program's maps, as in
/// `bpf/port.h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Routed {
    /// Forwarded by workers or programs.
    FastPath,
    /// Left to the kernel.
    Kernel,
    /// Left to the kernel if they leave by the same VLAN of the interface by which they came in; 0
    /// without a tag.
    SameInterface(u16),
}

impl Routed {
    fn value(self) -> u16 {
        match self {
            Self::FastPath => 0,
            Self::Kernel => 1,
            Self::SameInterface(vlan) => 2 + vlan,
        }
    }
}

impl XdpProgram {
    /// Leaves packets from and to this prefix, given by an address and its number of bits, to the
    /// kernel. This takes effect with [`Self::set_leaves`].
    ///
    /// # Errors
    /// When there are more than [`LEFT_PREFIXES_MAX`] of the family, or more bits than addresses
    /// have.
    pub fn add_left(&self, address: IpAddr, bits: u8) -> Result<(), BpfError> {
        self.left(address).set(&key(address, bits), &[1])
    }

    /// Removes a prefix; nothing happens if it was not added.
    ///
    /// # Errors
    /// Only from the kernel.
    pub fn remove_left(&self, address: IpAddr, bits: u8) -> Result<(), BpfError> {
        self.left(address).remove(&key(address, bits)).map(|_| ())
    }

    /// Sets the treatment of packets to this prefix, unless a longer one contains their
    /// destination.
    ///
    /// # Errors
    /// When there are more than [`ROUTED_PREFIXES_MAX`] of the family, or more bits than addresses
    /// have.
    pub fn add_route(&self, address: IpAddr, bits: u8, routed: Routed) -> Result<(), BpfError> {
        self.routes(address).set(&key(address, bits), &routed.value().to_ne_bytes())
    }

    /// Removes a route; nothing happens if it was not added.
    ///
    /// # Errors
    /// Only from the kernel.
    pub fn remove_route(&self, address: IpAddr, bits: u8) -> Result<(), BpfError> {
        self.routes(address).remove(&key(address, bits)).map(|_| ())
    }

    /// Enables or disables the detection of this kind of packets, which are left to the kernel.
    ///
    /// # Errors
    /// Only from the kernel.
    pub fn set_leaves(&self, kind: Leaves, leaves: bool) -> Result<(), BpfError> {
        let map = &self.loaded.maps.station;
        let station = Station::read(map)?;
        let bit = kind as u32;
        let bits = if leaves { station.leaves | bit } else { station.leaves & !bit };
        Station { leaves: bits, ..station }.write(map)
    }

    fn left(&self, address: IpAddr) -> &Map {
        let maps = &self.loaded.maps;
        if address.is_ipv4() { &maps.left_v4 } else { &maps.left_v6 }
    }

    fn routes(&self, address: IpAddr) -> &Map {
        let maps = &self.loaded.maps;
        if address.is_ipv4() { &maps.routes_v4 } else { &maps.routes_v6 }
    }
}

/// Key of a prefix in a map.
fn key(address: IpAddr, bits: u8) -> Vec<u8> {
    let length = u32::from(bits).to_ne_bytes();
    match address {
        IpAddr::V4(address) => [&length[..], &address.octets()].concat(),
        IpAddr::V6(address) => [&length[..], &address.octets()].concat(),
    }
}
