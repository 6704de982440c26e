//! Measurement of the implementations of a family's lookup on this processor.

use crate::NextHopId;
use crate::family::{CHUNK, Family};
use crate::grace::Grace;
use crate::multibit::{Multibit, Prefix};
use crate::reader::Reader;
use crate::simd_level::{Choice, SimdLevel};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Number of prefixes in the table that is measured, which stays in a core's caches.
const PREFIXES: u32 = 1024;
/// Number of passes of each implementation. The fastest counts: the others were interrupted.
const PASSES: usize = 50;

/// Measures the implementations in turns, for some milliseconds.
pub(crate) fn measure<F: Family>() -> Choice {
    let mut table = Multibit::<F::Cell>::new(&Grace::new(), 4 * PREFIXES as usize);
    let mut addresses = Vec::new();
    for (number, length) in (0..PREFIXES).zip(F::FREQUENT_LENGTHS.iter().cycle()) {
        // Spread over an eighth of the addresses (Fibonacci hashing), so that the table is small.
        let bits = u128::from(number.wrapping_mul(0x9e37_79b1) >> 3) << 96;
        let prefix = Prefix { bits: bits & u128::MAX << (128 - length), length: *length };
        // There is room. A missing prefix would be measured as a miss.
        let _ = table.insert(prefix, 1 + number % 256);
        addresses.push(F::address(bits));
    }
    let usable = F::LEVELS.iter().filter(|level| level.is_available());
    let reader = |level: &SimdLevel| Reader::<F>::at(table.tables(), *level);
    let mut times: Vec<_> = usable.map(|level| (reader(level), Duration::MAX)).collect();
    for _ in 0..PASSES {
        for (reader, least) in &mut times {
            let mut next_hops = [NextHopId::NONE; CHUNK];
            let start = Instant::now();
            for batch in addresses.chunks_exact(CHUNK) {
                reader.lookup_batch(batch, &mut next_hops);
                black_box(&next_hops);
            }
            *least = start.elapsed().min(*least);
        }
    }
    let fastest = times.iter().map(|(_, least)| *least).min().unwrap_or_default();
    let chosen = times.iter().rev().find(|(_, least)| *least * 8 <= fastest * 9);
    let rate = |least: Duration| f64::from(PREFIXES) / least.as_secs_f64();
    Choice {
        level: chosen.map_or(SimdLevel::Scalar, |(reader, _)| reader.simd_level()),
        rates: times.iter().map(|(reader, least)| (reader.simd_level(), rate(*least))).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{V4, V6};

    fn is_fast(choice: &Choice) {
        assert!(SimdLevel::Scalar.is_available() && choice.level.is_available());
        let rate = |of: SimdLevel| choice.rates.iter().find(|(level, _)| *level == of).unwrap().1;
        let most = 1.126 * rate(choice.level);
        assert!(choice.rates.iter().all(|(_, other)| *other <= most), "{choice:?}");
        assert!(rate(SimdLevel::Scalar).is_finite(), "{choice:?}");
    }

    #[test]
    fn measured_choice_is_fast_and_kept() {
        is_fast(V4::choice());
        is_fast(V6::choice());
        assert!(std::ptr::eq(V4::choice(), V4::choice()));
    }
}
