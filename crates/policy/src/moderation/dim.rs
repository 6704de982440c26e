//! Linux's dynamic interrupt moderation (DIM).
//!
//! Source: Linux, lib/dim/net_dim.c and lib/dim/dim.c with include/linux/dim.h, which define the
//! rule; profiles for receiving, with the period counted from events
//! (`DIM_CQ_PERIOD_MODE_START_FROM_EQE`).
//!
//! A sample is 64 interrupts. It is compared with the previous one by bytes, packets and interrupts
//! per time, in this order; only differences of at least 10 % count. While samples improve, the
//! rule steps through five profiles. It turns around when they do not, and parks when it has turned
//! on the spot; a sample that differs ends parking.

use super::Interrupt;
use wattline_units::{Span, Time};

/// Periods of the profiles, in microseconds.
const PROFILES: [u64; 5] = [1, 8, 64, 128, 256];
const FIRST_PROFILE: usize = 1;
const INTERRUPTS_OF_A_SAMPLE: u32 = 64;
/// Number of steps without a rest after which it parks, tired.
const TIRED: u32 = 2 * PROFILES.len() as u32;
/// Smaller relative differences are ignored.
const SIGNIFICANT: f64 = 0.1;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    ParkingOnTop,
    ParkingTired,
    GoingRight,
    GoingLeft,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Better,
    Worse,
    Same,
}

/// Rates per millisecond.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Sample {
    bytes: f64,
    packets: f64,
    interrupts: f64,
}

/// The rule with its position among the profiles.
#[derive(Debug, Clone)]
pub struct Dim {
    profile: usize,
    state: State,
    steps_right: u32,
    steps_left: u32,
    tired: u32,
    previous: Sample,
    since: Option<Time>,
    interrupts: u32,
    packets: u64,
    bytes: u64,
}

impl Default for Dim {
    fn default() -> Self {
        Self {
            profile: FIRST_PROFILE,
            state: State::GoingRight,
            steps_right: 0,
            steps_left: 0,
            tired: 0,
            previous: Sample::default(),
            since: None,
            interrupts: 0,
            packets: 0,
            bytes: 0,
        }
    }
}

impl Dim {
    /// Returns the present period.
    pub fn period(&self) -> Span {
        Span::from_micros(PROFILES[self.profile])
    }

    /// Counts an interrupt; every 64th completes a sample and decides.
    pub fn interrupt(&mut self, seen: &Interrupt) -> Span {
        let Some(since) = self.since else {
            self.since = Some(seen.at);
            return self.period();
        };
        self.interrupts += 1;
        self.packets += u64::from(seen.received);
        self.bytes += u64::from(seen.received_bytes);
        let elapsed = seen.at.since(since).as_seconds() * 1e3;
        if self.interrupts >= INTERRUPTS_OF_A_SAMPLE && elapsed > 0.0 {
            self.decide(Sample {
                bytes: self.bytes as f64 / elapsed,
                packets: self.packets as f64 / elapsed,
                interrupts: f64::from(self.interrupts) / elapsed,
            });
            self.since = Some(seen.at);
            (self.interrupts, self.packets, self.bytes) = (0, 0, 0);
        }
        self.period()
    }

    fn decide(&mut self, sample: Sample) {
        let before = self.state;
        match self.state {
            State::ParkingOnTop => {
                if sample.against(&self.previous) != Verdict::Same {
                    self.leave_parking();
                }
            }
            State::ParkingTired => {
                self.tired = self.tired.saturating_sub(1);
                if self.tired == 0 {
                    self.leave_parking();
                }
            }
            State::GoingRight | State::GoingLeft => {
                if sample.against(&self.previous) != Verdict::Better {
                    self.turn();
                }
                if self.is_on_top() {
                    self.park(State::ParkingOnTop);
                } else {
                    self.step();
                }
            }
        }
        // While parked, the sample at which it parked remains the reference.
        if before != State::ParkingOnTop || self.state != State::ParkingOnTop {
            self.previous = sample;
        }
    }

    fn leave_parking(&mut self) {
        self.state = if self.profile == 0 { State::GoingRight } else { State::GoingLeft };
        self.step();
    }

    fn turn(&mut self) {
        match self.state {
            State::GoingRight => (self.state, self.steps_left) = (State::GoingLeft, 0),
            State::GoingLeft => (self.state, self.steps_right) = (State::GoingRight, 0),
            State::ParkingOnTop | State::ParkingTired => {}
        }
    }

    /// Returns true if it has just turned back from a step after several steps: this is the
    /// optimum.
    fn is_on_top(&self) -> bool {
        match self.state {
            State::GoingRight => self.steps_left > 1 && self.steps_right == 1,
            State::GoingLeft => self.steps_right > 1 && self.steps_left == 1,
            State::ParkingOnTop | State::ParkingTired => true,
        }
    }

