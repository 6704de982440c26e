//! The order in which the ways of a set were used, in one word.

/// Bits of a way's number.
const BITS: usize = 4;
/// The same number in all 16 places.
const ALL: u64 = 0x1111_1111_1111_1111;
/// The highest bit of each place.
const TOP: u64 = 0x8888_8888_8888_8888;

/// Up to 16 ways, 4 bits each, the most recent in the lowest bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Recency(u64);

impl Default for Recency {
    fn default() -> Self {
        Self(0xfedc_ba98_7654_3210)
    }
}

impl Recency {
    /// Makes a way the most recent.
    #[inline]
    pub fn renew(&mut self, way: usize) {
        if self.0 & 15 == way as u64 {
            return;
        }
        let place = self.place(way);
        self.bring_forward(place, way as u64);
    }

    /// Makes the least recent of the first `ways` the most recent; returns it.
    #[inline]
    pub fn renew_oldest(&mut self, ways: usize) -> usize {
        let place = (ways - 1) * BITS;
        let way = self.0 >> place & 15;
        self.bring_forward(place, way);
        way as usize
    }

    /// Makes a way the least recent of the first `ways`.
    #[inline]
    pub fn expire(&mut self, way: usize, ways: usize) {
        let (place, last) = (self.place(way), (ways - 1) * BITS);
        // Ways between this one and the last place move by one.
        let between = below(last) & !below(place);
        let kept = self.0 & !(between | 15 << last);
        self.0 = kept | (self.0 >> BITS & between) | (way as u64) << last;
    }

    /// Returns the lowest bit of a way's place.
    #[inline]
    fn place(self, way: usize) -> usize {
        // The place becomes zero; the subtraction borrows from it first (Warren, Hacker's Delight,
        // section 6-1).
        let zero = self.0 ^ (way as u64 * ALL);
        let found = zero.wrapping_sub(ALL) & !zero & TOP;
        found.trailing_zeros() as usize & !(BITS - 1)
    }

    #[inline]
    fn bring_forward(&mut self, place: usize, way: u64) {
        let below = below(place);
        let kept = self.0 & !(below | 15 << place);
        self.0 = kept | (self.0 & below) << BITS | way;
    }
}

/// Returns a mask of all bits below `bit`.
#[inline]
fn below(bit: usize) -> u64 {
    (1 << bit) - 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Compares with a list.
        #[test]
        fn order_equals_that_of_a_list(
            ways in 1..=16_usize,
            steps in prop::collection::vec((0..16_usize, 0..3_u8), 1..200)
        ) {
            let (mut order, mut list) = (Recency::default(), (0..ways).collect::<Vec<_>>());
            for (way, kind) in steps {
                let way = way % ways;
                match kind {
                    0 => {
                        order.renew(way);
                        list.retain(|known| *known != way);
                        list.insert(0, way);
                    }
                    1 => {
                        order.expire(way, ways);
                        list.retain(|known| *known != way);
                        list.push(way);
                    }
                    _ => {
                        let oldest = list.pop();
                        prop_assert_eq!(Some(order.renew_oldest(ways)), oldest);
                        list.insert(0, oldest.unwrap());
                    }
                }
                let held: Vec<usize> =
                    (0..ways).map(|place| (order.0 >> (place * BITS) & 15) as usize).collect();
                prop_assert_eq!(&held, &list);
            }
        }
    }
}
