//! Reading and writing of captures: formats, byte orders, time stamps, and invalid files.

use proptest::prelude::*;
use std::path::{Path, PathBuf};
use std::time::Duration;
use wattline_traffic::capture::{
    CaptureError, LinkType, MAX_PACKET, Problem, Reader, Resolution, Writer,
};
use wattline_units::Span;

type Packet = (Duration, u32, Vec<u8>);

fn write(packets: &[Packet], resolution: Resolution) -> Vec<u8> {
    let mut writer = Writer::new("memory", Vec::new(), LinkType::ETHERNET, resolution).unwrap();
    for (time, length, data) in packets {
        writer.write_cut(*time, data, *length).unwrap();
    }
    writer.finish().unwrap()
}

/// Every packet up to the end or the first error.
fn read(bytes: &[u8]) -> (Vec<Packet>, Option<CaptureError>) {
    let mut packets = Vec::new();
    let mut reader = match Reader::new("memory", bytes) {
        Ok(reader) => reader,
        Err(error) => return (packets, Some(error)),
    };
    loop {
        match reader.next_record() {
            Ok(Some(r)) => packets.push((r.timestamp, r.original_length, r.data.to_vec())),
            Ok(None) => return (packets, None),
            Err(error) => {
                assert!(reader.next_record().unwrap().is_none(), "an error ends the capture");
                return (packets, Some(error));
            }
        }
    }
}

/// A pcapng block with both length fields.
fn block(kind: u32, body: &[u8], big_endian: bool) -> Vec<u8> {
    let number = |n: u32| if big_endian { n.to_be_bytes() } else { n.to_le_bytes() };
    let mut body = body.to_vec();
    body.resize(body.len().next_multiple_of(4), 0);
    let size = number(body.len() as u32 + 12);
    [number(kind).as_slice(), &size, &body, &size].concat()
}

/// One section, two interfaces (microseconds; 2^-10 s, 100 s late), three packets.
fn pcapng(big_endian: bool) -> Vec<u8> {
    let n4 = |n: u32| if big_endian { n.to_be_bytes() } else { n.to_le_bytes() };
    let n2 = |n: u16| if big_endian { n.to_be_bytes() } else { n.to_le_bytes() };
    let n8 = |n: u64| if big_endian { n.to_be_bytes() } else { n.to_le_bytes() };
    let section = [&n4(0x1a2b_3c4d)[..], &n2(1), &n2(0), &[0xff; 8]].concat();
    let plain = [&n2(1)[..], &n2(0), &n4(4)].concat();
    let late = [
        &n2(113)[..],
        &n2(0),
        &n4(0), // Linux cooked, unlimited
        &n2(9),
        &n2(1),
        &[0x80 | 10, 0, 0, 0], // if_tsresol
        &n2(14),
        &n2(8),
        &n8(100), // if_tsoffset
        &n2(0),
        &n2(0),
    ]
    .concat();
    let packet = |interface: u32, ticks: u32, length: u32, data: &[u8]| {
        [&n4(interface)[..], &n4(0), &n4(ticks), &n4(data.len() as u32), &n4(length), data].concat()
    };
    [
        block(0x0a0d_0d0a, &section, big_endian),
        block(1, &plain, big_endian),
        block(1, &late, big_endian),
        block(5, &[0; 12], big_endian),
        block(6, &packet(0, 99_000_000, 60, &[1, 2, 3, 4, 5]), big_endian),
        block(6, &packet(1, 1536, 7, &[6, 7, 8]), big_endian),
        block(3, &[&n4(9)[..], &[9; 4]].concat(), big_endian),
    ]
    .concat()
}

