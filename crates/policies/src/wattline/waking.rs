//! Keeps packets away from cores that are still waking up.
//!
//! A core takes up to a few hundred microseconds to leave its deepest state. With a budget of 50
//! us, all packets that the table sends there meanwhile are late. So such a core becomes active and
//! wakes, but gets as few entries of the table as possible until it is awake: only those that the
//! others cannot carry.

use wattline_policy::{CoreSet, OperatingPoint};
use wattline_units::{Span, Time};

/// Active cores that are not known to be awake.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Waking {
    /// Cores at which packets would be late.
    slow: CoreSet,
    /// Cores whose rings would overflow.
    full: CoreSet,
    /// Time at which all of them are awake.
    pub until: Option<Time>,
}

impl Waking {
    /// Gives all cores full shares of the table once the waking ones are awake.
    pub fn update(&mut self, now: Time, point: &mut OperatingPoint) {
        if self.is_over(now) {
            *self = Self::default();
            point.weights.fill(u8::MAX);
        }
    }

    /// Returns true if all cores are awake.
    pub fn is_over(&self, now: Time) -> bool {
        self.until.is_none_or(|until| until <= now)
    }

    /// Adds cores of a point that are slow to wake or have full rings, and are awake after `exit`.
    /// Returns the number of active cores that are awake.
    pub fn wake(
        &mut self,
        now: Time,
        exit: Span,
        [slow, full]: [CoreSet; 2],
        point: &OperatingPoint,
    ) -> usize {
        self.slow = self.slow.union(slow).union(full).intersection(point.active);
        self.full = self.full.union(full).intersection(point.active);
        if !slow.union(full).is_empty() {
            self.until = Some(now + exit);
        }
        point.active.len() - self.slow.len()
    }

    /// Divides the table of a point between its cores. The awake cores carry `carried` of `rate`
    /// packets per second.
    pub fn divide(&self, carried: f64, rate: f64, point: &mut OperatingPoint) {
        let awake = point.active.len() - self.slow.len().min(point.active.len());
        let carried = if awake > 0 { carried.clamp(0.0, rate) } else { 0.0 };
        let rest = self.slow.without(self.full).len();
        let each = carried / awake.max(1) as f64;
        let of_slow = if rest == 0 { 0.0 } else { (rate - carried) / rest as f64 };
        let most = each.max(of_slow).max(f64::MIN_POSITIVE);
        let weight = |share: f64| ((share / most * f64::from(u8::MAX)) as u8).max(1);
        point.weights.fill(weight(each));
        for core in self.slow.iter() {
            point.weights[core] = if self.full.contains(core) { 1 } else { weight(of_slow) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattline_policy::testing::westmere;
    use wattline_policy::{IndirectionTable, MAX_CORES};

    const EXIT: Span = Span::from_micros(90);

    fn slow(cores: CoreSet) -> [CoreSet; 2] {
        [cores, CoreSet::EMPTY]
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
        waking.divide(carried, rate, point);
    }

    #[test]
    fn waking_core_gets_only_the_excess_of_others() {
        let platform = westmere();
        let mut point = OperatingPoint::full(&platform);
        point.set_active(8, 0, 2);
        let mut waking = Waking::default();
        waking.update(Time::ZERO, &mut point);
        assert_eq!(entries(&point), [16; 8]);
        // Six cores carry the load.
        wake(&mut waking, 6, (12e6, 10e6), &mut point);
        let few = entries(&point);
        let even = |part: &[usize]| part.iter().all(|count| (21..=22).contains(count));
        assert!(few[6..] == [0, 0] && even(&few[..6]), "{few:?}");
        waking.update(Time::ZERO + Span::from_micros(89), &mut point);
        assert_eq!(entries(&point), few, "they are not awake yet");
        waking.update(Time::ZERO + EXIT, &mut point);
        assert_eq!((entries(&point), waking.until), (vec![16; 8], None));
        // Two cores carry a quarter of the load: 16 entries each, and the six others as many.
        wake(&mut waking, 2, (5e6, 20e6), &mut point);
        assert_eq!(entries(&point), [16; 8]);
        // Waiting packets take all of their capacity.
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
        assert_eq!(waking.until, Some(later + EXIT));
        // One of them is parked again before it was useful.
        point.set_active(7, 0, 2);
        assert_eq!(waking.wake(later, EXIT, slow(CoreSet::EMPTY), &point), 5);
    }

    /// In a rise, too, in which waking cores get the packets that others cannot carry.
    #[test]
    fn core_with_full_rings_gets_nothing_until_it_is_awake() {
        let platform = westmere();
        let mut point = OperatingPoint::full(&platform);
        point.set_active(8, 0, 2);
        let even = |part: &[usize]| part.iter().all(|count| (18..=19).contains(count));
        for carried in [12e6, 5e6, -1e6] {
            let mut waking = Waking::default();
            let asleep = [CoreSet::EMPTY, CoreSet::only(7)];
            assert_eq!(waking.wake(Time::ZERO, EXIT, asleep, &point), 7);
            waking.divide(carried, 20e6, &mut point);
            if carried > 0.0 {
                let few = entries(&point);
                assert!(few[7] == 0 && even(&few[..7]), "{few:?}");
            }
            assert_eq!(point.weights[7], 1);
        }
        // Five others wake: they get the rest.
        let mut waking = Waking::default();
        let others = CoreSet::first(7).without(CoreSet::first(2));
        let asleep = [others, CoreSet::only(7)];
        assert_eq!(waking.wake(Time::ZERO, EXIT, asleep, &point), 2);
        waking.divide(5e6, 20e6, &mut point);
        let few = entries(&point);
        assert!(few[7] == 0 && few[2] > few[0], "{few:?}");
    }
}
