//! The report of `wattline bench fib`, as written to JSON.

use super::addresses::Kind;
use super::peer::{Loads, Variant};
use crate::calibration::Calibration;
use crate::sample::Sample;
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use wattline_packet::Family;

/// Result of one run of the benchmark.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Lookup rates, one entry per family and kind of addresses.
    pub results: Vec<Lookups>,
    /// CPU time in seconds of filling both tables, prefix by prefix.
    pub build_seconds: f64,
    /// Memory of both tables in bytes.
    pub memory_bytes: usize,
    /// Updates per second of CPU time over both tables; see [`Updates`].
    pub updates_per_second: f64,
    /// Figures of each table.
    pub tables: Vec<Table>,
    /// The peer's report on the same tables; `None` without a peer.
    pub peer: Option<Loads>,
    /// Frequency of the time-stamp counter in Hz; cycles are ticks of this counter.
    pub tsc_hertz: f64,
    /// Speed of the machine before and after the measurement.
    pub calibration: Calibration,
    /// Copy of the field in [`Calibration`]: true if another job disturbed the run.
    pub disturbed: bool,
}

fn by_name<S: Serializer>(family: &Family, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(family.name())
}

/// Lookups of one family and kind of addresses, in batches of 32 on one core.
#[derive(Debug, Clone, Serialize)]
pub struct Lookups {
    /// Address family.
    #[serde(serialize_with = "by_name")]
    pub family: Family,
    /// Kind of addresses.
    pub addresses: Kind,
    /// Lookup variant of Wattline: `scalar`, `avx2` or `avx512`.
    pub kernel: &'static str,
    /// Median lookups per second of CPU time, over the repeats.
    pub lookups_per_second: f64,
    /// Median cycles of the time-stamp counter per lookup.
    pub cycles_per_lookup: f64,
    /// Spread of the lookups per second over the repeats.
    pub lookups_per_second_spread: Sample,
    /// Results of the peer, whose passes alternate with Wattline's.
    pub peers: Vec<PeerLookups>,
}

/// Result of the peer for the same addresses.
#[derive(Debug, Clone, Serialize)]
pub struct PeerLookups {
    /// Lookup variant of the peer.
    pub variant: Variant,
    /// Median lookups per second of CPU time, over the repeats.
    pub lookups_per_second: f64,
    /// Spread of the lookups per second over the repeats.
    pub lookups_per_second_spread: Sample,
    /// Median over the repeats of Wattline's rate divided by the peer's in the same repeat.
    pub ratio: f64,
    /// True if the next hops of both have the same sum.
    pub agrees: bool,
}

/// Figures of one table.
#[derive(Debug, Clone, Serialize)]
pub struct Table {
    /// Address family.
    #[serde(serialize_with = "by_name")]
    pub family: Family,
    /// Number of prefixes.
    pub prefixes: usize,
    /// Lookups per second in a small table by lookup variant, measured at the start; the fastest
    /// variant is used.
    pub variants: BTreeMap<&'static str, f64>,
    /// CPU time in seconds of filling the table, prefix by prefix.
    pub build_seconds: f64,
    /// Bytes of the lookup structure and of the writer's bookkeeping.
    pub memory_bytes: usize,
    /// Resident bytes of the lookup structure; `null` if the kernel does not report them.
    pub resident_bytes: Option<usize>,
    /// Resident bytes in huge pages; `null` if the kernel does not report them.
    pub huge_page_bytes: Option<usize>,
    /// Rate of removing and inserting prefixes while a reader looks up addresses.
    pub updates: Updates,
}

/// Rate of updates while a reader looks up addresses.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Updates {
    /// Number of removals and insertions within the time limit; it is small for short prefixes.
    pub updates: usize,
    /// CPU time of the writer, in seconds.
    pub seconds: f64,
    /// Updates per second of the writer's CPU time.
    pub updates_per_second: f64,
    /// Updates per second of wall-clock time; other programs may have used the core meanwhile.
    pub updates_per_wall_second: f64,
    /// Lookups of the reader during the updates, per second of its CPU time.
    pub reader_lookups_per_second: f64,
}
