//! The tables compared with the simplest reference: a list of prefixes, searched completely.

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use proptest::prelude::*;
use std::collections::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use wattline_fib::grace::Grace;
use wattline_fib::{Fib4, Fib6, NextHopId, SimdLevel};

#[derive(Debug, Clone)]
enum Update<P> {
    Insert(P, u16),
    Remove(P),
}

/// Few distinct bits, so that prefixes nest, repeat, and are really removed.
fn ipv4_prefix() -> impl Strategy<Value = Ipv4Net> + Clone {
    let few = prop_oneof![Just(0_u32), Just(0x0a01_0101), Just(0x0a01_01ff), Just(u32::MAX)];
    let address = prop_oneof![few, any::<u32>()].prop_map(|a| a & 0x8f03_03c3);
    (address, 0..=32_u8).prop_map(|(a, length)| Ipv4Net::new_assert(a.into(), length).trunc())
}

fn ipv6_prefix() -> impl Strategy<Value = Ipv6Net> + Clone {
    let base = 0x2001_0db8_0000_0000_0000_0000_0000_0001_u128;
    let bit = (0..128_u32).prop_map(move |bit| base ^ (1 << bit));
    let address = prop_oneof![Just(base), bit, any::<u128>(), Just(0), Just(u128::MAX)];
    (address, 0..=128_u8).prop_map(|(a, length)| Ipv6Net::new_assert(a.into(), length).trunc())
}

fn updates<P: std::fmt::Debug + Clone>(
    prefix: impl Strategy<Value = P> + Clone,
) -> impl Strategy<Value = Vec<Update<P>>> {
    // The root has a byte for ids below 255.
    let id = prop_oneof![1..=0x7fff_u16, 1..=260_u16];
    let insert = (prefix.clone(), id).prop_map(|(p, id)| Update::Insert(p, id));
    proptest::collection::vec(prop_oneof![3 => insert, 2 => prefix.prop_map(Update::Remove)], 1..60)
}

fn naive<P: Into<IpNet> + Copy>(routes: &HashMap<P, u16>, address: std::net::IpAddr) -> u16 {
    routes
        .iter()
        .map(|(prefix, id)| ((*prefix).into(), *id))
        .filter(|(prefix, _): &(IpNet, u16)| prefix.contains(&address))
        .max_by_key(|(prefix, _)| prefix.prefix_len())
        .map_or(0, |(_, id)| id)
}

/// The same test for either family.
macro_rules! agrees {
    ($name:ident, $fib:ty, $prefix:expr, $bits:ty, $address:ty) => {
        proptest! {
            #![proptest_config(ProptestConfig::with_cases(64))]
            #[test]
            fn $name(
                updates in updates($prefix),
                random in proptest::collection::vec(any::<$bits>(), 100),
            ) {
                let mut fib = <$fib>::new(&Grace::new());
                let reader = fib.reader();
                let mut routes = HashMap::new();
                let mut addresses = random;
                for update in updates {
                    let prefix = match update {
                        Update::Insert(prefix, id) => {
                            let before = fib.insert(prefix, NextHopId(id)).unwrap();
                            prop_assert_eq!(before.map(|id| id.0), routes.insert(prefix, id));
                            prefix
                        }
                        Update::Remove(prefix) => {
                            let before = fib.remove(prefix);
                            prop_assert_eq!(before.map(|id| id.0), routes.remove(&prefix));
                            prefix
                        }
                    };
                    let first = <$bits>::from(prefix.network());
                    let last = <$bits>::from(prefix.broadcast());
                    addresses.extend([first, last, first.wrapping_sub(1), last.wrapping_add(1)]);
                }
                let mut next_hops = vec![NextHopId::NONE; addresses.len()];
                reader.lookup_batch(&addresses, &mut next_hops);
                for level in SimdLevel::ALL {
                    let Some(reader) = reader.clone().with_simd_level(level) else { continue };
                    let mut batch_result = vec![NextHopId::NONE; addresses.len()];
                    reader.lookup_batch(&addresses, &mut batch_result);
                    prop_assert_eq!(&batch_result, &next_hops, "{}", level.name());
                }
                for (bits, next_hop) in addresses.into_iter().zip(next_hops) {
                    let address = <$address>::from(bits);
                    let expected = naive(&routes, address.into());
                    prop_assert_eq!(next_hop.0, expected, "{}", address);
                    prop_assert_eq!(reader.lookup(bits).0, expected, "{}", address);
                    let longest = fib.longest_match(address);
                    prop_assert_eq!(longest.map_or(0, |(_, id)| id.0), expected, "{}", address);
                }
                prop_assert_eq!(fib.len(), routes.len());
                let held: HashMap<_, _> = fib.iter().map(|(prefix, id)| (prefix, id.0)).collect();
                prop_assert_eq!(held, routes);
            }
        }
    };
}

agrees!(ipv4, Fib4, ipv4_prefix(), u32, Ipv4Addr);
agrees!(ipv6, Fib6, ipv6_prefix(), u128, Ipv6Addr);
