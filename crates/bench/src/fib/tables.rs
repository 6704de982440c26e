//! The tables under measurement, and their updates.

use super::addresses::BATCH;
use super::error::Error;
use super::peer::write_file;
use super::report::{Table, Updates};
use ipnet::IpNet;
use std::fmt::Display;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use wattline_fib::grace::Grace;
use wattline_fib::routes_file::RoutesFile;
use wattline_fib::{Fib, FibError, NextHopId, Reader, SimdLevel, V4, V6};
use wattline_packet::Family;
use wattline_testbed::cpu::thread_cpu_seconds;

/// Number of next hops over which routes without a next hop are spread.
const NEXT_HOPS: usize = 256;
/// Largest number of prefixes that are removed and inserted again.
const UPDATED: usize = if cfg!(test) { 500 } else { 100_000 };
/// Limit of the wall-clock time of the updates: removing or inserting a short prefix writes a large
/// part of the table, so all updates could take hours.
const LONGEST: Duration = Duration::from_millis(if cfg!(test) { 200 } else { 5_000 });

/// A table and the prefixes that fill it.
pub(super) struct Filled<F: wattline_fib::Family> {
    table: Fib<F>,
    pub(super) prefixes: Vec<(F::Net, NextHopId)>,
    build_seconds: f64,
}

/// Tables of both families.
pub(super) struct Tables {
    grace: Grace,
    pub(super) ipv4: Filled<V4>,
    pub(super) ipv6: Filled<V6>,
}

impl<F: wattline_fib::Family> Filled<F> {
    /// Inserts the prefixes in the given order.
    fn new(grace: &Grace, prefixes: Vec<(F::Net, NextHopId)>) -> Result<Self, Error> {
        let mut table = Fib::new(grace);
        let start = thread_cpu_seconds();
        for &(prefix, next_hop) in &prefixes {
            table.insert(prefix, next_hop)?;
        }
        Ok(Self { table, prefixes, build_seconds: thread_cpu_seconds() - start })
    }

    /// Returns a reader that uses this lookup variant.
    pub(super) fn reader(&self, level: Option<SimdLevel>) -> Result<Reader<F>, Error> {
        let reader = self.table.reader();
        let Some(level) = level else { return Ok(reader) };
        reader.with_simd_level(level).ok_or(Error::SimdLevel(level))
    }

    /// Writes one line per prefix.
    fn write_routes(&self, directory: &Path, family: Family) -> Result<(), Error>
    where
        F::Net: Display,
    {
        write_file(directory, &format!("{}.routes", family.name()), |file| {
            self.prefixes.iter().try_for_each(|(p, id)| writeln!(file, "{p} {}", id.0))
        })
    }

    /// Removes prefixes and inserts them again while another thread looks up addresses.
    fn update(
        mut self,
        family: Family,
        grace: &Grace,
        level: Option<SimdLevel>,
        addresses: &[F::Bits],
    ) -> Result<Table, Error> {
        let reader = self.reader(level)?;
        let huge_pages = self.table.huge_pages();
        let updates = updates(grace, reader, addresses, &self.prefixes, |(prefix, id)| {
            self.table.remove(prefix);
            self.table.insert(prefix, id).map(drop)
        })?;
        Ok(Table {
            family,
            prefixes: self.table.len(),
            variants: F::choice().rates.iter().map(|(level, rate)| (level.name(), *rate)).collect(),
            build_seconds: self.build_seconds,
            memory_bytes: self.table.memory_bytes(),
            resident_bytes: huge_pages.map(|pages| pages.resident_bytes),
            huge_page_bytes: huge_pages.map(|pages| pages.huge_bytes),
            updates,
        })
    }
}

