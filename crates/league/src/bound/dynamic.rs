//! Exact minimum cost of serving packets slot by slot, computed backward in time.
//!
//! The state is the backlog, a real number. The cost of the packets served in a slot is convex. So
//! the least cost from a slot on is a convex, piecewise linear function of the backlog at its
//! beginning. A step backward sorts by slope the pieces of the slot's cost, of the cost from the
//! next slot on, and of late packets (which vanish for their price): the infimal convolution.
//! Nothing is rounded or searched.

use super::gaps::{GapClasses, GapCost};
use super::possible::{fewest_late, most_waiting};
use super::serving::{Piece, Serving};
use crate::arrivals::Arrivals;

/// Levels to which the price of a gap is rounded down, so that few different costs exist.
const LEVELS: usize = 256;

/// The slots of a run.
pub(super) struct Slots<'a> {
    arrivals: &'a Arrivals,
    serving: &'a Serving,
    gaps: GapClasses,
    /// Highest cost of a second of gap, in joules.
    most_gap: f64,
    /// Most packets that may wait at the end of each slot: the arrivals within the slack.
    most_backlog: Vec<f64>,
}

impl<'a> Slots<'a> {
    /// Prepares the slots. A packet is in time if it leaves within `slack` seconds of its arrival.
    pub fn new(arrivals: &'a Arrivals, slack: f64, serving: &'a Serving, cost: &GapCost) -> Self {
        let most_backlog = most_waiting(arrivals, slack);
        let gaps = GapClasses::of(arrivals, slack, cost);
        let most_gap = cost.joules(slack) / slack;
        Self { arrivals, serving, gaps, most_gap, most_backlog }
    }

    /// Returns the fewest late packets of any schedule.
    pub fn fewest_late(&self) -> f64 {
        fewest_late(self.arrivals, &self.most_backlog, self.serving.most_rate())
    }

    /// Returns the least cost of serving all packets. A late packet costs the first price in the
    /// backlog and the second in gaps.
    pub fn least(&self, prices: (f64, f64)) -> f64 {
        let slots = self.arrivals.packets.len();
        let whole = self.arrivals.seconds(0);
        let level = |level: usize| self.most_gap * level as f64 / LEVELS as f64;
        let costs: Vec<_> =
            (0..=LEVELS).map(|index| self.serving.slot(whole, level(index))).collect();
        // The backlog at the end may wait: it is not late yet.
        let mut rest = Pieces { at_zero: 0.0, pieces: Vec::new() };
        if let Some(most) = self.most_backlog.last() {
            rest.pieces.push(Piece { slope: 0.0, width: *most });
        }
        let mut joined = Vec::new();
        for slot in (0..slots).rev() {
            let gap = self.gaps.watts(slot, prices.1).min(self.most_gap);
            let index = (gap / self.most_gap * LEVELS as f64).floor();
            let index = if index.is_finite() { index as usize } else { 0 };
            let last;
            let (at_zero, cost) = if slot + 1 == slots {
                last = self.serving.slot(self.arrivals.seconds(slot), level(index));
                &last
            } else {
                &costs[index]
            };
            let came = f64::from(self.arrivals.packets[slot]);
            let before = if slot == 0 { 0.0 } else { self.most_backlog[slot - 1] };
            let late = Piece { slope: prices.0, width: came };
            rest.at_zero += at_zero;
            rest.join(cost, late, &mut joined);
            rest.begin_with(came, before);
        }
        rest.at_zero
    }
}

/// A convex function on an interval that begins at zero: its value there, and its pieces by
/// rising slope.
#[derive(Debug, Clone)]
struct Pieces {
    at_zero: f64,
    pieces: Vec<Piece>,
}

