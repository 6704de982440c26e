//! Readers look up addresses while the writer updates: they see only the state before or after an
//! update.

use ipnet::{Ipv4Net, Ipv6Net};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use wattline_fib::grace::Grace;
use wattline_fib::{Fib4, Fib6, FibError, NextHopId, SimdLevel};
use wattline_needs::StopOnDrop;

const ROUNDS: usize = 6_000;
/// Number of insertions below which a run proves nothing.
const ENOUGH: usize = 500;
const PATIENCE: Duration = Duration::from_secs(60);
const HOSTS: u32 = 64;
const PAUSE: Duration = Duration::from_micros(100);
/// Id of the default route, which is always present.
const DEFAULT: u16 = 0x7fff;
/// Few groups, so that they are soon reused for other prefixes.
const GROUPS: usize = 40;

/// Returns the host route that the writer flips in a round; all of them in turn, in an irregular
/// order.
fn host_of(round: usize) -> u32 {
    (round as u32).wrapping_mul(2_654_435_761) >> 26
}

/// Adds and removes a route per host in a table with few groups. Meanwhile two threads, one for
/// each implementation that the processor supports, look up the addresses of all hosts. Each
/// address may give its own id or the default, never that of another host.
macro_rules! flips_routes {
    ($name:ident, $fib:ty, $net:ty, $bits:ty, $length:expr, $groups:expr, $base:expr, $stride:expr) => {
        #[test]
        fn $name() {
            assert_eq!(HOSTS, 1 << (32 - 26), "host_of yields as many");
            let base: $bits = $base;
            let address = |host: u32| base + <$bits>::from(host) * $stride;
            let prefix = |host: u32| <$net>::new_assert(address(host).into(), $length);

            let grace = Grace::new();
            let mut fib = <$fib>::with_groups(&grace, $groups);
            fib.insert(<$net>::default(), NextHopId(DEFAULT)).unwrap();
            let stop = AtomicBool::new(false);
            let (stopped, inserted, seen) = (&stop, &mut 0_usize, &mut [0_usize; 2]);
            thread::scope(|scope| {
                let stop = StopOnDrop(stopped);
                let readers: Vec<_> = SimdLevel::ALL
                    .into_iter()
                    .filter(|level| level.is_available())
                    .map(|level| {
                        let reader = fib.reader().with_simd_level(level).unwrap();
                        let slot = grace.register();
                        scope.spawn(move || {
                            let addresses: Vec<$bits> = (0..HOSTS).map(address).collect();
                            let mut next_hops = vec![NextHopId::NONE; addresses.len()];
                            let mut seen = [0_usize; 2];
                            while !stopped.load(Ordering::Relaxed) {
                                reader.lookup_batch(&addresses, &mut next_hops);
                                slot.quiescent();
                                for (host, next_hop) in (1_u16..).zip(&next_hops) {
                                    let own = next_hop.0 == host;
                                    assert!(own || next_hop.0 == DEFAULT, "{host}: {next_hop:?}");
                                    seen[usize::from(own)] += 1;
                                }
                            }
                            seen
                        })
                    })
                    .collect();
                // If readers get no processor, groups come back late; continue until enough have.
                let deadline = Instant::now() + PATIENCE;
                let mut round = 0;
                while round < ROUNDS || (*inserted <= ENOUGH && Instant::now() < deadline) {
                    let host = host_of(round);
                    round += 1;
                    if fib.remove(prefix(host)).is_none() {
                        match fib.insert(prefix(host), NextHopId(host as u16 + 1)) {
                            Ok(before) => {
                                assert_eq!(before, None);
                                *inserted += 1;
                            }
                            // All groups are in use or wait for the readers, so let these run.
                            Err(error) => {
                                assert_eq!(error, FibError::Full($groups));
                                thread::yield_now();
                            }
                        }
                    }
                }
                drop(stop);
                for reader in readers {
                    let counts = reader.join().expect("a reader saw what it must not see");
                    seen.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
                }
            });
            assert!(*inserted > ENOUGH, "groups came back: {inserted} inserted");
            assert!(seen.iter().all(|&count| count > 0), "readers met both states: {seen:?}");
        }
    };
}

