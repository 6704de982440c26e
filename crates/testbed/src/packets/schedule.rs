//! Times at which packets are due. The loop is open: lost or late packets do not delay the others.

use std::time::Duration;

const SECOND: f64 = 1e9;

/// Distribution of packets over time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Shape {
    /// Equal distances.
    Constant,
    /// Bursts of packets at `peak_pps`, followed by silence, at the same mean rate.
    Bursts {
        /// Packets of a burst.
        packets: u64,
        /// Rate within a burst in packets per second; infinite for full speed.
        peak_pps: f64,
    },
    /// A day, compressed to the length of the load: the rate is `1 - depth cos(2 π t)` times the
    /// mean, so the load begins and ends at night.
    Day {
        /// Variation of the rate as a share of the mean: 0 to 1.
        depth: f64,
    },
}

/// Evenly spaced packets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Evenly {
    /// Time of the first packet since the start.
    pub first_nanos: u64,
    /// Time between two packets; 0 for full speed.
    pub gap_nanos: f64,
    /// Number of packets.
    pub packets: u64,
}

/// Time for which the rate of a day counts as constant.
const DAY_STEP_NANOS: u64 = 2_000_000;

/// Numbers of packets due by time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Schedule {
    /// Mean rate in packets per second; infinite for full speed.
    rate_pps: f64,
    duration_nanos: u64,
    packets: u64,
    shape: Shape,
}

impl Schedule {
    /// Creates a schedule; an infinite rate stands for full speed.
    pub fn new(rate_pps: f64, duration: Duration, shape: Shape) -> Self {
        // Saturates above 500 years.
        let duration_nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let packets = match rate_pps.is_finite() {
            // `as` saturates.
            true => (rate_pps * duration.as_secs_f64()).round() as u64,
            false => u64::MAX,
        };
        Self { rate_pps, duration_nanos, packets, shape }
    }

    /// Creates a schedule of one burst at full speed, within a time limit.
    pub fn burst(packets: u64, limit: Duration) -> Self {
        Self { packets, ..Self::new(f64::INFINITY, limit, Shape::Constant) }
    }

    /// Returns the share of one of `streams` that take turns: packets `index`, `index + streams`,
    /// ….
    #[must_use]
    pub fn share(self, index: u64, streams: u64) -> Self {
        let packets = match self.packets {
            u64::MAX => u64::MAX,
            packets => (packets + streams - 1 - index) / streams,
        };
        let shape = match self.shape {
            Shape::Bursts { packets, peak_pps } => Shape::Bursts {
                packets: packets.div_ceil(streams),
                peak_pps: peak_pps / streams as f64,
            },
            shape => shape,
        };
        Self { rate_pps: self.rate_pps / streams as f64, packets, shape, ..self }
    }

    /// Returns the number of packets; `u64::MAX` without a limit.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Returns the length in nanoseconds.
    pub fn duration_nanos(&self) -> u64 {
        self.duration_nanos
    }

    /// Returns true for a load at full speed.
    pub fn is_flat_out(&self) -> bool {
        self.rate_pps.is_infinite()
    }

    /// Returns the number of packets due after `nanos`, which never decreases.
    #[inline]
    pub fn due(&self, nanos: u64) -> u64 {
        if self.is_flat_out() {
            return self.packets;
        }
        if nanos >= self.duration_nanos {
            return self.packets;
        }
        let seconds = nanos as f64 / SECOND;
        let due = match self.shape {
            Shape::Constant => (seconds * self.rate_pps) as u64 + 1,
            Shape::Bursts { packets, peak_pps } => {
                let period = packets as f64 / self.rate_pps;
                let bursts = (seconds / period) as u64;
                let within = seconds - bursts as f64 * period;
                // `as` saturates, also for infinity.
                let begun = ((within * peak_pps) as u64).saturating_add(1);
                bursts * packets + begun.min(packets)
            }
            Shape::Day { depth } => {
                let whole = self.duration_nanos as f64 / SECOND;
                let angle = std::f64::consts::TAU * seconds / whole;
                let mean = seconds - depth * whole / std::f64::consts::TAU * angle.sin();
                (mean * self.rate_pps) as u64 + 1
            }
        };
        due.min(self.packets)
    }

    /// Returns the earliest time in nanoseconds since the start at which the packet with this
    /// number (from 0) is due, with the precision of a sleep; for a sender that is idle until then.
    pub fn due_at(&self, packet: u64) -> u64 {
        if self.is_flat_out() {
            return 0;
        }
        let at = match self.shape {
            Shape::Constant => packet as f64 / self.rate_pps,
            Shape::Bursts { packets, peak_pps } => {
                let (burst, within) = (packet / packets, packet % packets);
                burst as f64 * packets as f64 / self.rate_pps + within as f64 / peak_pps
            }
            Shape::Day { .. } => return self.search(packet),
        };
        // `as` saturates.
        ((at * SECOND) as u64).min(self.duration_nanos)
    }

    /// Returns the number of packets of a burst at full speed, if there are such bursts.
    pub fn packets_of_instant_burst(&self) -> Option<u64> {
        match self.shape {
            Shape::Bursts { packets, peak_pps } if peak_pps.is_infinite() => Some(packets),
            _ => None,
        }
    }