impl Pieces {
    /// Replaces the pieces by their infimal convolution with `other`, whose slopes rise, and
    /// `late`. The caller adds the values at zero.
    fn join(&mut self, other: &[Piece], late: Piece, joined: &mut Vec<Piece>) {
        joined.clear();
        let mut put = |piece: Piece| match joined.last_mut() {
            Some(last) if last.slope == piece.slope => last.width += piece.width,
            _ if piece.width > 0.0 => joined.push(piece),
            _ => {}
        };
        let (mut a, mut b) = (self.pieces.iter().peekable(), other.iter().peekable());
        let mut late = Some(late);
        loop {
            let slope = |piece: Option<&&Piece>| piece.map_or(f64::INFINITY, |p| p.slope);
            let (of_a, of_b) = (slope(a.peek()), slope(b.peek()));
            let of_late = late.map_or(f64::INFINITY, |piece| piece.slope);
            let next = if of_late <= of_a && of_late <= of_b {
                late.take()
            } else if of_a <= of_b {
                a.next().copied()
            } else {
                b.next().copied()
            };
            match next {
                Some(piece) => put(piece),
                None => break,
            }
        }
        std::mem::swap(&mut self.pieces, joined);
    }

    /// Converts a function of the backlog after arrival into one of the backlog before it: `came`
    /// packets arrive in the slot, and at most `before` were waiting.
    fn begin_with(&mut self, came: f64, before: f64) {
        let mut drop = came;
        let mut gone = 0;
        for piece in &mut self.pieces {
            let part = drop.min(piece.width);
            self.at_zero += part * piece.slope;
            drop -= part;
            piece.width -= part;
            if piece.width > 0.0 {
                break;
            }
            gone += 1;
        }
        self.pieces.drain(..gone);
        let mut room = before;
        self.pieces.retain_mut(|piece| {
            piece.width = piece.width.min(room);
            room -= piece.width;
            piece.width > 0.0
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Exhaustive search over whole packets: each is served in some slot or late.
    fn by_hand(came: &[u32], span: usize, cost: &impl Fn(u32) -> f64, price: f64) -> f64 {
        fn go(
            slot: usize,
            backlog: u32,
            came: &[u32],
            span: usize,
            cost: &impl Fn(u32) -> f64,
            price: f64,
        ) -> f64 {
            let Some(&new) = came.get(slot) else { return 0.0 };
            let most: u32 = came[(slot + 1).saturating_sub(span)..=slot].iter().sum();
            let mut best = f64::INFINITY;
            for late in 0..=new {
                let there = backlog + new - late;
                for served in 0..=there {
                    if there - served <= most {
                        let rest = go(slot + 1, there - served, came, span, cost, price);
                        best = best.min(cost(served) + f64::from(late) * price + rest);
                    }
                }
            }
            best
        }
        go(0, 0, came, span, cost, price)
    }

    proptest! {
        /// The relaxation to real numbers is at most the optimum in whole packets, and equals it
        /// where the pieces are whole packets wide.
        #[test]
        fn equals_a_search_of_all_schedules(
            came in prop::collection::vec(0u32..4, 1..5),
            span in 1usize..3,
            price in 0.5f64..6.0,
        ) {
            let pieces =
                [Piece { slope: 1.0, width: 2.0 }, Piece { slope: 3.0, width: 2.0 }];
            let cost = |served: u32| match served {
                0..=2 => f64::from(served),
                3..=4 => 2.0 + f64::from(served - 2) * 3.0,
                _ => f64::INFINITY,
            };
            let most = |slot: usize| -> f64 {
                let from = (slot + 1).saturating_sub(span);
                came[from..=slot].iter().map(|count| f64::from(*count)).sum()
            };
            let mut rest = Pieces { at_zero: 0.0, pieces: Vec::new() };
            rest.pieces.push(Piece { slope: 0.0, width: most(came.len() - 1) });
            let mut joined = Vec::new();
            for slot in (0..came.len()).rev() {
                let late = Piece { slope: price, width: f64::from(came[slot]) };
                rest.join(&pieces, late, &mut joined);
                let before = if slot == 0 { 0.0 } else { most(slot - 1) };
                rest.begin_with(f64::from(came[slot]), before);
            }
            let exact = by_hand(&came, span, &cost, price);
            prop_assert!((rest.at_zero - exact).abs() < 1e-9, "{} {exact}", rest.at_zero);
        }
    }
}
