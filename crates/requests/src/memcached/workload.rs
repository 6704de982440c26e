//! Keys, values, and the mix of requests.

use super::answer::{AnswerParser, Dialect, Expect, Operation};
use super::sizes::{ETC_GETS_PER_SET, ETC_KEYS, SizeDistribution};
use crate::protocol::{Protocol, ProtocolError, Step};
use crate::random::{Random, Stream, random};
use rand::Rng as _;
use rand_distr::{Distribution as _, Zipf};
use std::fmt;
use std::io::Write as _;
use std::str::FromStr;
use std::sync::Arc;
use thiserror::Error;

/// memcached's limit (`KEY_MAX_LENGTH`).
const LONGEST_KEY: u32 = 250;
/// Below memcached's default limit of an item, 1 MiB with key and header.
const LONGEST_VALUE: u32 = 1_000_000;
const MOST_KEYS: u32 = 10_000_000;
/// Any printable bytes serve as values.
const PRINTABLE: std::ops::RangeInclusive<u8> = b'!'..=b'~';

/// Popularity of keys.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Popularity {
    /// All equally often.
    Uniform,
    /// Key number k in proportion to k^-exponent.
    Zipf(f64),
}

impl FromStr for Popularity {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if text == "uniform" {
            return Ok(Self::Uniform);
        }
        text.strip_prefix("zipf:")
            .and_then(|exponent| exponent.parse().ok())
            .filter(|exponent: &f64| (0.0..=10.0).contains(exponent))
            .map(Self::Zipf)
            .ok_or_else(|| {
                "expected uniform or zipf:EXPONENT with 0 to 10, such as zipf:0.99".into()
            })
    }
}

impl fmt::Display for Popularity {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uniform => write!(out, "uniform"),
            Self::Zipf(exponent) => write!(out, "zipf:{exponent}"),
        }
    }
}

/// Options of the workload.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkloadOptions {
    /// Commands used.
    pub dialect: Dialect,
    /// Different keys, 1 to 10 million.
    pub keys: u32,
    /// Lengths of the keys. A key is never shorter than its number needs, nor longer than 250.
    pub key_sizes: SizeDistribution,
    /// Lengths of the values, up to 1,000,000 bytes; a key's value always has the same length.
    pub value_sizes: SizeDistribution,
    /// Gets for each set; infinity for gets alone, 0 for sets alone.
    pub gets_per_set: f64,
    /// Popularity of the keys.
    pub popularity: Popularity,
    /// Seed of sizes, keys and operations.
    pub seed: u64,
}

impl WorkloadOptions {
    /// Returns a mix like the pool ETC of Facebook; see [`super::sizes`] for constants and source.
    /// The paper gives popularity and locality only as plots, so keys are equally popular.
    pub fn etc(dialect: Dialect, keys: u32, seed: u64) -> Self {
        Self {
            dialect,
            keys,
            key_sizes: ETC_KEYS,
            value_sizes: SizeDistribution::EtcValues,
            gets_per_set: ETC_GETS_PER_SET,
            popularity: Popularity::Uniform,
            seed,
        }
    }
}

/// Reason why a workload is refused.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum WorkloadError {
    /// Too few or too many keys.
    #[error("{0} keys; allowed: 1 to {MOST_KEYS}")]
    Keys(u32),
    /// Keys longer than memcached's limit.
    #[error("keys of {0} bytes; memcached takes up to {LONGEST_KEY}")]
    KeySize(u32),
    /// Values longer than memcached's default limit.
    #[error("values of {0} bytes; allowed: up to {LONGEST_VALUE}, below memcached's 1 MiB an item")]
    ValueSize(u32),
    /// A negative ratio of gets to sets, or not a number.
    #[error("{0} gets for each set; allowed: 0 and more")]
    Mix(f64),
}

/// Keys and values, shared by all threads.
#[derive(Debug)]
pub struct Workload {
    options: WorkloadOptions,
    /// All keys one after another, and the end of each.
    keys: Vec<u8>,
    ends: Vec<u32>,
    value_sizes: Vec<u32>,
    /// Bytes of which every value is a prefix.
    value: Vec<u8>,
    get_share: f64,
}