    /// Returns the evenly spaced packets from this number on, for about `nanos`.
    pub(super) fn segment(&self, packet: u64, nanos: u64) -> Evenly {
        let rest = self.packets.saturating_sub(packet);
        let first_nanos = self.due_at(packet);
        let at_rate = |rate: f64, most: u64| {
            let gap_nanos = SECOND / rate;
            // `as` saturates.
            let packets = ((nanos as f64 / gap_nanos) as u64).clamp(1, most.max(1));
            Evenly { first_nanos, gap_nanos, packets }
        };
        match self.shape {
            _ if self.is_flat_out() => Evenly { first_nanos, gap_nanos: 0.0, packets: rest },
            Shape::Constant => at_rate(self.rate_pps, rest),
            Shape::Bursts { packets, peak_pps } => {
                at_rate(peak_pps, rest.min(packets - packet % packets))
            }
            Shape::Day { .. } => {
                let span = nanos.min(DAY_STEP_NANOS);
                let packets =
                    self.due(first_nanos + span).saturating_sub(packet).clamp(1, rest.max(1));
                Evenly { first_nanos, gap_nanos: span as f64 / packets as f64, packets }
            }
        }
    }

    /// Finds the earliest time at which more than `packet` packets are due.
    fn search(&self, packet: u64) -> u64 {
        let (mut low, mut high) = (0, self.duration_nanos);
        while high - low > 1_000 {
            let middle = low + (high - low) / 2;
            if self.due(middle) > packet { high = middle } else { low = middle }
        }
        high
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEN: Duration = Duration::from_secs(10);

    fn shapes() -> [Shape; 4] {
        [
            Shape::Constant,
            Shape::Bursts { packets: 50, peak_pps: 100_000.0 },
            Shape::Bursts { packets: 64, peak_pps: f64::INFINITY },
            Shape::Day { depth: 0.8 },
        ]
    }

    #[test]
    fn all_shapes_have_the_same_mean_are_monotonic_and_end() {
        for shape in shapes() {
            let schedule = Schedule::new(1_000.0, TEN, shape);
            assert_eq!(schedule.packets(), 10_000);
            let due: Vec<_> = (0..=10_000).map(|step| schedule.due(step * 1_000_000)).collect();
            assert!(due.is_sorted(), "{shape:?}");
            assert_eq!(due.last(), Some(&10_000), "{shape:?}");
            assert!(due[5_000].abs_diff(5_000) < 100, "{shape:?}: {}", due[5_000]);
        }
    }

    #[test]
    fn packets_are_due_at_their_reported_time() {
        for shape in shapes() {
            let schedule = Schedule::new(1_000.0, TEN, shape);
            for packet in [0, 1, 49, 50, 63, 64, 777, 9_999] {
                let at = schedule.due_at(packet);
                assert!(schedule.due(at + 2_000) > packet, "{shape:?} {packet}");
                assert!(at < 3_000 || schedule.due(at - 3_000) <= packet, "{shape:?} {packet}");
            }
        }
    }

    #[test]
    fn segments_add_up_to_the_schedule() {
        for shape in shapes() {
            let schedule = Schedule::new(100_000.0, TEN, shape);
            let mut packet = 0;
            let mut before = 0.0;
            while packet < schedule.packets() {
                let Evenly { first_nanos, gap_nanos, packets } =
                    schedule.segment(packet, 25_000_000);
                assert!(packets > 0 && gap_nanos * packets as f64 <= 26e6, "{shape:?}");
                assert!(first_nanos as f64 + 3_000.0 >= before, "{shape:?} {packet}");
                for step in [0, packets / 2, packets - 1] {
                    let at = first_nanos as f64 + gap_nanos * step as f64;
                    // As early as in the schedule, to a hundredth of a segment of a day.
                    let due = schedule.due(at as u64 + 60_000);
                    assert!(due > packet + step, "{shape:?} {packet}+{step}: {due}");
                    before = at;
                }
                packet += packets;
            }
            assert_eq!(packet, schedule.packets());
        }
        let flat_out = Schedule::burst(7, TEN).segment(2, 1_000);
        assert_eq!((flat_out.gap_nanos, flat_out.packets), (0.0, 5));
    }

    #[test]
    fn bursts_and_days_have_their_shapes() {
        let bursts =
            Schedule::new(1_000.0, TEN, Shape::Bursts { packets: 100, peak_pps: 1_000_000.0 });
        assert_eq!(bursts.due(100_000), 100);
        assert_eq!(bursts.due(99_000_000), 100);
        let day = Schedule::new(1_000.0, TEN, Shape::Day { depth: 1.0 });
        let night = day.due(1_000_000_000);
        let noon = day.due(5_500_000_000) - day.due(4_500_000_000);
        assert!(noon > 10 * night, "{noon} {night}");
    }

    #[test]
    fn shares_add_up_to_the_whole() {
        for packets in [1_000, 1_001, 1_003] {
            let whole = Schedule::new(f64::from(packets) / 10.0, TEN, Shape::Constant);
            let sum: u64 = (0..4).map(|index| whole.share(index, 4).packets()).sum();
            assert_eq!(sum, whole.packets());
        }
    }

    #[test]
    fn all_packets_are_due_at_once_at_full_speed() {
        let flat_out = Schedule::new(f64::INFINITY, TEN, Shape::Constant);
        assert_eq!((flat_out.due(0), flat_out.packets()), (u64::MAX, u64::MAX));
        assert_eq!(Schedule::burst(7, TEN).due(0), 7);
    }
}
