//! Keeps packets away from cores that are still waking up.
//!
//! A core takes up to a few hundred microseconds out of its deepest state. Packets that the table sends
//! there meanwhile wait for it: with a budget of 50 us all of them are late. So such a core is active at
//! once, and wakes, but gets as few entries of the table as can be until it is awake. Only what the
//! cores that are awake cannot carry goes to it.

use crate::{CoreSet, OperatingPoint};
use wattline_units::{Span, Time};

/// A full share of the table. The least is one of 255, which mostly is no entry at all.
const FULL: u8 = u8::MAX;

/// Cores that are asleep and needed now.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Asleep {
    /// Packets that go there before they are awake are late.
    pub slow: CoreSet,
    /// Packets that go there before they are awake overfill a ring.
    pub full: CoreSet,
}

impl Asleep {
    pub fn is_empty(self) -> bool {
        self.all().is_empty()
    }

    fn all(self) -> CoreSet {
        self.slow.union(self.full)
    }
}

/// Cores that wake.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Waking {
    /// Active cores that are not known to be awake.
    cores: CoreSet,
    /// Those of them whose rings would overflow.
    full: CoreSet,
    /// When all of them are awake.
    until: Option<Time>,
}

impl Waking {
    /// Gives all cores full shares of the table once those are awake that woke.
    pub fn look(&mut self, now: Time, point: &mut OperatingPoint) {
        if self.is_over(now) {
            *self = Self::default();
            point.weights.fill(FULL);
        }
    }

    /// Whether all cores are awake.
    pub fn is_over(&self, now: Time) -> bool {
        self.until.is_none_or(|until| until <= now)
    }

    /// Wakes more cores of a point, which take `exit`, and says how many of the active ones are awake.
    pub fn wake(&mut self, now: Time, exit: Span, asleep: Asleep, point: &OperatingPoint) -> usize {
        self.cores = self.cores.union(asleep.all()).intersection(point.active);
        self.full = self.full.union(asleep.full).intersection(point.active);
        if !asleep.is_empty() {
            self.until = Some(now + exit);
        }
        point.active.len() - self.cores.len()
    }

    /// Divides the table of a point between its cores. Those that are awake carry so many packets per
    /// second, of so many that come.
    pub fn divide(&self, (carried, rate): (f64, f64), point: &mut OperatingPoint) {
        if self.cores.is_empty() {
            return;
        }
        let awake = point.active.len().saturating_sub(self.cores.len());
        let carried = if awake > 0 { carried.clamp(0.0, rate) } else { 0.0 };
        let rest = self.cores.without(self.full).len();
        let each = (
            carried / awake.max(1) as f64,
            if rest == 0 { 0.0 } else { (rate - carried) / rest as f64 },
        );
        let most = each.0.max(each.1).max(f64::MIN_POSITIVE);
        let weight = |share: f64| ((share / most * f64::from(FULL)) as u8).max(1);
        point.weights.fill(weight(each.0));
        for core in self.cores.iter() {
            point.weights[core] = if self.full.contains(core) { 1 } else { weight(each.1) };
        }
    }

