//! Encoded messages are decoded by a decoder that knows only the templates.

use super::*;
use crate::protocol;
use proptest::prelude::*;
use std::collections::HashMap;

type Fields = Vec<(u16, usize)>;

/// Reads messages as a collector does.
struct Collector {
    version: Version,
    templates: HashMap<u16, Fields>,
    /// Sequence number that the next message should have.
    expected: u32,
}

type Decoded = Vec<(u16, HashMap<u16, Vec<u8>>)>;

fn word(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn long(bytes: &[u8], at: usize) -> u32 {
    u32::from(word(bytes, at)) << 16 | u32::from(word(bytes, at + 2))
}

impl Collector {
    fn new(version: Version) -> Self {
        Self { version, templates: HashMap::new(), expected: 0 }
    }

    fn read(&mut self, message: &[u8]) -> Decoded {
        let ipfix = self.version == Version::Ipfix;
        let (header, sequence) = if ipfix { (16, 8) } else { (20, 12) };
        assert_eq!(word(message, 0), if ipfix { 10 } else { 9 });
        assert_eq!(long(message, sequence), self.expected);
        if ipfix {
            assert_eq!(usize::from(word(message, 2)), message.len());
        }
        let (mut at, mut records, mut templates) = (header, Vec::new(), 0);
        while at < message.len() {
            let (id, length) = (word(message, at), usize::from(word(message, at + 2)));
            assert!(length >= 8 && length % 4 == 0);
            let set = &message[at + 4..at + length];
            match (id, ipfix) {
                (0, false) | (2, true) => templates += self.template_set(set),
                (1, false) | (3, true) => {
                    self.options(set, ipfix);
                    templates += 1;
                }
                _ => records.extend(self.data(id, set)),
            }
            at += length;
        }
        assert_eq!(at, message.len());
        if ipfix {
            self.expected += records.len() as u32;
        } else {
            assert_eq!(usize::from(word(message, 2)), records.len() + templates);
            self.expected += 1;
        }
        records
    }

    fn fields(bytes: &[u8], count: usize) -> Fields {
        (0..count).map(|n| (word(bytes, 4 * n), usize::from(word(bytes, 4 * n + 2)))).collect()
    }

    fn template_set(&mut self, mut set: &[u8]) -> usize {
        let mut count = 0;
        while set.len() >= 4 {
            let fields = usize::from(word(set, 2));
            self.templates.insert(word(set, 0), Self::fields(&set[4..], fields));
            set = &set[4 + 4 * fields..];
            count += 1;
        }
        count
    }

    fn options(&mut self, set: &[u8], ipfix: bool) {
        let count = match ipfix {
            true => usize::from(word(set, 2)),
            false => usize::from(word(set, 2) + word(set, 4)) / 4,
        };
        self.templates.insert(word(set, 0), Self::fields(&set[6..], count));
    }

    fn data(&self, id: u16, mut set: &[u8]) -> Decoded {
        let fields = &self.templates[&id];
        let length: usize = fields.iter().map(|(_, length)| length).sum();
        let mut records = Vec::new();
        while set.len() >= length {
            let mut record = HashMap::new();
            for (number, length) in fields {
                let (value, rest) = set.split_at(*length);
                record.insert(*number, value.to_vec());
                set = rest;
            }
            records.push((id, record));
        }
        assert!(set.iter().all(|byte| *byte == 0) && set.len() < 4, "padding");
        records
    }
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

const BOOT: u64 = 1_700_000_000_123;

/// Compares a decoded record with the encoded one.
fn compare(version: Version, id: u16, decoded: &HashMap<u16, Vec<u8>>, record: &FlowRecord) {
    let six = record.is_ipv6();
    assert_eq!(id, if six { TEMPLATE_IPV6 } else { TEMPLATE_IPV4 });
    let bytes = |address: IpAddr| match address {
        IpAddr::V4(it) => it.octets().to_vec(),
        IpAddr::V6(it) => it.octets().to_vec(),
    };
    let by = |four, six_number| &decoded[if six { &six_number } else { &four }];
    assert_eq!(*by(8, 27), bytes(record.source));
    assert_eq!(*by(12, 28), bytes(record.destination));
    let next_hop = by(15, 62);
    match record.next_hop.filter(|hop| hop.is_ipv6() == six) {
        Some(hop) => assert_eq!(*next_hop, bytes(hop)),
        None => assert!(next_hop.iter().all(|byte| *byte == 0)),
    }
    let is = |field: u16, value: u64| assert_eq!(number(&decoded[&field]), value, "{field}");
    is(7, record.source_port.into());
    is(11, record.destination_port.into());
    is(4, record.protocol.into());
    is(5, record.service.into());
    is(6, record.tcp_flags.into());
    is(10, record.ingress.into());
    is(14, record.egress.into());
    is(58, record.vlan.into());
    // Version 9 has one field for both families (RFC 3954 section 8).
    let icmp = matches!(record.protocol, protocol::ICMP | protocol::ICMP6);
    is(
        if six && version == Version::Ipfix { 139 } else { 32 },
        match icmp {
            true => record.destination_port.into(),
            false => 0,
        },
    );
    is(1, record.bytes);
    is(2, record.packets);
    is(if six { 30 } else { 13 }, record.destination_prefix.into());
    match version {
        Version::Ipfix => {
            is(152, record.first_millis);
            is(153, record.last_millis);
            is(136, record.end_reason.into());
        }
        Version::Netflow9 => {
            is(22, (record.first_millis - BOOT) & 0xffff_ffff);
            is(21, (record.last_millis - BOOT) & 0xffff_ffff);
        }
    }
}

fn records() -> impl Strategy<Value = FlowRecord> {
    let addresses = (any::<bool>(), any::<u128>(), any::<u128>(), any::<Option<u128>>());
    let numbers = (any::<[u8; 5]>(), any::<[u16; 3]>(), any::<[u32; 2]>(), any::<[u64; 2]>());
    let times = (0..1_u64 << 33, 0..1_u64 << 31, 1..=5_u8);
    (addresses, numbers, times).prop_map(|(addresses, numbers, (first, lasted, end_reason))| {
        let (six, source, destination, next_hop) = addresses;
        let ([protocol, service, tcp_flags, source_prefix, destination_prefix], ..) = numbers;
        let protocol = match protocol {
            0..64 => protocol::ICMP,
            64..128 => protocol::ICMP6,
            other => other,
        };
        let (_, [source_port, destination_port, vlan], [ingress, egress], [packets, bytes]) =
            numbers;
        FlowRecord {
            source: address(source, six),
            destination: address(destination, six),
            // Occasionally of the other family.
            next_hop: next_hop.map(|it| address(it, six != it.is_multiple_of(7))),
            source_port,
            destination_port,
            protocol,
            service,
            tcp_flags,
            ingress,
            egress,
            vlan,
            source_prefix,
            destination_prefix,
            packets,
            bytes,
            first_millis: BOOT + first,
            last_millis: BOOT + first + lasted,
            end_reason,
        }
    })
}

fn address(bits: u128, six: bool) -> IpAddr {
    if six { IpAddr::V6(bits.into()) } else { IpAddr::V4((bits as u32).into()) }
}

proptest! {
    #[test]
    fn everything_comes_back(
        list in prop::collection::vec(records(), 0..80),
        longest in 0..3000_usize,
        netflow9: bool,
    ) {
        let version = if netflow9 { Version::Netflow9 } else { Version::Ipfix };
        let mut encoder = Encoder::new(version, 7, BOOT, longest);
        let mut collector = Collector::new(version);
        let sampler = Sampler { interval: 10, random: longest % 2 == 0 };
        let status = Status { records: 5, lost_packets: 9, ..Status::default() };
        let options = collector.read(encoder.templates(BOOT + 5, &status, Some(sampler)));
        prop_assert_eq!(options.len(), 2);
        let again = collector.read(encoder.options(BOOT + 6, &status, Some(sampler)));
        prop_assert_eq!(&options, &again);
        prop_assert_eq!(number(&options[0].1[&42]), 5);
        let mut rest = &list[..];
        while !rest.is_empty() {
            let (taken, message) = encoder.records(BOOT + 9, rest);
            prop_assert!(taken > 0 && message.len() <= longest.max(512));
            for ((id, decoded), record) in collector.read(message).iter().zip(rest) {
                compare(version, *id, decoded, record);
            }
            rest = &rest[taken..];
        }
    }
}

#[test]
fn templates_fit_into_the_shortest_message() {
    for version in [Version::Ipfix, Version::Netflow9] {
        let mut encoder = Encoder::new(version, 7, BOOT, 0);
        let sampler = Sampler { interval: 10, random: true };
        let message = encoder.templates(BOOT, &Status::default(), Some(sampler));
        assert!(message.len() <= 512, "{}", message.len());
    }
}
