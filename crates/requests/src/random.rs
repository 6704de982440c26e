//! Random numbers that depend on the seed alone, on every machine and in every version.

use rand::SeedableRng as _;
use rand::rngs::Xoshiro256PlusPlus;

/// Generator with a fixed algorithm, which `SmallRng` does not promise.
pub(crate) type Random = Xoshiro256PlusPlus;

/// Purpose of a stream of random numbers: streams of one seed are independent.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Stream {
    /// Sizes of keys and values.
    Sizes,
    /// Arrivals of a thread.
    Arrivals(usize),
    /// Choice of keys and operations of a thread.
    Requests(usize),
}

/// Returns the generator of a stream.
pub(crate) fn random(seed: u64, stream: Stream) -> Random {
    let number = match stream {
        Stream::Sizes => 0,
        Stream::Arrivals(thread) => 1 + 2 * thread as u64,
        Stream::Requests(thread) => 2 + 2 * thread as u64,
    };
    // `seed_from_u64` mixes its argument well; this only makes the pairs distinct.
    Random::seed_from_u64(seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}
