//! Assignment of packets to flows.

use crate::random::{Alias, Random};

/// Distribution of the packets over the flows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Popularity {
    /// Flows take turns, so that the ports of a link-paced source alternate evenly.
    Turns,
    /// Every packet belongs to a random flow; all flows are equally likely.
    Uniform,
    /// The flow of rank k has a share proportional to k^-exponent.
    Zipf {
        /// Exponent, usually about 1.
        exponent: f64,
    },
}

/// Distribution of the flows' hashes over the indirection table of the card.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spread {
    /// The same number of flows on each entry, however many the table has: "traffic is evenly
    /// spread across queues" (PowerSave, section 3).
    Even,
    /// Random: some entries have more flows than others.
    Hash,
}

/// A flow of a source.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Flow {
    pub hash: u32,
    pub port: u8,
}

/// The flows of a source: their hashes, their ports, and the choice of the next one.
#[derive(Debug, Clone)]
pub(crate) struct Flows {
    flows: Vec<Flow>,
    pick: Pick,
}

#[derive(Debug, Clone)]
enum Pick {
    Turns { next: u32 },
    Uniform,
    Weighted(Alias),
}

/// Entries of the paper's indirection table, indexed by the low hash bits (PowerSave, section 6.2).
const TABLE: u32 = 128;

/// Hash bits that index the largest table of a server file.
const LOW: u32 = 0xFFFF;

/// Low hash bits and port of a flow. Hashes fall evenly on the entries of any table of a power of
/// two, and, with as many flows as entries times ports, evenly on the ports of each entry.
fn even(index: u32, ports: u8) -> (u32, u8) {
    let round = index / TABLE;
    // Shifted by one after each round of the table, so that every entry has flows on every port.
    let port = (index % TABLE + round) % u32::from(ports);
    // The rounds of one port, which share the low bits of `round`, differ in the bits above.
    let above = match ports.trailing_zeros() {
        0 => round,
        bits => round ^ (round >> bits),
    };
    (((above * TABLE) | (index % TABLE)) & LOW, port as u8)
}

impl Flows {
    /// Makes the flows; `count` and `ports` must be at least 1.
    pub(crate) fn new(
        count: u32,
        ports: u8,
        popularity: Popularity,
        spread: Spread,
        random: &mut Random,
    ) -> Self {
        let flows = (0..count)
            .map(|i| {
                let bits = (random.bits() >> 32) as u32;
                let (low, port) = even(i, ports);
                let hash = match spread {
                    Spread::Even => (bits & !LOW) | low,
                    Spread::Hash => bits,
                };
                Flow { hash, port }
            })
            .collect();
        let pick = match popularity {
            Popularity::Turns => Pick::Turns { next: 0 },
            Popularity::Uniform => Pick::Uniform,
            Popularity::Zipf { exponent } => {
                let weights: Vec<f64> =
                    (1..=count).map(|rank| f64::from(rank).powf(-exponent)).collect();
                Pick::Weighted(Alias::new(&weights))
            }
        };
        Self { flows, pick }
    }

    /// Flows of the next packets, at least one and at most `most`, if flows take turns.
    pub(crate) fn in_turn(&mut self, most: usize) -> Option<&[Flow]> {
        let Pick::Turns { next } = &mut self.pick else { return None };
        let from = *next as usize;
        let to = self.flows.len().min(from + most);
        *next = if to == self.flows.len() { 0 } else { to as u32 };
        Some(&self.flows[from..to])
    }

    /// Flow of the next packet.
    #[inline]
    pub(crate) fn next(&mut self, random: &mut Random) -> Flow {
        let count = self.flows.len() as u32;
        let index = match &mut self.pick {
            Pick::Turns { next } => {
                let index = *next;
                *next = if index + 1 == count { 0 } else { index + 1 };
                index as usize
            }
            Pick::Uniform => random.below(count) as usize,
            Pick::Weighted(alias) => alias.draw(random),
        };
        self.flows[index]
    }

    /// Flows of one port, for sources whose ports are independent. A port without flows gets all of
    /// them.
    pub(crate) fn on_port(&self, port: u8) -> Self {
        let mut flows: Vec<Flow> =
            self.flows.iter().copied().filter(|flow| flow.port == port).collect();
        if flows.is_empty() {
            flows = self.flows.iter().map(|flow| Flow { port, ..*flow }).collect();
        }
        let pick = match self.pick {
            Pick::Turns { .. } => Pick::Turns { next: 0 },
            _ => Pick::Uniform,
        };
        Self { flows, pick }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn even_flows_lie_evenly_over_table_and_ports() {
        let mut random = Random::new(3, 0);
        let mut flows = Flows::new(1024, 4, Popularity::Turns, Spread::Even, &mut random);
        let mut counts = HashMap::new();
        for _ in 0..1024 {
            let Flow { hash, port } = flows.next(&mut random);
            *counts.entry((hash % TABLE, port)).or_insert(0) += 1;
        }
        assert_eq!(counts.len(), 128 * 4);
        assert!(counts.values().all(|&count| count == 2));
    }

    #[test]
    fn even_flows_lie_evenly_over_tables_of_any_size() {
        for (table, ports) in
            [16, 128, 512, 4096].into_iter().flat_map(|it| (1..=12).map(move |p| (it, p)))
        {
            for (share, count) in [(1, table), (u32::from(ports), table * u32::from(ports))] {
                let mut random = Random::new(3, 0);
                let flows = Flows::new(count, ports, Popularity::Turns, Spread::Even, &mut random);
                let mut entries = HashMap::new();
                let mut both = HashMap::new();
                for Flow { hash, port } in flows.flows {
                    *entries.entry(hash % table).or_insert(0) += 1;
                    *both.entry((hash % table, port)).or_insert(0) += 1;
                }
                let even = entries.len() == table as usize && entries.values().all(|n| *n == share);
                assert!(even, "{count} flows, {ports} ports, {table} entries");
                if share > 1 && table >= TABLE {
                    assert!(both.values().all(|n| *n == 1), "{ports} ports, {table} entries");
                }
            }
        }
    }

    #[test]
    fn zipf_ranks_have_their_shares() {
        let mut random = Random::new(3, 0);
        let mut flows =
            Flows::new(100, 1, Popularity::Zipf { exponent: 1.0 }, Spread::Hash, &mut random);
        let ranks: HashMap<u32, usize> =
            flows.flows.iter().enumerate().map(|(rank, flow)| (flow.hash, rank)).collect();
        let mut counts = [0f64; 100];
        for _ in 0..1_000_000 {
            counts[ranks[&flows.next(&mut random).hash]] += 1e-6;
        }
        let harmonic: f64 = (1..=100).map(|k| 1.0 / f64::from(k)).sum();
        for rank in [0, 1, 9, 99] {
            let share = 1.0 / (rank as f64 + 1.0) / harmonic;
            assert!((counts[rank] / share - 1.0).abs() < 0.05, "rank {rank}: {}", counts[rank]);
        }
    }
}