    /// When the shares change next.
    pub fn until(&self) -> Option<Time> {
        self.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::tests::westmere;
    use crate::{IndirectionTable, MAX_CORES};

    const EXIT: Span = Span::from_micros(90);

    fn slow(cores: CoreSet) -> Asleep {
        Asleep { slow: cores, ..Asleep::default() }
    }

    fn entries(point: &OperatingPoint) -> Vec<usize> {
        let mut table = IndirectionTable::new(128, point.active);
        table.spread_weighted(point.active, &point.weights, &mut [0; MAX_CORES]);
        (0..8).map(|core| table.entries().iter().filter(|of| **of == core).count()).collect()
    }

    fn wake(
        waking: &mut Waking,
        from: usize,
        (carried, rate): (f64, f64),
        point: &mut OperatingPoint,
    ) {
        let cores = CoreSet::first(8).without(CoreSet::first(from));
        assert_eq!(waking.wake(Time::ZERO, EXIT, slow(cores), point), from);
        waking.divide((carried, rate), point);
    }

    #[test]
    fn a_core_gets_packets_when_it_is_awake_and_before_only_what_others_cannot_carry() {
        let platform = westmere();
        let mut point = OperatingPoint::full(&platform);
        point.set_active(8, 0, 2);
        let mut waking = Waking::default();
        waking.look(Time::ZERO, &mut point);
        assert_eq!(entries(&point), [16; 8]);
        // Six carry what comes.
        wake(&mut waking, 6, (12e6, 10e6), &mut point);
        let few = entries(&point);
        let even = |part: &[usize]| part.iter().all(|count| (21..=22).contains(count));
        assert!(few[6..] == [0, 0] && even(&few[..6]), "{few:?}");
        waking.look(Time::ZERO + Span::from_micros(89), &mut point);
        assert_eq!(entries(&point), few, "they are not awake yet");
        waking.look(Time::ZERO + EXIT, &mut point);
        assert_eq!((entries(&point), waking.until()), (vec![16; 8], None));
        // Two carry a quarter of what comes: 16 entries each, and the six others as many.
        wake(&mut waking, 2, (5e6, 20e6), &mut point);
        assert_eq!(entries(&point), [16; 8]);
        // What waits takes all that they carry.
        wake(&mut waking, 2, (-1e6, 20e6), &mut point);
        let most = entries(&point);
        assert!(most[..2] == [0, 0] && even(&most[2..]), "{most:?}");
    }

    #[test]
    fn more_cores_wake_before_the_first_are_awake() {
        let platform = westmere();
        let mut point = OperatingPoint::full(&platform);
        let mut waking = Waking::default();
        let later = Time::ZERO + Span::from_micros(50);
        point.set_active(6, 0, 2);
        assert_eq!(waking.wake(Time::ZERO, EXIT, slow(CoreSet::only(5)), &point), 5);
        point.set_active(8, 0, 2);
        let two = CoreSet::only(6).union(CoreSet::only(7));
        assert_eq!(waking.wake(later, EXIT, slow(two), &point), 5);
        assert_eq!(waking.until(), Some(later + EXIT));
        // One of them is parked again before it was of use.
        point.set_active(7, 0, 2);
        assert_eq!(waking.wake(later, EXIT, Asleep::default(), &point), 5);
    }

    /// In a leap, too, in which cores that wake get what others cannot carry.
    #[test]
    fn a_core_whose_rings_are_full_gets_nothing_more_until_it_is_awake() {
        let platform = westmere();
        let mut point = OperatingPoint::full(&platform);
        point.set_active(8, 0, 2);
        let even = |part: &[usize]| part.iter().all(|count| (18..=19).contains(count));
        for carried in [12e6, 5e6, -1e6] {
            let mut waking = Waking::default();
            let asleep = Asleep { full: CoreSet::only(7), ..Asleep::default() };
            assert_eq!(waking.wake(Time::ZERO, EXIT, asleep, &point), 7);
            waking.divide((carried, 20e6), &mut point);
            if carried > 0.0 {
                let few = entries(&point);
                assert!(few[7] == 0 && even(&few[..7]), "{few:?}");
            }
            assert_eq!(point.weights[7], 1);
        }
        // Five others wake: they get the rest.
        let mut waking = Waking::default();
        let others = CoreSet::first(7).without(CoreSet::first(2));
        let asleep = Asleep { full: CoreSet::only(7), ..slow(others) };
        assert_eq!(waking.wake(Time::ZERO, EXIT, asleep, &point), 2);
        waking.divide((5e6, 20e6), &mut point);
        let few = entries(&point);
        assert!(few[7] == 0 && few[2] > few[0], "{few:?}");
    }
}
