//! `ipsec`: every packet goes into an ESP tunnel, from lookup to transmission.
//!
//! Beside it, in the same run and between the repeats, the cryptography alone: the same
//! transform on packets of the same mean length, in a batch's worth of buffers.

use super::{Application, Args, Error};
use crate::bench::sample::median;
use quanta::Clock;
use std::sync::Arc;
use wattline_dataplane::apps::esp;
use wattline_dataplane::apps::esp::algorithm::Algorithm;
use wattline_dataplane::apps::esp::association::{Common, DontFragment, Dscp, Limits, Outbound};
use wattline_dataplane::apps::esp::database::{Contents, Publisher};
use wattline_dataplane::apps::esp::key::KeyMaterial;
use wattline_dataplane::apps::esp::policy::{Decision, Policy, Prefixes};
use wattline_dataplane::apps::esp::sequence::Sequence;
use wattline_dataplane::apps::esp::transform::Transform;
use wattline_dataplane::feature::Feature;
use wattline_dataplane::frame::BATCH_MAX;
use wattline_packet::esp::{HEADER, TRAILER, padding};

const CHUNK: usize = 2048;
/// Batches that the cryptography alone is timed on, each time.
const BATCHES: usize = 32;

struct Ipsec {
    publisher: Publisher,
    outbound: Arc<Outbound>,
    raw: Raw,
}

pub(super) fn make(args: &Args) -> Result<Option<Box<dyn Application>>, Error> {
    let algorithm = Algorithm::named(&args.algorithm).ok_or_else(|| Error::Unknown {
        name: args.algorithm.clone(),
        known: Algorithm::ALL.map(Algorithm::name).join(", "),
    })?;
    let refused = |error: &dyn std::fmt::Display| Error::Table(error.to_string());
    let transform = || {
        let key = KeyMaterial::new(algorithm, vec![0x5a; algorithm.key_material()])
            .map_err(|error| refused(&error))?;
        Transform::new(algorithm, &key).map_err(|error| refused(&error))
    };
    // Traffic comes from 10.0.0.0/8 and goes everywhere else.
    let prefix = |text: &str| text.parse().map_err(|error: ipnet::AddrParseError| refused(&error));
    let prefixes = Prefixes { source: prefix("10.0.0.0/8")?, destination: prefix("0.0.0.0/0")? };
    let ends = ([192, 0, 2, 1].into(), [198, 51, 100, 1].into());
    let limits = Limits::default();
    let sequence = Sequence::new(0, true);
    sequence.reserve(u64::MAX);
    let outbound = Arc::new(Outbound {
        common: Common::new("bench".into(), 0x1001, transform()?, true, ends, None, limits),
        sequence,
        salt: 0,
        dscp: Dscp::Copy,
        dont_fragment: DontFragment::Copy,
        mtu: u16::MAX,
    });
    let publisher = Publisher::new();
    publisher.publish(Contents {
        outbound: vec![Some(outbound.clone())],
        policies: vec![Policy { prefixes, decision: Decision::Protect(0) }],
        ..Contents::default()
    });
    let raw = Raw::new(transform()?);
    Ok(Some(Box::new(Ipsec { publisher, outbound, raw })))
}

impl Application for Ipsec {
    fn features(&mut self) -> Vec<Feature> {
        esp::features(&self.publisher, 1000, 50)
    }

    fn settle(&mut self) {
        let counters = &self.outbound.common.counters;
        self.raw.time((counters.bytes() / counters.packets().max(1)) as usize);
    }

    fn counted(&self) -> serde_json::Value {
        let counters = &self.outbound.common.counters;
        let dropped: u64 = counters.dropped().map(|(_, count)| count).sum();
        let mut raw = self.raw.nanoseconds.clone();
        serde_json::json!({
            "algorithm": self.outbound.common.transform.algorithm().name(),
            "packets": counters.packets(),
            "bytes": counters.bytes(),
            "dropped": dropped,
            "cryptography_alone_nanoseconds_per_packet": median(&mut raw),
        })
    }
}

/// The cryptography alone.
struct Raw {
    transform: Transform,
    buffers: Vec<u8>,
    sequence: u64,
    clock: Clock,
    nanoseconds: Vec<f64>,
}

impl Raw {
    fn new(transform: Transform) -> Self {
        let buffers = vec![0x5a; CHUNK * BATCH_MAX];
        Self { transform, buffers, sequence: 0, clock: Clock::new(), nanoseconds: Vec::new() }
    }

    /// Seals packets with so many bytes inside.
    fn time(&mut self, bytes: usize) {
        let algorithm = self.transform.algorithm();
        let body = bytes + padding(bytes, algorithm.alignment()) + TRAILER;
        let length = (HEADER + algorithm.iv() + body + algorithm.icv()).min(CHUNK);
        let (start, mut done) = (self.clock.now(), 0u32);
        for _ in 0..BATCHES {
            for buffer in self.buffers.chunks_mut(CHUNK) {
                self.sequence += 1;
                let packet = &mut buffer[..length];
                let sealed = self.transform.seal(packet, self.sequence, true, self.sequence);
                done += u32::from(sealed.is_ok());
            }
        }
        let elapsed = self.clock.now().duration_since(start);
        // A length that cannot be sealed would look infinitely fast.
        if done as usize == BATCHES * BATCH_MAX {
            self.nanoseconds.push(elapsed.as_nanos() as f64 / f64::from(done));
        }
    }
}
