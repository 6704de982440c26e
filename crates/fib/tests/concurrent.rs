//! Readers look up addresses while the writer updates: they see only the state before or after an
//! update.

use ipnet::{Ipv4Net, Ipv6Net};
use std::sync::atomic::{AtomicBool, Ordering};
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

/// Host route that the writer flips in a round; all of them in turn, in an irregular order.
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

/// Cells of the root go from a next hop that a byte holds to one that needs a whole entry, and back, with ever higher
/// ids. A reader that came too early to a whole entry would find the id from before.
macro_rules! never_goes_back {
    ($name:ident, $fib:ty, $net:ty, $bits:ty, $base:expr, $stride:expr) => {
        #[test]
        fn $name() {
            const CELLS: usize = 32;
            let addresses: [$bits; CELLS] =
                std::array::from_fn(|cell| $base + cell as $bits * $stride);
            let mut fib = <$fib>::with_groups(&Grace::new(), 1);
            fib.insert(<$net>::default(), NextHopId(1)).unwrap();
            let stop = AtomicBool::new(false);
            let stopped = &stop;
            thread::scope(|scope| {
                let stop = StopOnDrop(stopped);
                let levels = SimdLevel::ALL.into_iter().filter(|level| level.is_available());
                let readers: Vec<_> = levels
                    .map(|level| {
                        let reader = fib.reader().with_simd_level(level).unwrap();
                        scope.spawn(move || {
                            let mut next_hops = [NextHopId::NONE; CELLS];
                            // The highest id of each cell, and whether it was withdrawn since.
                            let (mut cells, mut seen) = ([(0, false); CELLS], 0);
                            while !stopped.load(Ordering::Relaxed) {
                                reader.lookup_batch(&addresses, &mut next_hops);
                                for (cell, id) in cells.iter_mut().zip(next_hops) {
                                    let (latest, withdrawn) = *cell;
                                    if id.0 == 1 {
                                        cell.1 = true;
                                        continue;
                                    }
                                    let is_old = id.0 < latest || withdrawn && id.0 == latest;
                                    assert!(!is_old, "{} after {latest}", id.0);
                                    seen += usize::from(id.0 > latest);
                                    *cell = (id.0, false);
                                }
                            }
                            seen
                        })
                    })
                    .collect();
                for address in addresses {
                    let prefix = <$net>::new_assert(address.into(), 24);
                    for id in 255..=NextHopId::MAX.0 {
                        fib.insert(prefix, NextHopId(id)).unwrap();
                        // All readers get the processor in both states.
                        let waits = |at| (id % 2048 == at).then(|| thread::sleep(PAUSE));
                        waits(0);
                        fib.remove(prefix);
                        waits(1024);
                    }
                }
                drop(stop);
                for reader in readers {
                    let seen = reader.join().expect("no reader finds an id from before");
                    assert!(seen > 10, "a reader saw {seen} ids");
                }
            });
        }
    };
}

never_goes_back!(ids_of_an_ipv4_cell_never_go_back, Fib4, Ipv4Net, u32, 0x0a00_0000, 256);
never_goes_back!(
    ids_of_an_ipv6_cell_never_go_back,
    Fib6,
    Ipv6Net,
    u128,
    0x2001_0d00 << 96,
    1 << 104
);
