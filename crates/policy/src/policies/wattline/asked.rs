//! What is asked of an operating point.

/// A core that no more than this is used keeps its queue bounded; the rest is for the table's
/// shares, which are not quite equal (128 entries over 9 cores: the fullest has 5 % more).
pub(super) const MOST_LOAD: f64 = 0.97;

/// What is asked of a point.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Asked {
    /// Packets per second to plan for, and to reckon energy with.
    pub need: f64,
    pub mean: f64,
    /// Variance of arrivals over their mean.
    pub dispersion: f64,
    /// Seconds that a packet may spend in queue and core.
    pub slack: f64,
    /// Ports, whose queues a core serves in turn.
    pub ports: usize,
    /// Fewest cores.
    pub floor: usize,
    /// Packets that all rings of a core hold, and packets per second that may come without a
    /// warning: a nap must not overfill the rings.
    pub ring: f64,
    pub surprise: f64,
    /// What has to be reckoned with before anything can be done about it.
    pub leap: Leap,
}

/// A plan holds for what asks at most so much less, as a share: finer than that no measured rate is
/// known within a few looks.
const MUCH_THE_SAME: f64 = 0.02;

impl Asked {
    /// Whether a plan for this holds for the other as well: it asks for no more, and for little
    /// less.
    pub fn covers(&self, other: &Self) -> bool {
        let at_most =
            |planned: f64, now: f64| now <= planned && now >= planned * (1.0 - MUCH_THE_SAME);
        let about = |planned: f64, now: f64| (now - planned).abs() <= MUCH_THE_SAME * planned;
        let (planned, now) = (&self.leap, &other.leap);
        at_most(self.need, other.need)
            && about(self.mean, other.mean)
            && at_most(self.dispersion.max(1.0), other.dispersion.max(1.0))
            && at_most(self.surprise, other.surprise)
            && at_most(planned.rate, now.rate)
            // Of these more allows more.
            && at_most(other.slack, self.slack)
            && now.late >= planned.late
            && now.late - planned.late <= MUCH_THE_SAME * planned.late.abs()
            && (self.ports, self.floor) == (other.ports, other.floor)
            && (self.ring, planned.transition, planned.burst)
                == (other.ring, now.transition, now.burst)
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_covers_a_little_less_and_nothing_more() {
        let leap = Leap { rate: 1e7, late: 100.0, transition: 1e-5, burst: 0.0 };
        let planned = Asked {
            need: 1e6,
            mean: 1e6,
            dispersion: 1.0,
            slack: 9e-5,
            ports: 4,
            floor: 1,
            ring: 2048.0,
            surprise: 1e7,
            leap,
        };
        assert!(planned.covers(&planned));
        let with = |change: fn(&mut Asked)| {
            let mut other = planned;
            change(&mut other);
            planned.covers(&other)
        };
        assert!(with(|asked| asked.need *= 0.99) && !with(|asked| asked.need *= 1.001));
        assert!(!with(|asked| asked.need *= 0.97), "a cheaper one may be found");
        assert!(with(|asked| asked.slack *= 1.01) && !with(|asked| asked.slack *= 0.999));
        assert!(with(|asked| asked.leap.late += 1.0) && !with(|asked| asked.leap.late -= 1.0));
        assert!(!with(|asked| asked.floor = 2) && !with(|asked| asked.leap.burst = 1.0));
    }
}
