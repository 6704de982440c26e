//! Timed passes over one set of addresses. Wattline and the peer take turns.

use super::addresses::{BATCH, Kind};
use super::error::Error;
use super::peer::{Peer, Variant};
use super::report::{Lookups, PeerLookups};
use crate::sample::Sample;
use std::hint::black_box;
use wattline_fib::{NextHopId, Reader, SimdLevel};
use wattline_packet::Family;
use wattline_testbed::cpu::thread_cpu_seconds;

/// Lookups per second of every pass over one set of addresses.
pub(super) struct Passes {
    family: Family,
    kind: Kind,
    level: SimdLevel,
    ours: Vec<f64>,
    peers: Vec<(Variant, Vec<f64>, bool)>,
}

/// Runs the passes. Wattline and the peer take turns.
pub(super) fn passes<F: wattline_fib::Family>(
    (family, kind): (Family, Kind),
    reader: &Reader<F>,
    addresses: &[F::Bits],
    peer: &mut Option<Peer>,
    repeats: usize,
) -> Result<Passes, Error> {
    let checksum = checksum(reader, addresses);
    let mut passes =
        Passes { family, kind, level: reader.simd_level(), ours: Vec::new(), peers: Vec::new() };
    for repeat in 0..repeats {
        passes.ours.push(addresses.len() as f64 / pass_seconds(reader, addresses));
        let Some(peer) = peer else { continue };
        for variant in Variant::ALL {
            let pass = peer.pass(family, kind.name(), variant)?;
            if !pass.available {
                continue;
            }
            if repeat == 0 {
                passes.peers.push((variant, Vec::new(), pass.checksum == checksum));
            }
            if let Some((_, rates, _)) = passes.peers.iter_mut().find(|(v, ..)| *v == variant) {
                rates.push(pass.lookups as f64 / pass.seconds);
            }
        }
    }
    Ok(passes)
}

/// Returns the sum of all next hops, computed outside the timed part. Equal sums show that both
/// programs find the same next hops.
fn checksum<F: wattline_fib::Family>(reader: &Reader<F>, addresses: &[F::Bits]) -> u64 {
    let mut next_hops = [NextHopId::NONE; BATCH];
    let mut sum = 0;
    for batch in addresses.chunks_exact(BATCH) {
        reader.lookup_batch(batch, &mut next_hops);
        sum += next_hops.iter().map(|next_hop| u64::from(next_hop.0)).sum::<u64>();
    }
    sum
}

fn pass_seconds<F: wattline_fib::Family>(reader: &Reader<F>, addresses: &[F::Bits]) -> f64 {
    // The peer also warms the caches with an untimed pass.
    checksum(reader, addresses);
    let mut next_hops = [NextHopId::NONE; BATCH];
    let start = thread_cpu_seconds();
    for batch in addresses.chunks_exact(BATCH) {
        reader.lookup_batch(batch, &mut next_hops);
        black_box(&next_hops);
    }
    thread_cpu_seconds() - start
}

impl Passes {
    /// Summary of the passes; `None` if there were none.
    pub(super) fn summary(self, tsc_hertz: f64) -> Option<Lookups> {
        let Self { family, kind, level, ours, peers } = self;
        let spread = Sample::summarise(ours.clone())?;
        let peers = peers.into_iter().filter_map(|(variant, rates, agrees)| {
            let ratios = ours.iter().zip(&rates).map(|(ours, theirs)| ours / theirs).collect();
            let ratio = Sample::summarise(ratios)?.median;
            let spread = Sample::summarise(rates)?;
            let lookups_per_second = spread.median;
            let lookups_per_second_spread = spread;
            Some(PeerLookups {
                variant,
                lookups_per_second,
                lookups_per_second_spread,
                ratio,
                agrees,
            })
        });
        Some(Lookups {
            family,
            addresses: kind,
            kernel: level.name(),
            lookups_per_second: spread.median,
            cycles_per_lookup: tsc_hertz / spread.median,
            lookups_per_second_spread: spread,
            peers: peers.collect(),
        })
    }
}