// Each host is in its own /24: an insertion needs a group, and a removal returns it.
flips_routes!(ipv4, Fib4, Ipv4Net, u32, 32, GROUPS, 0x0a00_0001, 256);
// Each host is in its own /120: chains of groups grow and shrink at their ends.
flips_routes!(
    ipv6,
    Fib6,
    Ipv6Net,
    u128,
    128,
    GROUPS + 12,
    0x2001_0db8_0000_0000_0000_0000_0000_0001,
    256
);
// Each host is in its own /40: the ends of chains are among the levels that a chunk descends
// together.
flips_routes!(
    ipv6_together,
    Fib6,
    Ipv6Net,
    u128,
    48,
    GROUPS + 2,
    0x2001_0db8_0000_0000_0000_0000_0000_0001,
    1 << 88
);

/// Cells of the root that were never used get whole entries, one after the other, while readers
/// look up the next ones. A reader that saw the byte before the whole entry would find no next hop.
macro_rules! whole_entries_precede_their_bytes {
    ($name:ident, $fib:ty, $net:ty, $bits:ty, $base:expr, $stride:expr) => {
        #[test]
        fn $name() {
            const CELLS: u32 = 1 << 20;
            const AHEAD: u32 = 32;
            let address = |cell: u32| -> $bits { $base + <$bits>::from(cell) * $stride };
            let id_of = |cell: u32| 255 + (cell % 1000) as u16;
            let mut fib = <$fib>::with_groups(&Grace::new(), 1);
            fib.insert(<$net>::default(), NextHopId(1)).unwrap();
            let (stop, next) = (AtomicBool::new(false), AtomicU32::new(0));
            let (stopped, next) = (&stop, &next);
            thread::scope(|scope| {
                let stop = StopOnDrop(stopped);
                let levels = SimdLevel::ALL.into_iter().filter(|level| level.is_available());
                let readers: Vec<_> = levels
                    .map(|level| {
                        let reader = fib.reader().with_simd_level(level).unwrap();
                        scope.spawn(move || {
                            let mut next_hops = [NextHopId::NONE; AHEAD as usize];
                            let mut seen = [0_usize; 2];
                            while !stopped.load(Ordering::Relaxed) {
                                let first = next.load(Ordering::Relaxed);
                                let addresses: [$bits; AHEAD as usize] =
                                    std::array::from_fn(|i| address(first + i as u32));
                                reader.lookup_batch(&addresses, &mut next_hops);
                                for (cell, NextHopId(id)) in (first..).zip(next_hops) {
                                    let own = id == id_of(cell);
                                    assert!(own || id == 1, "cell {cell}: {id}");
                                    seen[usize::from(own)] += 1;
                                }
                            }
                            seen
                        })
                    })
                    .collect();
                for cell in 0..CELLS {
                    next.store(cell, Ordering::Relaxed);
                    let prefix = <$net>::new_assert(address(cell).into(), 24);
                    fib.insert(prefix, NextHopId(id_of(cell))).unwrap();
                    // All readers get the processor, before and after an insertion.
                    let waits = |at| (cell % 8192 == at).then(|| thread::sleep(PAUSE));
                    waits(0);
                    next.store(cell + 1, Ordering::Relaxed);
                    waits(4096);
                }
                next.store(CELLS - AHEAD, Ordering::Relaxed);
                thread::sleep(100 * PAUSE);
                drop(stop);
                for reader in readers {
                    let seen = reader.join().expect("no reader finds a cell without a next hop");
                    assert!(seen.iter().all(|&count| count > 0), "a reader saw {seen:?}");
                }
            });
        }
    };
}

whole_entries_precede_their_bytes!(
    whole_ipv4_entries_precede_their_bytes,
    Fib4,
    Ipv4Net,
    u32,
    0x0a00_0000,
    256
);
whole_entries_precede_their_bytes!(
    whole_ipv6_entries_precede_their_bytes,
    Fib6,
    Ipv6Net,
    u128,
    0x2001_0d00 << 96,
    1 << 104
);