#[test]
fn pcapng_of_either_byte_order_with_two_interfaces() {
    for big_endian in [false, true] {
        let bytes = pcapng(big_endian);
        let mut reader = Reader::new("memory", bytes.as_slice()).unwrap();
        let first = reader.next_record().unwrap().unwrap();
        assert_eq!((first.link_type, first.interface), (LinkType::ETHERNET, 0));
        assert_eq!((first.original_length, first.data), (60, &[1, 2, 3, 4, 5][..]));
        assert_eq!(first.timestamp, Duration::from_secs(99));
        let second = reader.next_record().unwrap().unwrap();
        assert_eq!((second.link_type, second.interface), (LinkType::LINUX_SLL, 1));
        // 100 s of offset and 1536 / 1024 s.
        assert_eq!(second.timestamp, Duration::from_millis(101_500));
        assert_eq!(second.time.since(Default::default()), Span::from_millis(2_500));
        // A Simple Packet Block: cut at the snap length of interface 0, without a time.
        let third = reader.next_record().unwrap().unwrap();
        assert_eq!((third.original_length, third.data), (9, &[9; 4][..]));
        assert_eq!(third.timestamp, Duration::from_millis(101_500));
        assert!(reader.next_record().unwrap().is_none());
    }
}

#[test]
fn pcap_in_network_byte_order() {
    let mut bytes = write(&[(Duration::new(7, 9), 1500, vec![1; 60])], Resolution::Nanos);
    for field in [0..4, 8..12, 12..16, 16..20, 20..24, 24..28, 28..32, 32..36, 36..40] {
        bytes[field].reverse();
    }
    for field in [4..6, 6..8] {
        bytes[field].reverse();
    }
    let (packets, error) = read(&bytes);
    assert!(error.is_none(), "{error:?}");
    assert_eq!(packets, [(Duration::new(7, 9), 1500, vec![1; 60])]);
}

/// A capture cut at any byte gives the packets before the cut, then the position of the cut.
#[test]
fn a_capture_cut_at_every_byte() {
    let packets: Vec<Packet> =
        (0..4u8).map(|i| (Duration::from_secs(i.into()), 100, vec![i; 10 + i as usize])).collect();
    let pcap = write(&packets, Resolution::Micros);
    for bytes in [pcap, pcapng(false), pcapng(true)] {
        let (whole, error) = read(&bytes);
        assert!(error.is_none());
        for cut in 0..bytes.len() {
            let (part, error) = read(&bytes[..cut]);
            assert!(whole.starts_with(&part));
            if let Some(error) = error {
                assert_eq!(error.packet, part.len() as u64 + 1);
                assert!(error.offset <= cut as u64);
                assert!(
                    matches!(error.problem, Problem::Truncated { .. } | Problem::Empty),
                    "{error}"
                );
            } else {
                assert!(part.len() < whole.len() || cut == bytes.len());
            }
        }
    }
}

#[test]
fn false_lengths_are_reported_with_their_position() {
    let packets = [(Duration::ZERO, 60, vec![0; 60]), (Duration::ZERO, 60, vec![0; 60])];
    let good = write(&packets, Resolution::Micros);
    let second = 24 + 16 + 60;

    let mut huge = good.clone();
    huge[second + 8..second + 12].copy_from_slice(&u32::MAX.to_le_bytes());
    let (before, error) = read(&huge);
    assert_eq!(before.len(), 1);
    let text = error.unwrap().to_string();
    assert!(text.starts_with("memory: byte 100, packet 2: the captured length"), "{text}");
    assert!(text.contains("4294967295, allowed are 0 to 262144"), "{text}");

    let mut short = good.clone();
    short[second + 12..second + 16].copy_from_slice(&59u32.to_le_bytes());
    let text = read(&short).1.unwrap().to_string();
    assert!(text.contains("original length of a packet is 59, allowed are 60"), "{text}");

    let mut version = good;
    version[6] = 3;
    let text = read(&version).1.unwrap().to_string();
    assert!(text.contains("version 2.3; pcap 2.4 can be read"), "{text}");

    let text = read(b"GIF89a").1.unwrap().to_string();
    assert!(text.contains("starts with 47494638, which is neither pcap"), "{text}");
    assert!(matches!(read(b"").1.unwrap().problem, Problem::Empty));
}

#[test]
fn undescribed_interface_is_an_error() {
    let mut bytes = pcapng(false);
    let at = 28 + 20 + 44 + 24 + 8; // the first packet block's interface number
    assert_eq!(bytes[at..at + 4], [0; 4]);
    bytes[at] = 2;
    let error = read(&bytes).1.unwrap();
    assert!(matches!(error.problem, Problem::Interface { interface: 2, described: 2 }), "{error}");
}

