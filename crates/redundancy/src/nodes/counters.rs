//! Counters of encoders and decoders. Each node of each worker has its own; readers add them up.

use wattline_dataplane::counters::Counter;
use wattline_status::applications::{DecodeCounts, EncodeCounts};

/// Counters of an encoder.
pub type EncodeCounters = EncodeCounts<Counter>;

/// Counters of a decoder.
pub type DecodeCounters = DecodeCounts<Counter>;