impl Workload {
    /// Makes the keys.
    ///
    /// # Errors
    /// Fails when the options exceed memcached's limits.
    pub fn new(options: WorkloadOptions) -> Result<Self, WorkloadError> {
        if !(1..=MOST_KEYS).contains(&options.keys) {
            return Err(WorkloadError::Keys(options.keys));
        }
        if let Some(longest) = options.key_sizes.longest().filter(|size| *size > LONGEST_KEY) {
            return Err(WorkloadError::KeySize(longest));
        }
        if let Some(longest) = options.value_sizes.longest().filter(|size| *size > LONGEST_VALUE) {
            return Err(WorkloadError::ValueSize(longest));
        }
        if options.gets_per_set.is_nan() || options.gets_per_set < 0.0 {
            return Err(WorkloadError::Mix(options.gets_per_set));
        }
        let mut random = random(options.seed, Stream::Sizes);
        // Fixed width, so that no key is a prefix of another one.
        let width = (options.keys - 1).to_string().len() as u32;
        let mut keys = Vec::new();
        let mut ends = Vec::with_capacity(options.keys as usize);
        let mut value_sizes = Vec::with_capacity(options.keys as usize);
        for number in 0..options.keys {
            let length = options.key_sizes.sample(&mut random, width, LONGEST_KEY);
            let digits = format!("{number:0width$}", width = width as usize);
            keys.extend_from_slice(digits.as_bytes());
            // 10 million keys of 250 bytes stay below 2^32.
            keys.resize(keys.len() + (length - width) as usize, b'k');
            ends.push(keys.len() as u32);
            value_sizes.push(options.value_sizes.sample(&mut random, 0, LONGEST_VALUE));
        }
        let longest = value_sizes.iter().copied().max().unwrap_or(0);
        let span = u64::from(PRINTABLE.end() - PRINTABLE.start()) + 1;
        let value = (0..longest)
            // Below 94: fits.
            .map(|_| PRINTABLE.start() + (random.next_u64() % span) as u8)
            .collect();
        let get_share = if options.gets_per_set.is_finite() {
            options.gets_per_set / (options.gets_per_set + 1.0)
        } else {
            1.0
        };
        Ok(Self { options, keys, ends, value_sizes, value, get_share })
    }

    /// Returns the options of the workload.
    pub fn options(&self) -> &WorkloadOptions {
        &self.options
    }

    /// Returns the bytes of a key.
    pub fn key(&self, number: u32) -> &[u8] {
        let number = number as usize;
        let start = number.checked_sub(1).map_or(0, |before| self.ends[before] as usize);
        &self.keys[start..self.ends[number] as usize]
    }

    /// Returns the bytes of a key's value.
    pub fn value(&self, number: u32) -> &[u8] {
        &self.value[..self.value_sizes[number as usize] as usize]
    }

    /// Returns the mean lengths of keys and of values, over the keys.
    pub fn mean_sizes(&self) -> (f64, f64) {
        let count = self.ends.len() as f64;
        let values: u64 = self.value_sizes.iter().map(|size| u64::from(*size)).sum();
        (self.keys.len() as f64 / count, values as f64 / count)
    }

    /// Appends a request.
    pub fn write(&self, expect: Expect, out: &mut Vec<u8>) {
        let key = self.key(expect.key);
        match (self.options.dialect, expect.operation) {
            (Dialect::Text, Operation::Get) => {
                out.extend_from_slice(b"get ");
                out.extend_from_slice(key);
            }
            (Dialect::Meta, Operation::Get) => {
                out.extend_from_slice(b"mg ");
                out.extend_from_slice(key);
                // Asks for value and key in the answer.
                out.extend_from_slice(b" v k");
            }
            (dialect, Operation::Set) => {
                let value = self.value(expect.key);
                let (command, between) = match dialect {
                    Dialect::Text => ("set", " 0 0 "),
                    Dialect::Meta => ("ms", " "),
                };
                out.extend_from_slice(command.as_bytes());
                out.push(b' ');
                out.extend_from_slice(key);
                // Writing to memory cannot fail.
                let _ = write!(out, "{between}{}\r\n", value.len());
                out.extend_from_slice(value);
            }
        }
        out.extend_from_slice(b"\r\n");
    }
}

/// Requests of one thread.
#[derive(Debug)]
pub struct Memcached {
    workload: Arc<Workload>,
    random: Random,
    zipf: Option<Zipf<f64>>,
}

impl Memcached {
    /// Creates the requests of thread number `thread`.
    pub fn new(workload: Arc<Workload>, thread: usize) -> Self {
        let options = &workload.options;
        let zipf = match options.popularity {
            Popularity::Uniform => None,
            // The bounds of both are checked where they are read.
            Popularity::Zipf(exponent) => Zipf::new(f64::from(options.keys), exponent).ok(),
        };
        let random = random(options.seed, Stream::Requests(thread));
        Self { workload, random, zipf }
    }

