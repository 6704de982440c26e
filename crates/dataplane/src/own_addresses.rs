//! The router's own IPv4 addresses, asked for each packet's source.
//!
//! A packet from outside that claims to come from one of them is forged, or went round in a
//! circle: the kernel forwards none (`accept_local` is off by default), and neither do we.

/// A bit for each value of the hash below: with a hundred addresses 2 % of all sources are looked
/// at more closely.
const BITS: u32 = 12;

/// A set of IPv4 addresses (host byte order): a filter that says no to nearly all others, and
/// the addresses themselves.
#[derive(Debug, Clone)]
pub struct OwnAddresses {
    filter: [u64; 1 << (BITS - 6)],
    sorted: Vec<u32>,
}

impl Default for OwnAddresses {
    fn default() -> Self {
        Self { filter: [0; 1 << (BITS - 6)], sorted: Vec::new() }
    }
}

impl FromIterator<u32> for OwnAddresses {
    fn from_iter<T: IntoIterator<Item = u32>>(addresses: T) -> Self {
        let mut own = Self { sorted: addresses.into_iter().collect(), ..Self::default() };
        own.sorted.sort_unstable();
        for address in &own.sorted {
            let (word, bit) = place(*address);
            own.filter[word] |= bit;
        }
        own
    }
}

impl OwnAddresses {
    /// False for nearly every address that is not in the set, true for all that are.
    #[inline]
    pub fn may_hold(&self, address: u32) -> bool {
        let (word, bit) = place(address);
        self.filter[word] & bit != 0
    }

    /// Whether an address is in the set.
    pub fn holds(&self, address: u32) -> bool {
        self.sorted.binary_search(&address).is_ok()
    }
}

/// Word and bit of an address: the high bits of a product (Knuth's multiplicative hash).
#[inline]
fn place(address: u32) -> (usize, u64) {
    let hash = address.wrapping_mul(0x9e37_79b1) >> (32 - BITS);
    ((hash >> 6) as usize, 1 << (hash & 63))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_what_was_put_in_and_sorts_out_most_others() {
        let addresses: Vec<u32> = (0..100).map(|host| 0xc000_0201 + (host << 8)).collect();
        let own: OwnAddresses = addresses.iter().rev().copied().collect();
        assert!(addresses.iter().all(|address| own.may_hold(*address) && own.holds(*address)));
        let others = (0..1_000_000_u32).map(|number| number.wrapping_mul(4099));
        let others: Vec<u32> = others.filter(|other| !addresses.contains(other)).collect();
        assert!(others.iter().all(|other| !own.holds(*other)));
        let closer = others.iter().filter(|other| own.may_hold(**other)).count();
        assert!(closer < others.len() / 20, "{closer}");
        assert!(!OwnAddresses::default().may_hold(0));
    }
}