    fn step(&mut self) {
        if self.tired == TIRED {
            return self.park(State::ParkingTired);
        }
        match self.state {
            State::GoingRight if self.profile + 1 == PROFILES.len() => {
                return self.park(State::ParkingOnTop);
            }
            State::GoingLeft if self.profile == 0 => return self.park(State::ParkingOnTop),
            State::GoingRight => {
                self.profile += 1;
                self.steps_right += 1;
            }
            State::GoingLeft => {
                self.profile -= 1;
                self.steps_left += 1;
            }
            State::ParkingOnTop | State::ParkingTired => {}
        }
        self.tired += 1;
    }

    fn park(&mut self, state: State) {
        (self.steps_right, self.steps_left) = (0, 0);
        if state == State::ParkingOnTop {
            self.tired = 0;
        }
        self.state = state;
    }
}

impl Sample {
    fn against(&self, earlier: &Self) -> Verdict {
        let more = |now: f64, then: f64| match () {
            () if then == 0.0 && now > 0.0 => Some(Verdict::Better),
            () if then == 0.0 => None,
            () if ((now - then) / then).abs() <= SIGNIFICANT => None,
            () if now > then => Some(Verdict::Better),
            () => Some(Verdict::Worse),
        };
        // The kernel stops comparing if the previous value was zero.
        if earlier.bytes == 0.0 || earlier.packets == 0.0 {
            let first = more(self.bytes, earlier.bytes).or(more(self.packets, earlier.packets));
            return first.unwrap_or(Verdict::Same);
        }
        let moved = more(self.bytes, earlier.bytes).or(more(self.packets, earlier.packets));
        let fewer = || match more(self.interrupts, earlier.interrupts) {
            Some(Verdict::Worse) => Verdict::Better,
            Some(_) if earlier.interrupts > 0.0 => Verdict::Worse,
            _ => Verdict::Same,
        };
        moved.unwrap_or_else(fewer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Bench {
        dim: Dim,
        at: Time,
    }

    impl Bench {
        fn new() -> Self {
            let mut bench = Self { dim: Dim::default(), at: Time::ZERO };
            bench.dim.interrupt(&Interrupt { at: bench.at, ..Interrupt::default() });
            bench
        }

        /// Passes a sample with so many interrupts and packets of 100 bytes per millisecond.
        fn sample(&mut self, interrupts: f64, packets: f64) -> (usize, State) {
            let length = Span::from_seconds(64.0 / interrupts / 1e3);
            let packets = (packets * 64.0 / interrupts).round() as u32;
            for number in 0..64 {
                self.at += length / 64;
                let received = packets / 64 + u32::from(number < packets % 64);
                let seen = Interrupt {
                    at: self.at,
                    received,
                    received_bytes: received * 100,
                    ..Interrupt::default()
                };
                self.dim.interrupt(&seen);
            }
            (self.dim.profile, self.dim.state)
        }
    }

    #[test]
    fn better_samples_lead_on_to_the_edge_where_it_parks() {
        let mut bench = Bench::new();
        assert_eq!(bench.dim.period(), Span::from_micros(8));
        assert_eq!(bench.sample(100.0, 100.0), (2, State::GoingRight));
        assert_eq!(bench.sample(50.0, 100.0), (3, State::GoingRight), "fewer interrupts");
        assert_eq!(bench.sample(25.0, 100.0), (4, State::GoingRight));
        assert_eq!(bench.sample(12.0, 100.0), (4, State::ParkingOnTop), "the edge");
        assert_eq!(bench.sample(12.5, 100.0), (4, State::ParkingOnTop), "5 % are no difference");
        assert_eq!(bench.sample(12.0, 50.0), (3, State::GoingLeft), "half the packets are");
    }

    #[test]
    fn turning_back_over_the_top_parks_there() {
        let mut bench = Bench::new();
        bench.sample(100.0, 100.0);
        assert_eq!(bench.sample(50.0, 200.0), (3, State::GoingRight));
        assert_eq!(bench.sample(50.0, 100.0), (2, State::GoingLeft), "worse: turned, one step");
        assert_eq!(bench.sample(50.0, 200.0), (2, State::ParkingOnTop), "better, and on top");
    }

    #[test]
    fn constant_turning_tires() {
        let mut bench = Bench::new();
        let mut tired = false;
        for _ in 0..12 {
            // Constant samples: every step is followed by a turn.
            tired |= bench.sample(50.0, 100.0).1 == State::ParkingTired;
        }
        assert!(tired, "{:?}", bench.dim);
        let before = bench.dim.profile;
        let mut left = false;
        for _ in 0..12 {
            left |= bench.sample(50.0, 100.0).0 != before;
        }
        assert!(left, "it rests for as long as it walked, then goes on");
    }

    #[test]
    fn fewer_than_64_interrupts_decide_nothing() {
        let mut dim = Dim::default();
        for micros in 0..64 {
            let at = Time::ZERO + Span::from_micros(micros);
            dim.interrupt(&Interrupt {
                at,
                received: 9,
                received_bytes: 900,
                ..Interrupt::default()
            });
        }
        assert_eq!(dim.period(), Span::from_micros(8));
    }
}
