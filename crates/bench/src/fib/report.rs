//! What was measured, as it is written.

use super::addresses::Kind;
use super::family::Family;
use super::peer::{Loads, Variant};
use crate::calibration::Calibration;
use crate::sample::Sample;
use serde::Serialize;

/// What was measured.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Per family and kind of addresses.
    pub results: Vec<Lookups>,
    /// CPU time of filling both tables, prefix by prefix.
    pub build_seconds: f64,
    /// Of both tables.
    pub memory_bytes: usize,
    /// Over both tables, see [`Updates`].
    pub updates_per_second: f64,
    /// Each table.
    pub tables: Vec<Table>,
    /// What the peer says of the same tables.
    pub peer: Option<Loads>,
    /// Ticks of the time-stamp counter per second; cycles are counted in these.
    pub tsc_hertz: f64,
    /// How far to trust the figures.
    pub calibration: Calibration,
    /// As in [`Calibration`].
    pub disturbed: bool,
}

/// Lookups of one family and kind of addresses, in batches of 32 on one core.
#[derive(Debug, Clone, Serialize)]
pub struct Lookups {
    /// Family.
    pub family: Family,
    /// Kind of addresses.
    pub addresses: Kind,
    /// How ours looked up: `scalar`, or `avx2`.
    pub kernel: &'static str,
    /// Median over the repeats, per second of CPU time.
    pub lookups_per_second: f64,
    /// Cycles of the time-stamp counter, median.
    pub cycles_per_lookup: f64,
    /// How the repeats differed.
    pub lookups_per_second_spread: Sample,
    /// The peer, pass by pass in turn with ours.
    pub peers: Vec<PeerLookups>,
}

/// The peer's lookups of the same addresses.
#[derive(Debug, Clone, Serialize)]
pub struct PeerLookups {
    /// Which of its lookups.
    pub variant: Variant,
    /// Median over the repeats, per second of CPU time.
    pub lookups_per_second: f64,
    /// How the repeats differed.
    pub lookups_per_second_spread: Sample,
    /// Median over the repeats of our rate by the peer's in the same repeat.
    pub ratio: f64,
    /// Whether all next hops add up to the same.
    pub agrees: bool,
}

/// One of the two tables.
#[derive(Debug, Clone, Serialize)]
pub struct Table {
    /// Family.
    pub family: Family,
    /// Number of prefixes.
    pub prefixes: usize,
    /// CPU time of filling it, prefix by prefix.
    pub build_seconds: f64,
    /// What readers look at, and the writer's books.
    pub memory_bytes: usize,
    /// Of what readers look at, in memory; `null` where the kernel does not say.
    pub resident_bytes: Option<usize>,
    /// Of that, in huge pages.
    pub huge_page_bytes: Option<usize>,
    /// Prefixes removed and inserted again while a reader looks up.
    pub updates: Updates,
}

/// Updates while a reader looks up.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Updates {
    /// Removals and insertions.
    pub updates: usize,
    /// CPU time of the writer.
    pub seconds: f64,
    /// Updates per second of that.
    pub updates_per_second: f64,
    /// Updates per second of time on the wall, where others may have used the core.
    pub updates_per_wall_second: f64,
    /// What the reader achieved meanwhile, per second of its CPU time.
    pub reader_lookups_per_second: f64,
}