impl Tables {
    /// Fills the tables with the routes of a file, in the order of the file.
    pub(super) fn build(file: &RoutesFile) -> Result<Self, Error> {
        let (mut ipv4, mut ipv6) = (Vec::new(), Vec::new());
        for (i, route) in file.routes.iter().enumerate() {
            let next_hop = route.next_hop.unwrap_or(NextHopId(scattered(i) as u16 + 1));
            match route.prefix {
                IpNet::V4(prefix) => ipv4.push((prefix, next_hop)),
                IpNet::V6(prefix) => ipv6.push((prefix, next_hop)),
            }
        }
        let grace = Grace::new();
        let (ipv4, ipv6) = (Filled::new(&grace, ipv4)?, Filled::new(&grace, ipv6)?);
        Ok(Self { grace, ipv4, ipv6 })
    }

    /// Writes the contents of both tables to files for the peer.
    pub(super) fn write_routes(&self, directory: &Path) -> Result<(), Error> {
        self.ipv4.write_routes(directory, Family::V4)?;
        self.ipv6.write_routes(directory, Family::V6)
    }

    /// Updates each non-empty table while another thread looks up routed addresses.
    pub(super) fn update(
        self,
        level: Option<SimdLevel>,
        ipv4: &[u32],
        ipv6: &[u128],
    ) -> Result<Vec<Table>, Error> {
        let mut tables = Vec::new();
        if !self.ipv4.prefixes.is_empty() {
            tables.push(self.ipv4.update(Family::V4, &self.grace, level, ipv4)?);
        }
        if !self.ipv6.prefixes.is_empty() {
            tables.push(self.ipv6.update(Family::V6, &self.grace, level, ipv6)?);
        }
        Ok(tables)
    }
}

/// Spreads consecutive numbers over the next hops (Fibonacci hashing: Knuth, "The Art of Computer
/// Programming", volume 3, section 6.4).
fn scattered(i: usize) -> usize {
    (i as u32).wrapping_mul(2_654_435_769) as usize >> 24 & (NEXT_HOPS - 1)
}

/// Stops the reader on every exit of the writer, errors and panics included.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Removes and inserts prefixes from all over the table, two updates each, up to [`UPDATED`]
/// prefixes or until [`LONGEST`] has passed, but at least one.
fn updates<F, P>(
    grace: &Grace,
    reader: Reader<F>,
    addresses: &[F::Bits],
    prefixes: &[(P, NextHopId)],
    mut flip: impl FnMut((P, NextHopId)) -> Result<(), FibError>,
) -> Result<Updates, Error>
where
    F: wattline_fib::Family,
    P: Copy,
{
    let stop = AtomicBool::new(false);
    let slot = grace.register();
    thread::scope(|scope| {
        let stopping = StopOnDrop(&stop);
        let stop = &stop;
        let reading = scope.spawn(move || {
            let mut next_hops = [NextHopId::NONE; BATCH];
            let (mut lookups, start) = (0, thread_cpu_seconds());
            while !stop.load(Ordering::Relaxed) {
                for batch in addresses.chunks_exact(BATCH) {
                    reader.lookup_batch(batch, &mut next_hops);
                    slot.quiescent();
                    std::hint::black_box(&next_hops);
                }
                lookups += addresses.len();
            }
            lookups as f64 / (thread_cpu_seconds() - start)
        });
        let (cpu, wall) = (thread_cpu_seconds(), Instant::now());
        let mut flipped = 0;
        // The wall clock is read without a system call; the thread's CPU time is not.
        while flipped < UPDATED && (flipped == 0 || wall.elapsed() < LONGEST) {
            // The stride is large and odd, so consecutive updates are far apart in the table.
            flip(prefixes[flipped.wrapping_mul(2_654_435_769) % prefixes.len()])?;
            flipped += 1;
        }
        let seconds = thread_cpu_seconds() - cpu;
        let wall_seconds = wall.elapsed().as_secs_f64();
        drop(stopping);
        let updates = 2 * flipped;
        Ok(Updates {
            updates,
            seconds,
            updates_per_second: updates as f64 / seconds,
            updates_per_wall_second: updates as f64 / wall_seconds,
            reader_lookups_per_second: reading.join().unwrap_or_default(),
        })
    })
}
