//! The Toeplitz hash of receive-side scaling.
//!
//! Source: Microsoft, "RSS hashing types" and "Verifying the RSS hash calculation", with the
//! published vectors in the test below. A card hashes source and destination address, and for TCP
//! (and UDP if enabled) source and destination port, all in network order.

use std::net::{Ipv4Addr, Ipv6Addr};

/// The key in Microsoft's verification suite, the default of many cards.
pub const MICROSOFT_KEY: [u8; 40] = [
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0,
    0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c,
    0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
];

/// A hash function: its key.
#[derive(Debug, Clone)]
pub struct Toeplitz {
    key: [u8; 40],
}

impl Default for Toeplitz {
    fn default() -> Self {
        Self::new(MICROSOFT_KEY)
    }
}

impl Toeplitz {
    /// Makes the hash function with this key.
    pub fn new(key: [u8; 40]) -> Self {
        Self { key }
    }

    /// Returns the hash of at most 36 bytes (IPv6 with ports); further bytes are ignored.
    pub fn hash(&self, input: &[u8]) -> u32 {
        let mut result = 0;
        for (byte, window) in input.iter().zip(self.key.windows(5)) {
            // The 32 key bits next to bit i of this byte are bits i..i+32 of these five.
            let window =
                window.iter().fold(0u64, |window, byte| window << 8 | u64::from(*byte)) << 24;
            for bit in 0..8 {
                if byte & (0x80 >> bit) != 0 {
                    result ^= (window << bit >> 32) as u32;
                }
            }
        }
        result
    }

    /// Returns the hash of the addresses only.
    pub fn ipv4(&self, source: Ipv4Addr, destination: Ipv4Addr) -> u32 {
        let mut input = [0; 8];
        input[..4].copy_from_slice(&source.octets());
        input[4..].copy_from_slice(&destination.octets());
        self.hash(&input)
    }

    /// Returns the hash of addresses and ports.
    pub fn ipv4_ports(
        &self,
        (source, source_port): (Ipv4Addr, u16),
        (destination, destination_port): (Ipv4Addr, u16),
    ) -> u32 {
        let mut input = [0; 12];
        input[..4].copy_from_slice(&source.octets());
        input[4..8].copy_from_slice(&destination.octets());
        input[8..10].copy_from_slice(&source_port.to_be_bytes());
        input[10..].copy_from_slice(&destination_port.to_be_bytes());
        self.hash(&input)
    }

    /// Returns the hash of the addresses only.
    pub fn ipv6(&self, source: Ipv6Addr, destination: Ipv6Addr) -> u32 {
        let mut input = [0; 32];
        input[..16].copy_from_slice(&source.octets());
        input[16..].copy_from_slice(&destination.octets());
        self.hash(&input)
    }

    /// Returns the hash of addresses and ports.
    pub fn ipv6_ports(
        &self,
        (source, source_port): (Ipv6Addr, u16),
        (destination, destination_port): (Ipv6Addr, u16),
    ) -> u32 {
        let mut input = [0; 36];
        input[..16].copy_from_slice(&source.octets());
        input[16..32].copy_from_slice(&destination.octets());
        input[32..34].copy_from_slice(&source_port.to_be_bytes());
        input[34..].copy_from_slice(&destination_port.to_be_bytes());
        self.hash(&input)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn microsofts_ipv4_vectors() {
        for (destination, source, alone, with_ports) in [
            ("161.142.100.80:1766", "66.9.149.187:2794", 0x323e_8fc2, 0x51cc_c178),
            ("65.69.140.83:4739", "199.92.111.2:14230", 0xd718_262a, 0xc626_b0ea),
            ("12.22.207.184:38024", "24.19.198.95:12898", 0xd2d0_a5de, 0x5c2b_394a),
            ("209.142.163.6:2217", "38.27.205.30:48228", 0x8298_9176, 0xafc7_327f),
            ("202.188.127.2:1303", "153.39.163.191:44251", 0x5d18_09c5, 0x10e8_28a2),
        ] {
            let source: std::net::SocketAddrV4 = source.parse().unwrap();
            let destination: std::net::SocketAddrV4 = destination.parse().unwrap();
            let hash = Toeplitz::default();
            assert_eq!(hash.ipv4(*source.ip(), *destination.ip()), alone);
            let (source, destination) =
                ((*source.ip(), source.port()), (*destination.ip(), destination.port()));
            assert_eq!(hash.ipv4_ports(source, destination), with_ports);
        }
    }

    #[test]
    fn microsofts_ipv6_vectors() {
        for (destination, source, alone, with_ports) in [
            ("[3ffe:2501:200:3::1]:1766", "[3ffe:2501:200:1fff::7]:2794", 0x2cc1_8cd5, 0x4020_7d3d),
            ("[ff02::1]:4739", "[3ffe:501:8::260:97ff:fe40:efab]:14230", 0x0f0c_461c, 0xdde5_1bbf),
            (
                "[fe80::200:f8ff:fe21:67cf]:38024",
                "[3ffe:1900:4545:3:200:f8ff:fe21:67cf]:44251",
                0x4b61_e985,
                0x02d1_feef,
            ),
        ] {
            let source: std::net::SocketAddrV6 = source.parse().unwrap();
            let destination: std::net::SocketAddrV6 = destination.parse().unwrap();
            let hash = Toeplitz::default();
            assert_eq!(hash.ipv6(*source.ip(), *destination.ip()), alone);
            let (source, destination) =
                ((*source.ip(), source.port()), (*destination.ip(), destination.port()));
            assert_eq!(hash.ipv6_ports(source, destination), with_ports);
        }
    }
}