    fn choose(&mut self) -> Expect {
        let keys = self.workload.options.keys;
        let key = match &self.zipf {
            // From 1 to the number of keys.
            Some(zipf) => (zipf.sample(&mut self.random) as u32 - 1).min(keys - 1),
            // The bias of at most keys / 2^32 does not matter here.
            None => (((self.random.next_u64() >> 32) * u64::from(keys)) >> 32) as u32,
        };
        let unit = (self.random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        let operation =
            if unit < self.workload.get_share { Operation::Get } else { Operation::Set };
        Expect { operation, key }
    }
}

impl Protocol for Memcached {
    type Parser = AnswerParser;
    type Expect = Expect;
    const OPERATIONS: &'static [&'static str] = &["get", "set"];

    fn request(&mut self, _target: usize, out: &mut Vec<u8>) -> Expect {
        let expect = self.choose();
        self.workload.write(expect, out);
        expect
    }

    fn operation(expect: Expect) -> usize {
        match expect.operation {
            Operation::Get => 0,
            Operation::Set => 1,
        }
    }

    fn read(
        &self,
        parser: &mut AnswerParser,
        expect: Expect,
        input: &mut &[u8],
    ) -> Result<Step, ProtocolError> {
        let dialect = self.workload.options.dialect;
        parser.read(dialect, expect.operation, self.workload.key(expect.key), input)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> WorkloadOptions {
        WorkloadOptions::etc(Dialect::Text, 1_000, 1)
    }

    #[test]
    fn keys_differ_and_their_sizes_follow_the_seed() {
        let workload = Workload::new(options()).unwrap();
        let mut keys: Vec<_> = (0..1_000).map(|number| workload.key(number)).collect();
        assert!(keys.iter().all(|key| (3..=250).contains(&key.len())));
        assert!(keys.iter().all(|key| key.iter().all(u8::is_ascii_alphanumeric)));
        let (key_mean, value_mean) = workload.mean_sizes();
        // The mean of the distribution of keys is 36 bytes; of values, about 260 with a long tail.
        assert!((key_mean - 35.6).abs() < 1.5, "{key_mean}");
        assert!((100.0..500.0).contains(&value_mean), "{value_mean}");
        let again = Workload::new(options()).unwrap();
        assert_eq!((&workload.keys, &workload.value), (&again.keys, &again.value));
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), 1_000);
    }

    #[test]
    fn requests_follow_the_protocol() {
        let fixed = |dialect| WorkloadOptions {
            keys: 10,
            key_sizes: SizeDistribution::Fixed(3),
            value_sizes: SizeDistribution::Fixed(2),
            ..WorkloadOptions::etc(dialect, 10, 1)
        };
        let text = |dialect, operation| {
            let workload = Workload::new(fixed(dialect)).unwrap();
            let mut out = Vec::new();
            workload.write(Expect { operation, key: 7 }, &mut out);
            let value = String::from_utf8(workload.value(7).to_vec()).unwrap();
            String::from_utf8(out).unwrap().replace(&value, "VV")
        };
        assert_eq!(text(Dialect::Text, Operation::Get), "get 7kk\r\n");
        assert_eq!(text(Dialect::Text, Operation::Set), "set 7kk 0 0 2\r\nVV\r\n");
        assert_eq!(text(Dialect::Meta, Operation::Get), "mg 7kk v k\r\n");
        assert_eq!(text(Dialect::Meta, Operation::Set), "ms 7kk 2\r\nVV\r\n");
    }

    #[test]
    fn mix_and_popularity_follow_the_options() {
        let asked = WorkloadOptions { popularity: Popularity::Zipf(1.0), ..options() };
        let mut requests = Memcached::new(Arc::new(Workload::new(asked).unwrap()), 0);
        let all: Vec<Expect> = (0..100_000).map(|_| requests.choose()).collect();
        let sets = all.iter().filter(|one| one.operation == Operation::Set).count();
        // One of 31: 3,226 of 100,000, with a standard deviation of 56.
        assert!(sets.abs_diff(3_226) < 300, "{sets}");
        let count = |key| all.iter().filter(|one| one.key == key).count() as f64;
        let ratio = count(0) / count(9);
        assert!((8.0..12.5).contains(&ratio), "{ratio}");
    }

    #[test]
    fn workload_beyond_memcached_limits_is_refused() {
        let refused = |change: fn(&mut WorkloadOptions)| {
            let mut options = options();
            change(&mut options);
            Workload::new(options).unwrap_err()
        };
        assert_eq!(refused(|o| o.keys = 0), WorkloadError::Keys(0));
        assert_eq!(
            refused(|o| o.key_sizes = SizeDistribution::Fixed(251)),
            WorkloadError::KeySize(251)
        );
        assert_eq!(
            refused(|o| o.value_sizes = SizeDistribution::Uniform(1, 2_000_000)),
            WorkloadError::ValueSize(2_000_000)
        );
        assert_eq!(refused(|o| o.gets_per_set = -1.0), WorkloadError::Mix(-1.0));
    }
}
