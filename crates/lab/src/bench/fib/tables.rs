//! The tables that are measured, and their updates.

use super::peer::write_file;
use super::{BATCH, Error, Family, Table, Updates};
use crate::bench::cpu_time::thread_cpu_seconds;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;
use wattline_fib::grace::Grace;
use wattline_fib::routes_file::RoutesFile;
use wattline_fib::{Fib4, Fib4Reader, Fib6, Fib6Reader, FibError, NextHopId};

/// Next hops that routes without one are spread over.
const NEXT_HOPS: usize = 256;
/// Prefixes that are removed and inserted again.
const UPDATED: usize = 100_000;

/// A table for readers.
pub(super) trait Lookup<A> {
    /// The next hops of a batch.
    fn look_up(&self, addresses: &[A], next_hops: &mut [NextHopId]);
}

impl Lookup<u32> for Fib4Reader {
    #[inline]
    fn look_up(&self, addresses: &[u32], next_hops: &mut [NextHopId]) {
        self.lookup_batch(addresses, next_hops);
    }
}

impl Lookup<u128> for Fib6Reader {
    #[inline]
    fn look_up(&self, addresses: &[u128], next_hops: &mut [NextHopId]) {
        self.lookup_batch(addresses, next_hops);
    }
}

/// A table and what it was filled from.
pub(super) struct Filled<T, P> {
    pub(super) table: T,
    pub(super) prefixes: Vec<(P, NextHopId)>,
    build_seconds: f64,
}

/// Both families.
pub(super) struct Tables {
    grace: Grace,
    pub(super) ipv4: Filled<Fib4, Ipv4Net>,
    pub(super) ipv6: Filled<Fib6, Ipv6Net>,
}

impl Tables {
    /// Fills the tables with the routes of a file, in its order.
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
        let (mut table4, mut table6) = (Fib4::new(&grace), Fib6::new(&grace));
        let start = thread_cpu_seconds();
        for &(prefix, next_hop) in &ipv4 {
            table4.insert(prefix, next_hop)?;
        }
        let between = thread_cpu_seconds();
        for &(prefix, next_hop) in &ipv6 {
            table6.insert(prefix, next_hop)?;
        }
        let end = thread_cpu_seconds();
        Ok(Self {
            grace,
            ipv4: Filled { table: table4, prefixes: ipv4, build_seconds: between - start },
            ipv6: Filled { table: table6, prefixes: ipv6, build_seconds: end - between },
        })
    }

    /// Writes what the tables hold for the peer.
    pub(super) fn write_routes(&self, directory: &Path) -> Result<(), Error> {
        write_file(directory, "ipv4.routes", |file| {
            self.ipv4.prefixes.iter().try_for_each(|(p, id)| writeln!(file, "{p} {}", id.0))
        })?;
        write_file(directory, "ipv6.routes", |file| {
            self.ipv6.prefixes.iter().try_for_each(|(p, id)| writeln!(file, "{p} {}", id.0))
        })
    }

    /// Removes prefixes and inserts them again while another thread looks addresses up.
    pub(super) fn update(mut self, ipv4: &[u32], ipv6: &[u128]) -> Result<Vec<Table>, Error> {
        let mut tables = Vec::new();
        if !self.ipv4.prefixes.is_empty() {
            let Filled { table, prefixes, build_seconds } = &mut self.ipv4;
            let updates = updates(&self.grace, table.reader(), ipv4, prefixes, |(p, id)| {
                table.remove(p);
                table.insert(p, id).map(drop)
            })?;
            tables.push(Table {
                family: Family::Ipv4,
                prefixes: table.len(),
                build_seconds: *build_seconds,
                memory_bytes: table.memory_bytes(),
                updates,
            });
        }
        if !self.ipv6.prefixes.is_empty() {
            let Filled { table, prefixes, build_seconds } = &mut self.ipv6;
            let updates = updates(&self.grace, table.reader(), ipv6, prefixes, |(p, id)| {
                table.remove(p);
                table.insert(p, id).map(drop)
            })?;
            tables.push(Table {
                family: Family::Ipv6,
                prefixes: table.len(),
                build_seconds: *build_seconds,
                memory_bytes: table.memory_bytes(),
                updates,
            });
        }
        Ok(tables)
    }
}

/// Spreads numbers that follow each other over the next hops (Fibonacci hashing: Knuth, "The
/// Art of Computer Programming", volume 3, section 6.4).
fn scattered(i: usize) -> usize {
    (i as u32).wrapping_mul(2_654_435_769) as usize >> 24 & (NEXT_HOPS - 1)
}

/// Ends the reader however its writer ends.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Two updates for each of a number of prefixes from all over the table.
fn updates<A: Sync, P: Copy>(
    grace: &Grace,
    reader: impl Lookup<A> + Send,
    addresses: &[A],
    prefixes: &[(P, NextHopId)],
    mut flip: impl FnMut((P, NextHopId)) -> Result<(), FibError>,
) -> Result<Updates, Error> {
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
                    reader.look_up(batch, &mut next_hops);
                    slot.quiescent();
                    std::hint::black_box(&next_hops);
                }
                lookups += addresses.len();
            }
            lookups as f64 / (thread_cpu_seconds() - start)
        });
        let (cpu, wall) = (thread_cpu_seconds(), Instant::now());
        for i in 0..UPDATED {
            // A large odd stride: neighbours in time are no neighbours in the table.
            flip(prefixes[i.wrapping_mul(2_654_435_769) % prefixes.len()])?;
        }
        let seconds = thread_cpu_seconds() - cpu;
        let wall_seconds = wall.elapsed().as_secs_f64();
        drop(stopping);
        let updates = 2 * UPDATED;
        Ok(Updates {
            updates,
            seconds,
            updates_per_second: updates as f64 / seconds,
            updates_per_wall_second: updates as f64 / wall_seconds,
            reader_lookups_per_second: reading.join().unwrap_or_default(),
        })
    })
}
