//! Saving and speed of redundancy elimination, on streams of known redundancy and on captures.
//!
//! Encoder and decoder run without a router, on one core. The saving of `zstd -3 --long=27` on the
//! same payloads in one piece serves as an upper reference: it also compresses within packets,
//! needs all packets before it writes any, and cannot decode if one of them is missing.

use crate::cpu_time::thread_cpu_seconds;
use crate::sample::Sample;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::io::Write as _;
use std::path::Path;
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
pub const PAYLOAD: usize = 1400;

/// Protocol number and payload of each packet.
pub type Payloads = Vec<(u8, Vec<u8>)>;

/// Makes a stream of `bytes` bytes in which `percent` per cent (0 to 100) are repeats, cut from
/// anywhere in the fresh bytes so far. Also returns the exact share of repeats in per cent.
pub fn synthetic(percent: u32, bytes: usize) -> (Payloads, f64) {
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

/// The payloads of a capture's IPv4 packets.
///
/// # Errors
/// Fails when the capture cannot be read.
pub fn capture_payloads(path: &Path) -> Result<Payloads, Error> {
    let payload = |frame: &Vec<u8>| {
        let packet = Ipv4Packet::parse(frame.get(14..)?).ok()?;
        Some((packet.header.protocol, packet.payload.to_vec()))
    };
    Ok(replay::load(path)?.iter().filter_map(payload).collect())
}

/// Saving of zstd in per cent; `None` where zstd is not installed.
pub fn zstd_saves(payloads: &Payloads) -> Option<f64> {
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

/// Results of one stream.
#[derive(Debug, Clone, Copy)]
pub struct Outcome {
    /// Share of all payload bytes that was saved, in per cent.
    pub saved_percent: f64,
    /// Gbit/s of payloads that one core encodes, by CPU time of the thread.
    pub encode_gbps: Sample,
    /// Gbit/s of decoded payloads that one core delivers, by CPU time of the thread.
    pub decode_gbps: Sample,
}

/// Encodes and decodes a stream, and compares every payload with the original. `None` if `repeats`
/// is zero.
///
/// # Panics
/// Panics when a decoded payload differs from the original.
pub fn measure(
    selection: Selection,
    cache: usize,
    payloads: &Payloads,
    repeats: usize,
) -> Option<Outcome> {
    let runs: Vec<_> = (0..repeats).map(|_| once(selection, cache, payloads)).collect();
    Some(Outcome {
        saved_percent: runs.first()?.0,
        encode_gbps: Sample::of(runs.iter().map(|run| run.1).collect())?,
        decode_gbps: Sample::of(runs.iter().map(|run| run.2).collect())?,
    })
}

fn saved(before: usize, after: usize) -> f64 {
    100.0 * (1.0 - after as f64 / before.max(1) as f64)
}

fn once(selection: Selection, cache: usize, payloads: &Payloads) -> (f64, f64, f64) {
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
    // Packets are encoded one after the other into allocated memory, so only the work is timed.
    let mut wire = vec![1; before];
    wire.clear();
    let mut lengths: Vec<Option<usize>> = Vec::with_capacity(payloads.len());
    let begin = thread_cpu_seconds();
    for (protocol, payload) in payloads {
        let mut encoded = None;
        if remembered(payload)
            && let Encoded::Shorter { length, .. } = encoder.encode(*protocol, 0, payload, &mut out)
        {
            wire.extend_from_slice(&out[..length]);
            encoded = Some(length);
        }
        lengths.push(encoded);
    }
    let encoding = thread_cpu_seconds() - begin;
    let (mut rest, mut after, mut wrong) = (wire.as_slice(), 0, 0);
    let begin = thread_cpu_seconds();
    for ((protocol, payload), length) in payloads.iter().zip(&lengths) {
        after += length.unwrap_or(payload.len());
        if let Some(length) = length {
            let (bytes, later) = rest.split_at(*length);
            rest = later;
            let expected = Decoded::Whole { protocol: *protocol, payload };
            wrong += usize::from(decoder.decode(bytes) != expected);
        } else if remembered(payload) {
            decoder.remember(*protocol, payload);
        }
    }
    let decoding = thread_cpu_seconds() - begin;
    assert_eq!(wrong, 0, "payloads did not come back as they were");
    let rate = |seconds: f64| before as f64 * 8e-9 / seconds.max(1e-9);
    (saved(before, after), rate(encoding), rate(decoding))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    /// Least overhead of encoding, in per cent of the repeated bytes: a header and a region, and in
    /// every other packet two regions or an edge without a window.
    const COST: f64 = 9.0;

    #[test]
    fn savings_are_near_the_known_repetition() {
        for percent in [0, 30, 90] {
            let (payloads, known) = synthetic(percent, 4 << 20);
            let reference = zstd_saves(&payloads).map_or("?".to_owned(), |it| format!("{it:.1} %"));
            for selection in Selection::ALL {
                let outcome = measure(selection, 8 << 20, &payloads, 1).unwrap();
                let (name, saved) = (selection.name(), outcome.saved_percent);
                println!("{known:.1} % known, {name}: {saved:.1} % saved; zstd {reference}");
                assert!(saved <= known && saved >= known * (1.0 - COST / 100.0), "{name} {saved}");
            }
        }
    }

    #[test]
    fn captures_come_back_byte_for_byte() {
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
                let saved = measure(selection, 8 << 20, &payloads, 1).unwrap().saved_percent;
                println!("{name}, {}: {saved:.2} % saved; zstd {reference}", selection.name());
                assert!((0.0..100.0).contains(&saved));
            }
        }
    }
}
