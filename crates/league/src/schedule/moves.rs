//! Changes of a part of a schedule.

use crate::point::FixedPoint;
use wattline_policy::Wait;
use wattline_units::Span;

/// A change of a segment of slots.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Move {
    /// More or fewer cores, more or fewer steps of frequency.
    Step(i32, i32),
    /// Naps longer by this factor.
    Nap(f64),
    /// Interrupts instead of naps: in the deepest idle state, or in the first.
    Interrupt(bool),
    /// Naps of this share of the longest after which a packet is in time.
    Sleep(f64),
    /// Polling.
    Poll,
    /// The point of the slot before the segment, and of the slot after it.
    Before,
    After,
    /// The points of another schedule in this segment.
    Donor(usize),
}

/// All moves except the donors.
pub(super) const MOVES: [Move; 28] = [
    Move::Step(-1, 0),
    Move::Step(1, 0),
    Move::Step(0, -1),
    Move::Step(0, 1),
    Move::Step(-1, 1),
    Move::Step(1, -1),
    Move::Step(-1, 2),
    Move::Step(1, -2),
    Move::Step(-1, 3),
    Move::Step(1, -3),
    Move::Step(0, -3),
    Move::Step(0, 3),
    Move::Step(-2, 0),
    Move::Step(2, 0),
    Move::Step(-3, 3),
    Move::Step(3, -3),
    Move::Step(-4, 0),
    Move::Step(4, 0),
    Move::Nap(1.4),
    Move::Nap(0.7),
    Move::Nap(1.1),
    Move::Nap(0.9),
    Move::Interrupt(false),
    Move::Interrupt(true),
    Move::Sleep(0.9),
    Move::Poll,
    Move::Before,
    Move::After,
];

/// Limits of a point.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub cores: usize,
    pub frequencies: usize,
    pub deepest: usize,
    /// Longest nap, in seconds.
    pub nap: f64,
}

impl Move {
    /// Changes the slots from `from` up to `to`.
    pub fn apply(
        self,
        points: &mut [FixedPoint],
        (from, to): (usize, usize),
        limits: &Limits,
        donors: &[&[FixedPoint]],
    ) {
        match self {
            Self::Before if from > 0 => {
                let point = points[from - 1];
                points[from..to].fill(point);
            }
            Self::After if to < points.len() => {
                let point = points[to];
                points[from..to].fill(point);
            }
            Self::Before | Self::After => {}
            Self::Donor(donor) => {
                if let Some(donor) = donors.get(donor) {
                    points[from..to].copy_from_slice(&donor[from..to]);
                }
            }
            _ => points[from..to].iter_mut().for_each(|point| self.change(point, limits)),
        }
    }

    fn change(self, point: &mut FixedPoint, limits: &Limits) {
        match (self, point.wait) {
            (Self::Step(cores, steps), _) => {
                let cores = point.cores.saturating_add_signed(cores as isize);
                let frequency = point.frequency as i64 + i64::from(steps);
                point.cores = cores.clamp(1, limits.cores);
                point.frequency = frequency.clamp(0, limits.frequencies as i64 - 1) as usize;
            }
            (Self::Nap(factor), Wait::Sleep(nap)) => {
                let nap = (nap.as_seconds() * factor).min(limits.nap);
                point.wait = Wait::Sleep(Span::from_seconds(nap.max(1e-6)));
            }
            (Self::Interrupt(deep), _) => {
                point.wait = Wait::Interrupt;
                point.nap = if deep { limits.deepest } else { 0 };
            }
            (Self::Sleep(share), _) => {
                point.wait = Wait::Sleep(Span::from_seconds(share * limits.nap));
            }
            (Self::Poll, _) => point.wait = Wait::Poll,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { cores: 12, frequencies: 14, deepest: 2, nap: 80e-6 };

    fn point(cores: usize) -> FixedPoint {
        let wait = Wait::Sleep(Span::from_micros(70));
        FixedPoint { cores, frequency: 5, nap: 0, wait, moderation: Span::ZERO }
    }

    #[test]
    fn moves_change_only_their_segment_and_stay_within_limits() {
        let donor = [point(9); 6];
        for of in MOVES.into_iter().chain([Move::Donor(0), Move::Donor(1)]) {
            let mut points = [1, 2, 3, 4, 5, 12].map(point);
            let before = points;
            for _ in 0..20 {
                of.apply(&mut points, (2, 4), &LIMITS, &[&donor]);
            }
            assert!(points[..2] == before[..2] && points[4..] == before[4..], "{of:?}");
            for point in &points[2..4] {
                assert!(
                    (1..=12).contains(&point.cores) && point.frequency < 14,
                    "{of:?} {point:?}"
                );
                let Wait::Sleep(nap) = point.wait else { continue };
                assert!(nap > Span::ZERO && nap <= Span::from_micros(80), "{of:?} {point:?}");
            }
        }
        let mut points = [1, 2, 3, 4, 5, 12].map(point);
        Move::Before.apply(&mut points, (2, 4), &LIMITS, &[]);
        Move::After.apply(&mut points, (4, 5), &LIMITS, &[]);
        assert_eq!(points.map(|point| point.cores), [1, 2, 2, 2, 12, 12]);
    }
}
