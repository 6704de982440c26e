//! Saving of redundancy elimination, on streams of known redundancy and on captures.
//!
//! Encoder and decoder run without a router, on one core. The saving of `zstd -3 --long=27` on the
//! same payloads in one piece serves as an upper reference: it also compresses within packets,
//! needs all packets before it writes any, and cannot decode if one of them is missing.

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use wattline_packet::ipv4::Ipv4Packet;
use wattline_packet::protocol;
use wattline_packet::redundancy::{Key, LONGEST_PAYLOAD};
use wattline_redundancy::nodes::select::Selection;
use wattline_redundancy::nodes::{
    Decoded, Decoder, DecoderCache, EncodeSettings, Encoded, Encoder, EncoderCache,
    SHORTEST_PAYLOAD,
};
use wattline_testbed::Error;
use wattline_testbed::replay;

/// Payload bytes per packet of synthetic streams.
const PAYLOAD: usize = 1400;

/// Protocol number and payload of each packet.
pub type Payloads = Vec<(u8, Vec<u8>)>;

/// Creates a stream of `bytes` bytes in which `percent` per cent (0 to 100) are repeats, cut from
/// anywhere in the fresh bytes so far. Also returns the exact share of repeats in per cent.
fn synthetic(percent: u32, bytes: usize) -> (Payloads, f64) {
    let mut random = SmallRng::seed_from_u64(percent.into());
    let mut noise = |length: usize| {
        let mut bytes = vec![0; length];
        random.fill(&mut bytes[..]);
        bytes
    };
    let mut history = noise(50 * PAYLOAD);
    let mut payloads: Payloads =
        history.chunks(PAYLOAD).map(|fresh| (protocol::UDP, fresh.to_vec())).collect();
    let mut random = SmallRng::seed_from_u64(u64::from(percent) + 1000);
    while payloads.len() * PAYLOAD < bytes {
        if random.random_range(0..100) < percent {
            let at = random.random_range(0..history.len() - PAYLOAD);
            payloads.push((protocol::UDP, history[at..at + PAYLOAD].to_vec()));
        } else {
            let fresh = noise(PAYLOAD);
            history.extend_from_slice(&fresh);
            payloads.push((protocol::UDP, fresh));
        }
    }
    let known = 100.0 * (1.0 - history.len() as f64 / (payloads.len() * PAYLOAD) as f64);
    (payloads, known)
}

/// Returns the payloads of a capture's IPv4 packets.
///
/// # Errors
/// Fails when the capture cannot be read.
fn capture_payloads(path: &Path) -> Result<Payloads, Error> {
    let payload = |frame: &Vec<u8>| {
        let packet = Ipv4Packet::parse(frame.get(14..)?).ok()?;
        Some((packet.header.protocol, packet.payload.to_vec()))
    };
    Ok(replay::load(path)?.iter().filter_map(payload).collect())
}

/// Returns the saving of zstd in per cent; `None` if zstd is not installed.
fn zstd_saves(payloads: &Payloads) -> Option<f64> {
    let mut command = Command::new("zstd");
    command.args(["-3", "--long=27", "-c", "-q"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().ok()?;
    let mut input = child.stdin.take()?;
    let all: Vec<u8> = payloads.iter().flat_map(|(_, bytes)| bytes.iter().copied()).collect();
    let before = all.len();
    let writer = std::thread::spawn(move || input.write_all(&all));
    let after = child.wait_with_output().ok()?.stdout.len();
    writer.join().ok()?.ok()?;
    Some(saved(before, after))
}

fn saved(before: usize, after: usize) -> f64 {
    100.0 * (1.0 - after as f64 / before.max(1) as f64)
}

/// Encodes and decodes a stream, and compares every payload with the original. Returns the share of
/// all payload bytes that was saved, in per cent.
fn measure(selection: Selection, cache: usize, payloads: &Payloads) -> f64 {
    let key = Key::from_secret("");
    let settings = EncodeSettings {
        cache_bytes: cache,
        selection,
        period: 32,
        stream: 0,
        key,
        bypass_entropy: false,
    };
    let near = Arc::new(EncoderCache::new(&settings));
    let far = Arc::new(DecoderCache::new(cache, 0));
    near.decoder_is_alive(u64::MAX, 0, true);
    let mut encoder = Encoder::new(&settings, near);
    let mut decoder = Decoder::new(0, key, far);
    let remembered = |bytes: &[u8]| (SHORTEST_PAYLOAD..=LONGEST_PAYLOAD).contains(&bytes.len());
    let mut out = vec![0; LONGEST_PAYLOAD];
    let before: usize = payloads.iter().map(|(_, payload)| payload.len()).sum();
    let mut after = 0;
    for (protocol, payload) in payloads {
        if remembered(payload)
            && let Encoded::Shorter { length, .. } = encoder.encode(*protocol, 0, payload, &mut out)
        {
            after += length;
            let expected = Decoded::Whole { protocol: *protocol, payload };
            assert!(decoder.decode(&out[..length]) == expected, "payloads come back as they were");
            continue;
        }
        after += payload.len();
        if remembered(payload) {
            decoder.remember(*protocol, payload);
        }
    }
    saved(before, after)
}

/// Least overhead of encoding, in per cent of the repeated bytes: a header and a region, and in
/// every other packet two regions or an edge without a window.
const COST: f64 = 9.0;

#[test]
fn savings_are_near_the_known_repetition() {
    for percent in [0, 30, 95] {
        let (payloads, known) = synthetic(percent, 4 << 20);
        let reference = zstd_saves(&payloads).map_or("?".to_owned(), |it| format!("{it:.1} %"));
        for selection in Selection::ALL {
            let saved = measure(selection, 8 << 20, &payloads);
            let name = selection.name();
            println!("{known:.1} % known, {name}: {saved:.1} % saved; zstd {reference}");
            assert!(saved <= known && saved >= known * (1.0 - COST / 100.0), "{name} {saved}");
        }
    }
}

#[test]
fn captures_are_restored_byte_for_byte() {
    let data = std::env::var_os("WATTLINE_DATA").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
        PathBuf::from,
    );
    let Ok(entries) = std::fs::read_dir(data.join("captures")) else {
        wattline_needs::data("captures");
        return;
    };
    for path in entries.map(|entry| entry.unwrap().path()) {
        let payloads = capture_payloads(&path).unwrap();
        let reference = zstd_saves(&payloads).map_or("?".to_owned(), |it| format!("{it:.1} %"));
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        for selection in Selection::ALL {
            // `measure` compares the decoded payloads with the originals.
            let saved = measure(selection, 8 << 20, &payloads);
            println!("{name}, {}: {saved:.2} % saved; zstd {reference}", selection.name());
            assert!((0.0..100.0).contains(&saved));
        }
    }
}
