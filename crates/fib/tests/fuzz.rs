//! After any sequence of updates the tables agree with the trie of prefixes, and any file of routes
//! is either read or refused.
//!
//! Runs some random sequences under `cargo test`; `cargo bolero test ipv4` explores.

use bolero::check;
use ipnet::{Ipv4Net, Ipv6Net};
use std::net::{Ipv4Addr, Ipv6Addr};
use wattline_fib::grace::Grace;
use wattline_fib::routes_file::RoutesFile;
use wattline_fib::{Fib4, Fib6, FibError, NextHopId, SimdLevel};

/// One byte each: operation, address out of a few, prefix length, next hop.
type Step = [u8; 4];

/// Few groups, so that sequences also meet the full table.
const GROUPS: usize = 26;

macro_rules! any_sequence {
    ($name:ident, $fib:ty, $net:ty, $bits:ty, $address:ty) => {
        #[test]
        fn $name() {
            check!().with_type::<Vec<Step>>().with_iterations(200).for_each(|steps| {
                let mut fib = <$fib>::with_groups(&Grace::new(), GROUPS);
                let reader = fib.reader();
                let mut addresses = vec![0, <$bits>::MAX];
                for &[action, bits, length, next_hop] in steps {
                    // Two bits at each end, and four where a group begins.
                    let spread = <$bits>::from(bits);
                    let top = spread.rotate_right(2);
                    let address = top ^ (spread & 0x3c) << (<$bits>::BITS - 28);
                    // /0 writes the whole root, which takes long; other tests cover it.
                    let length = 4 + length % (<$bits>::BITS as u8 - 3);
                    let prefix = <$net>::new_assert(address.into(), length).trunc();
                    let held = fib.len();
                    if action % 3 == 0 {
                        let before = fib.get(prefix);
                        assert_eq!(fib.remove(prefix), before);
                    } else {
                        let next_hop = NextHopId(u16::from(next_hop) + 1);
                        match fib.insert(prefix, next_hop) {
                            Ok(_) => assert_eq!(fib.get(prefix), Some(next_hop)),
                            Err(error) => {
                                assert_eq!(error, FibError::Full(GROUPS));
                                assert_eq!((fib.len(), fib.get(prefix)), (held, None));
                            }
                        }
                    }
                    let first = <$bits>::from(prefix.network());
                    let last = <$bits>::from(prefix.broadcast());
                    addresses.extend([first, last, first.wrapping_sub(1), last.wrapping_add(1)]);
                }
                let mut next_hops = vec![NextHopId::NONE; addresses.len()];
                for level in SimdLevel::ALL {
                    let Some(reader) = reader.clone().with_simd_level(level) else { continue };
                    reader.lookup_batch(&addresses, &mut next_hops);
                    for (&bits, &next_hop) in addresses.iter().zip(&next_hops) {
                        let longest = fib.longest_match(<$address>::from(bits));
                        assert_eq!(next_hop, longest.map_or(NextHopId::NONE, |(_, id)| id));
                    }
                }
                // After removing all prefixes, all groups are free again: nothing leaks.
                for (prefix, _) in fib.iter().collect::<Vec<_>>() {
                    fib.remove(prefix);
                }
                reader.lookup_batch(&addresses, &mut next_hops);
                assert!(next_hops.iter().all(|&next_hop| next_hop == NextHopId::NONE));
                let base = <$bits>::from(1_u8);
                let deepest = usize::from(<$bits>::BITS as u16 - 24) / 8;
                for i in 0..GROUPS / deepest {
                    let address = base + ((i as $bits) << (<$bits>::BITS - 24));
                    let host = <$net>::new_assert(address.into(), <$bits>::BITS as u8);
                    assert_eq!(fib.insert(host, NextHopId(1)), Ok(None));
                }
            });
        }
    };
}

any_sequence!(ipv4, Fib4, Ipv4Net, u32, Ipv4Addr);
any_sequence!(ipv6, Fib6, Ipv6Net, u128, Ipv6Addr);

/// Any file of routes is parsed, or every error has a line number.
#[test]
fn any_file_of_routes() {
    const GOOD: &str = "# all\n10.0.0.0/8 gw1\n0.0.0.0/0\n  192.0.2.0/24\tgw2 # two\n::/0 gw1\r\n\
                        2001:db8::/32\n::ffff:10.0.0.0/104 m\n10.0.0.0/8 gw2\n";
    check!().with_type::<Vec<u8>>().for_each(|bytes| {
        let mut mutated = GOOD.as_bytes().to_vec();
        for pair in bytes.chunks_exact(2) {
            let at = usize::from(pair[0]) % mutated.len();
            mutated[at] = pair[1];
        }
        for bytes in [bytes, &mutated] {
            let text = String::from_utf8_lossy(bytes);
            let lines = text.lines().count();
            match RoutesFile::parse(&text) {
                Ok(file) => {
                    assert!(file.routes.len() <= lines);
                    for route in &file.routes {
                        assert_eq!(route.prefix, route.prefix.trunc());
                        assert!(route.next_hop.is_none_or(|id| file.name(id).is_some()));
                    }
                }
                Err(problems) => {
                    assert!(!problems.listed.is_empty());
                    assert!(problems.listed.iter().all(|it| (1..=lines).contains(&it.line)));
                }
            }
        }
    });
}
