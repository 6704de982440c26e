//! The requirements on an operating point.

/// Highest load of a core at which its queue stays short. The rest is a reserve: the table gives the
/// cores slightly different shares (128 entries over 9 cores: the fullest has 5 % more).
pub(super) const MOST_LOAD: f64 = 0.97;

/// Requirements on an operating point.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Requirements {
    /// Packets per second that the point has to carry.
    pub need: f64,
    /// Packets per second for which its energy counts.
    pub mean: f64,
    /// Variance of arrivals over their mean.
    pub dispersion: f64,
    /// The same as it was measured, for what an interrupt saves: one wakes a core for a whole train.
    pub trains: f64,
    /// Seconds that a packet may spend in queue and core.
    pub slack: f64,
    /// Ports, whose queues a core serves in turn.
    pub ports: usize,
    /// Fewest cores.
    pub floor: usize,
    /// Packets that all rings of a core hold. What comes in a nap has to fit.
    pub ring: f64,
    /// Whether less than the highest rate is carried, and some of it waits.
    pub waits: bool,
    /// Packets per second that may come without a warning.
    pub surprise: f64,
    /// The leap of load that the point has to withstand until the policy reacts.
    pub leap: Leap,
    /// Whether cores may poll. So few cores then carry the load that a leap finds little to spare.
    pub polls: bool,
}

/// A plan still holds for requirements that are lower by at most this share. Within a few looks, no
/// rate is measured more exactly.
const MUCH_THE_SAME: f64 = 0.02;
/// Trains of other lengths price interrupts anew: as a natural logarithm of their ratio. The dispersion is
/// measured that exactly at best.
const OTHER_TRAINS: f64 = 0.2;

impl Requirements {
    /// Whether a plan for these requirements holds for `other` as well: `other` requires no more, and
    /// little less.
    pub fn covers(&self, other: &Self) -> bool {
        let at_most =
            |planned: f64, now: f64| now <= planned && now >= planned * (1.0 - MUCH_THE_SAME);
        let about = |planned: f64, now: f64| (now - planned).abs() <= MUCH_THE_SAME * planned;
        let (planned, now) = (&self.leap, &other.leap);
        at_most(self.need, other.need)
            && about(self.mean, other.mean)
            && at_most(self.dispersion.max(1.0), other.dispersion.max(1.0))
            && (other.trains.max(1.0) / self.trains.max(1.0)).ln().abs() <= OTHER_TRAINS
            && at_most(self.surprise, other.surprise)
            && at_most(planned.rate, now.rate)
            && at_most(planned.known, now.known)
            // The next two allow more where they are higher.
            && at_most(other.slack, self.slack)
            && now.late >= planned.late
            && now.late - planned.late <= MUCH_THE_SAME * planned.late.abs()
            && (self.ports, self.floor, self.polls, self.waits)
                == (other.ports, other.floor, other.polls, other.waits)
            && (self.ring, planned.transition, planned.burst, planned.step)
                == (other.ring, now.transition, now.burst, now.step)
    }
}

/// A leap that may come.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Leap {
    /// Packets per second that may come from one moment to the next.
    pub rate: f64,
    /// Packets that it may make late.
    pub late: f64,
    /// Seconds that a change of frequency takes.
    pub transition: f64,
    /// Packets that may come at once without being a leap.
    pub burst: f64,
    /// Seconds that the machine takes for each core that is added, and for the tables.
    pub step: f64,
    /// Packets per second that leaps reached so far, or what all cores carry where none came.
    pub known: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_covers_a_little_less_and_nothing_more() {
        let leap =
            Leap { rate: 1e7, late: 100.0, transition: 1e-5, burst: 0.0, step: 0.0, known: 1e7 };
        let planned = Requirements {
            need: 1e6,
            mean: 1e6,
            dispersion: 1.0,
            trains: 1.0,
            slack: 9e-5,
            ports: 4,
            floor: 1,
            ring: 2048.0,
            waits: false,
            surprise: 1e7,
            leap,
            polls: true,
        };
        assert!(planned.covers(&planned));
        let with = |change: fn(&mut Requirements)| {
            let mut other = planned;
            change(&mut other);
            planned.covers(&other)
        };
        assert!(with(|required| required.need *= 0.99) && !with(|required| required.need *= 1.001));
        assert!(!with(|required| required.need *= 0.97), "a cheaper one may be found");
        assert!(
            with(|required| required.slack *= 1.01) && !with(|required| required.slack *= 0.999)
        );
        assert!(
            with(|required| required.leap.late += 1.0)
                && !with(|required| required.leap.late -= 1.0)
        );
        assert!(
            !with(|required| required.floor = 2) && !with(|required| required.leap.burst = 1.0)
        );
    }
}