#[test]
fn writer_refuses_too_long_packet() {
    let mut writer =
        Writer::new("memory", Vec::new(), LinkType::ETHERNET, Resolution::Micros).unwrap();
    let data = vec![0; MAX_PACKET as usize + 1];
    let error = writer.write(Duration::ZERO, &data).unwrap_err();
    assert!(matches!(error.problem, Problem::TooLong(262_145)));
    assert_eq!(writer.packets(), 0);
}

#[test]
fn missing_file_is_distinguished() {
    let error = Reader::open("/nonexistent/x.pcap").unwrap_err();
    assert!(matches!(error.problem, Problem::Open(_)));
    assert!(error.to_string().starts_with("/nonexistent/x.pcap: "));
}

#[test]
fn random_bytes_never_panic() {
    bolero::check!().with_iterations(20_000).for_each(|bytes: &[u8]| {
        read(bytes);
    });
    // Random bytes rarely get past a magic number, so they get a valid prefix.
    for prefix in [pcapng(false), pcapng(true), write(&[], Resolution::Nanos)] {
        bolero::check!().with_iterations(20_000).for_each(|bytes: &[u8]| {
            read(&[prefix.as_slice(), bytes].concat());
        });
    }
}

proptest! {
    #[test]
    fn written_capture_is_read_back(
        packets in prop::collection::vec(
            (0..u32::MAX, 0..1_000_000_000u32, 0..3_000u32, prop::collection::vec(any::<u8>(), 0..200)),
            0..20,
        ),
    ) {
        let packets: Vec<Packet> = packets
            .into_iter()
            .map(|(s, n, more, data)| {
                (Duration::new(s.into(), n), data.len() as u32 + more, data)
            })
            .collect();
        let (back, error) = read(&write(&packets, Resolution::Nanos));
        prop_assert!(error.is_none());
        prop_assert_eq!(back, packets);
    }

    /// Any byte of a good capture replaced by any other.
    #[test]
    fn a_mangled_byte_never_panics(place in 0..400usize, value: u8, big_endian: bool) {
        let mut bytes = pcapng(big_endian);
        let place = place % bytes.len();
        bytes[place] = value;
        read(&bytes);
    }
}

fn data() -> Option<PathBuf> {
    let data = std::env::var_os("WATTLINE_DATA").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
        PathBuf::from,
    );
    let captures = data.join("captures");
    if captures.is_dir() {
        return Some(captures);
    }
    wattline_needs::data(format_args!("captures in {}", captures.display()));
    None
}

/// Packets and bytes on the wire, as capinfos counts them.
const COUNTS: [(&str, u64, u64); 14] = [
    ("1kxun.pcap", 1723, 2_527_774),
    ("443-firefox.pcap", 667, 458_067),
    ("KakaoTalk_talk.pcap", 3203, 435_792),
    ("bitcoin.pcap", 529, 426_544),
    ("bittorrent.pcap", 299, 305_728),
    ("gnutella.pcap", 3905, 578_474),
    ("ipsec_isakmp_esp.pcap", 834, 451_722),
    ("netflix.pcap", 1793, 1_006_416),
    ("quic.pcap", 518, 348_566),
    ("teams.pcap", 1540, 679_515),
    ("tinc.pcap", 317, 352_291),
    ("vnc.pcap", 4551, 329_158),
    ("webex.pcap", 1110, 555_106),
    ("whatsappfiles.pcap", 620, 452_233),
];

#[test]
fn real_captures_are_read_to_their_end() {
    let Some(captures) = data() else { return };
    for (name, packets, bytes) in COUNTS {
        let mut reader = Reader::open(captures.join(name)).unwrap();
        let mut seen = 0;
        while let Some(record) = reader.next_record().unwrap() {
            assert!(record.data.len() <= record.original_length as usize);
            seen += u64::from(record.original_length);
        }
        assert_eq!((reader.packets(), seen), (packets, bytes), "{name}");
    }
}
