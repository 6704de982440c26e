//! Addresses of this machine, in the kernel's order.

use super::source::Source;
use ipnet::IpNet;
use std::collections::BTreeMap;
use wattline_linux::netlink::{Address, SourceRank};

/// An address on a link.
#[derive(Debug, Clone)]
struct Known {
    link: u32,
    rank: SourceRank,
    /// Place among the addresses of its link.
    place: i64,
    source: Source,
    /// Number of the last dump that contained it.
    generation: u32,
}

/// All addresses.
#[derive(Debug, Default)]
pub(super) struct Addresses {
    known: BTreeMap<IpNet, Vec<Known>>,
    /// First and last place.
    places: (i64, i64),
}

impl Addresses {
    /// Adds an address, or changes its rank. A dump lists the addresses of a link in the kernel's
    /// order. Later, the kernel adds an IPv4 address after the others and an IPv6 address before
    /// them.
    pub fn add(&mut self, address: &Address, source: Source, generation: u32, dumped: bool) {
        let list = self.known.entry(address.address).or_default();
        let found = list.iter_mut().find(|it| (it.link, it.source) == (address.link, source));
        let place = match &found {
            Some(known) if !dumped => known.place,
            _ if dumped || address.address.addr().is_ipv4() || source == Source::Static => {
                self.places.1 += 1;
                self.places.1
            }
            _ => {
                self.places.0 -= 1;
                self.places.0
            }
        };
        let new = Known { link: address.link, rank: address.rank, place, source, generation };
        match found {
            Some(known) => *known = new,
            None => list.push(new),
        }
    }

    /// Removes an address.
    pub fn remove(&mut self, address: &Address, source: Source) {
        let Some(list) = self.known.get_mut(&address.address) else { return };
        list.retain(|known| (known.link, known.source) != (address.link, source));
        if list.is_empty() {
            self.known.remove(&address.address);
        }
    }

    /// Returns all addresses with their prefix lengths.
    pub fn networks(&self) -> impl Iterator<Item = IpNet> {
        self.known.keys().copied()
    }

    /// Returns the addresses of a link with their prefix lengths.
    pub fn networks_on(&self, link: u32) -> impl Iterator<Item = IpNet> {
        let on = move |list: &Vec<Known>| list.iter().any(|known| known.link == link);
        self.known.iter().filter(move |(_, list)| on(list)).map(|(address, _)| *address)
    }

    /// Returns the addresses of a source that its last dump did not contain.
    pub fn older_than(&self, generation: u32, source: Source) -> Vec<Address> {
        let old = |known: &&Known| known.source == source && known.generation != generation;
        let of = |(address, list): (&IpNet, &Vec<Known>)| {
            let (address, old) = (*address, list.iter().filter(old));
            old.map(|it| Address { link: it.link, address, rank: it.rank }).collect::<Vec<_>>()
        };
        self.known.iter().flat_map(of).collect()
    }

    /// Returns the addresses from which the kernel may send, in its order, each with its link and
    /// true if deprecated.
    pub fn senders(&self) -> Vec<(IpNet, u32, bool)> {
        let of = |(address, list): (&IpNet, &Vec<Known>)| {
            let address = *address;
            let usable = list.iter().filter(|known| known.rank != SourceRank::Never);
            let found = usable.map(|it| {
                ((it.link, it.place), (address, it.link, it.rank == SourceRank::Deprecated))
            });
            found.collect::<Vec<_>>()
        };
        let mut found: Vec<_> = self.known.iter().flat_map(of).collect();
        found.sort_unstable_by_key(|(order, _)| *order);
        found.into_iter().map(|(_, sender)| sender).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(link: u32, address: &str) -> Address {
        Address { link, address: address.parse().unwrap(), rank: SourceRank::Preferred }
    }

    fn order(addresses: &Addresses) -> Vec<String> {
        addresses.senders().iter().map(|(address, ..)| address.to_string()).collect()
    }

    #[test]
    fn addresses_come_in_the_order_of_the_kernel() {
        let mut known = Addresses::default();
        for address in ["192.0.2.9/24", "192.0.2.1/25", "2001:db8:9::1/64", "2001:db8:1::1/64"] {
            known.add(&own(7, address), Source::Kernel, 1, true);
        }
        for address in ["10.0.0.1/8", "2001:db8:5::1/64", "192.0.2.9/24"] {
            known.add(&own(7, address), Source::Kernel, 1, false);
        }
        known.add(&own(3, "10.9.0.1/24"), Source::Kernel, 1, false);
        let expected = "10.9.0.1/24 2001:db8:5::1/64 192.0.2.9/24 192.0.2.1/25 2001:db8:9::1/64 \
                        2001:db8:1::1/64 10.0.0.1/8";
        assert_eq!(order(&known).join(" "), expected);
        // Another dump corrects the order.
        for address in ["2001:db8:1::1/64", "2001:db8:9::1/64", "192.0.2.9/24"] {
            known.add(&own(7, address), Source::Kernel, 2, true);
        }
        for address in known.older_than(2, Source::Kernel) {
            known.remove(&address, Source::Kernel);
        }
        let expected = ["2001:db8:1::1/64", "2001:db8:9::1/64", "192.0.2.9/24"];
        assert_eq!(order(&known), expected);
    }

    #[test]
    fn rank_follows_the_last_event() {
        let mut known = Addresses::default();
        let of = |rank| Address { rank, ..own(1, "2001:db8::1/64") };
        for (rank, expected) in [
            (SourceRank::Never, vec![]),
            (SourceRank::Preferred, vec![false]),
            (SourceRank::Deprecated, vec![true]),
        ] {
            known.add(&of(rank), Source::Kernel, 1, false);
            let deprecated: Vec<bool> = known.senders().iter().map(|it| it.2).collect();
            assert_eq!(deprecated, expected);
        }
        known.remove(&of(SourceRank::Preferred), Source::Kernel);
        assert_eq!(known.networks().count(), 0);
    }
}
