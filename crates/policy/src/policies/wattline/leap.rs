//! Limits naps so that a sudden leap of load makes few packets late.
//!
//! A leap comes while cores sleep. The first core that wakes sees it. Then all cores take part, but
//! packets that came before stay in the queues of the few active cores. Later packets of the same
//! flows wait until those have left, so that flows stay in order. So the last packet before the
//! change waits longest, and all packets that come until it has left wait, too.

use super::machine::Machine;
use super::requirements::{Leap, MOST_LOAD, Requirements};

/// Share of the rings that a nap may fill, and a leap until slow steps are over: they are not filled
/// evenly.
pub(super) const RING_SHARE: f64 = 0.7;

/// Share of the late packets that are paid for, which may wait for cores in their deepest state.
const OF_THOSE_THAT_WAKE: f64 = 0.2;

/// Limits within which a leap makes no more packets late than allowed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Guard {
    /// The longest nap in seconds.
    pub nap: f64,
    /// Deepest idle state of the parked cores that a leap needs at once.
    pub parked: usize,
    /// Number of these cores. The others sleep as deep as they can.
    pub ready: usize,
}

impl Machine {
    /// The limits with these active cores; `None` where no limit is enough.
    /// `wake` is what a napping core takes to wake up; zero for one that polls.
    pub fn guard(
        &self,
        (cores, frequency): (usize, usize),
        wake: f64,
        required: &Requirements,
    ) -> Option<Guard> {
        let deepest = self.idle.len().saturating_sub(1);
        let fastest = self.usable.1;
        let Leap { rate, late, transition, step, .. } = required.leap;
        let rate = rate.min(self.capacity(self.cores, fastest) * MOST_LOAD);
        let transition = if frequency == fastest { 0.0 } else { transition };
        if rate <= required.need || self.capacity(cores, fastest) * MOST_LOAD >= rate {
            // A higher frequency is enough: no flow has to move.
            return Some(Guard { nap: f64::INFINITY, parked: deepest, ready: 0 });
        }
        // Time until the packets from before the change have left. The allowed late packets make it
        // longer.
        // The machine takes one step after the other.
        let steps = step * (self.cores - cores + 1) as f64;
        let until = until(required.slack, late / rate) - wake - transition - steps;
        let others = (self.cores - cores) as f64 / self.cores as f64;
        let room = required.slack + late / (rate * others) - wake - transition - steps;
        // The rings of the active cores hold what comes while these nap and wake up, and then what
        // they do not serve until the others take part.
        let grows = rate - self.capacity(cores, fastest);
        let held = self.room(cores, frequency, required);
        let rings = |parked: usize| {
            (held - grows * (transition + steps + self.idle[parked].1)) / rate - wake
        };
        let parked = (0..=deepest).rev().find(|k| self.idle[*k].1 <= room && rings(*k) > 0.0)?;
        if steps > 0.0 {
            // And until what came before the change has left.
            let seconds = steps + transition + wake + self.idle[parked].1 + required.slack;
            if grows * seconds > RING_SHARE * held {
                return None;
            }
        }
        let work = rate / cores as f64 * self.service(self.cores, fastest);
        let seen_within = until / work.max(1.0) - notice_seconds(cores, rate, required);
        // Cores nap at different times. The first of them mostly wakes within twice the mean time to
        // the first wake-up, which is nap / (cores + 1).
        let all = if cores == 1 { 1.0 } else { 0.5 * (cores + 1) as f64 };
        let nap = (seen_within * all).min(rings(parked));
        let ready = if parked == deepest { 0 } else { self.ready(cores, required) };
        (nap > 0.0).then_some(Guard { nap, parked, ready })
    }

    /// Parked cores that carry a leap as high as those before, together with the active ones. What they
    /// cannot carry goes to the others, which have to leave their deepest state.
    fn ready(&self, cores: usize, required: &Requirements) -> usize {
        let all = self.cores - cores;
        if required.leap.step > 0.0 {
            // A machine that takes its time wakes no second group within a leap.
            return all;
        }
        let enough = |ready: &usize| {
            let late = self.late_while_waking(cores + ready, required);
            late <= OF_THOSE_THAT_WAKE * required.leap.late.max(0.0)
        };
        (0..all).find(enough).unwrap_or(all)
    }

    /// Packets of a leap that are late when so many cores are awake and all others leave their deepest
    /// state; infinite where they would be lost. Of `R` packets per second the awake cores carry all
    /// but a share `s`. Those that wake take `E` seconds, and then are busy for a share `q` of their
    /// time. A packet that comes `x` seconds after the leap waits for `E - x (1 - q)`, so
    /// `s R (E - slack) / (1 - q)` packets are late.
    fn late_while_waking(&self, awake: usize, required: &Requirements) -> f64 {
        let Leap { rate, known, transition, .. } = required.leap;
        let fastest = self.usable.1;
        let exit = self.idle.last().map_or(0.0, |state| state.1) + self.wake[fastest] + transition;
        let carried = self.capacity(awake, fastest);
        if (rate - carried) * exit > RING_SHARE * required.ring * awake as f64 {
            return f64::INFINITY;
        }
        let rest = (known - carried * MOST_LOAD).max(0.0);
        let wake = (self.cores - awake) as f64 / self.cores as f64;
        let load = rest / (self.capacity(self.cores, fastest) * wake);
        match load {
            _ if rest == 0.0 => 0.0,
            load if load < MOST_LOAD => rest * (exit - required.slack).max(0.0) / (1.0 - load),
            _ => f64::INFINITY,
        }
    }
}

/// The longest delay `D` in seconds that a leap may cause, if `late` seconds of its packets may be late.
/// A leap comes at a random moment of a nap, so the delay is uniform between 0 and `D`. Delays above
/// the slack make packets late; on average, these are (D - slack)^2 / 2 D seconds.
fn until(slack: f64, late: f64) -> f64 {
    if late <= 0.0 {
        return slack + late;
    }
    let most = slack + late;
    most + (most * most - slack * slack).sqrt()
}

/// Seconds until a leap to this rate shows in a queue.
fn notice_seconds(cores: usize, rate: f64, required: &Requirements) -> f64 {
    let queues = (cores * required.ports) as f64;
    let planned = required.mean * required.slack / queues;
    (notice(planned, required.dispersion / cores as f64) * queues + required.leap.burst) / rate
}

/// Packets beyond the planned ones that chance does not explain: five standard deviations, and four
/// packets for small numbers.
pub(super) fn notice(planned: f64, dispersion: f64) -> f64 {
    4.0 + 5.0 * (planned * dispersion.max(1.0)).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::tests::westmere;
    use crate::policies::testing::server;
    use wattline_server::Application;

    fn required(late: f64) -> Requirements {
        Requirements {
            need: 1e6,
            mean: 1e6,
            dispersion: 1.0,
            trains: 1.0,
            slack: 93e-6,
            ports: 4,
            floor: 1,
            ring: 2048.0,
            waits: false,
            surprise: 10e6,
            leap: Leap { rate: 10e6, late, transition: 10e-6, burst: 0.0, step: 0.0, known: 10e6 },
            polls: true,
        }
    }

    /// Against the mean over moments at which the leap comes.
    #[test]
    fn on_average_no_more_are_late_than_allowed() {
        assert_eq!((until(90e-6, 0.0), until(90e-6, -10e-6)), (90e-6, 80e-6));
        for late in [1e-6, 10e-6, 100e-6, 1e-3] {
            let most = until(90e-6, late);
            let moments = 10_000;
            let of = |moment: i32| {
                let held = most * (f64::from(moment) + 0.5) / f64::from(moments);
                (held - 90e-6).max(0.0)
            };
            let mean = (0..moments).map(of).sum::<f64>() / f64::from(moments);
            assert!((mean / late - 1.0).abs() < 1e-3, "{late}: {mean}");
        }
    }

    #[test]
    fn more_cores_and_late_packets_that_are_paid_for_allow_longer_naps() {
        let model = server();
        let cost = model.packet_cost(Application::Ipv4, 64).unwrap();
        let machine = Machine::new(&westmere(), Some((&model, cost)));
        let nap = |cores, late| {
            let guard = machine.guard((cores, 0), machine.wake[0], &required(late));
            guard.map_or(0.0, |guard| guard.nap)
        };
        // One core: 10 Mpps x 0.42 us are 4.2 s of work a second, which has to fit into 78 us, less
        // the 11 us that a leap takes to show in one of four queues.
        assert!((7e-6..8e-6).contains(&nap(1, 0.0)), "{}", nap(1, 0.0));
        assert!(nap(2, 0.0) > 2.0 * nap(1, 0.0) && nap(1, 400.0) > nap(1, 0.0));
        assert!(nap(1, -400.0) < nap(1, 0.0), "an overdrawn account makes it shorter");
        assert_eq!(nap(5, 0.0), f64::INFINITY, "five fast ones carry it: nothing has to move");
        // Parked cores are there within the slack: C6 takes 87 us.
        let parked = |slack: f64| {
            let required = Requirements { slack, ..required(0.0) };
            machine.guard((2, 13), machine.wake[13], &required).map(|guard| guard.parked)
        };
        assert_eq!((parked(93e-6), parked(80e-6), parked(30e-6)), (Some(2), Some(1), Some(0)));
    }

    /// Within 50 us, a leap to 10 Mpps needs four fast cores at once. Two are active.
    #[test]
    fn only_as_many_cores_sleep_lightly_as_a_leap_needs() {
        let model = server();
        let cost = model.packet_cost(Application::Ipv4, 64).unwrap();
        let machine = Machine::new(&westmere(), Some((&model, cost)));
        let ready = |leap: Leap| {
            let required = Requirements { slack: 43e-6, leap, ..required(0.0) };
            let guard = machine.guard((2, 0), machine.wake[0], &required).unwrap();
            (guard.parked, guard.ready)
        };
        let leap = required(0.0).leap;
        assert_eq!(ready(leap), (0, 2));
        assert_eq!(ready(Leap { known: 8e6, ..leap }), (0, 1), "none was as high");
        assert_eq!(ready(Leap { known: 40e6, ..leap }), (0, 10), "all of them: nothing is known");
        assert_eq!(ready(Leap { late: 200.0, ..leap }).1, 1, "40 packets may wait for C6");
    }

    /// A long budget, and an account that pays for late packets, pay for no lost one: what comes in a
    /// nap and until parked cores are awake fits into the rings.
    #[test]
    fn a_nap_is_no_longer_than_the_rings_allow() {
        let model = server();
        let cost = model.packet_cost(Application::Ipv4, 64).unwrap();
        let machine = Machine::new(&westmere(), Some((&model, cost)));
        let leap = Leap { rate: 25e6, ..required(1e5).leap };
        let long = Requirements { slack: 490e-6, leap, ..required(1e5) };
        for cores in 1..=6 {
            let guard = machine.guard((cores, 0), machine.wake[0], &long).unwrap();
            let idle = machine.idle[guard.parked].1 + leap.transition;
            let come = leap.rate * (guard.nap + machine.wake[0] + idle);
            let served = machine.capacity(cores, 13) * idle;
            let held = 2048.0 * cores as f64;
            assert!(come - served <= held * 1.001, "{cores}: {come} less {served}");
            assert!(come - served > 0.5 * held, "no shorter than that: {cores}: {guard:?}");
        }
    }

    /// 12 steps of 50 us take 0.6 ms, in which 10 Mpps fill the rings of one core.
    #[test]
    fn a_machine_that_takes_its_time_keeps_as_many_cores_as_a_leap_needs() {
        let model = server();
        let cost = model.packet_cost(Application::Ipv4, 64).unwrap();
        let machine = Machine::new(&westmere(), Some((&model, cost)));
        let fewest = |step: f64, late: f64| {
            let with = required(late);
            let with = Requirements { leap: Leap { step, ..with.leap }, ..with };
            (1..=12).find(|cores| machine.guard((*cores, 0), machine.wake[0], &with).is_some())
        };
        assert_eq!(fewest(0.0, 0.0), Some(1));
        assert_eq!(fewest(50e-6, 0.0), Some(4), "four carry it at the highest frequency");
        assert_eq!(fewest(2e-6, 0.0), Some(1));
        // An account of many packets pays for late ones, and for no lost one: in 0.8 ms one core serves
        // 2,500 of 8,000 packets, and its rings hold 2,048. Two serve 5,000 of 7,500.
        assert_eq!(fewest(50e-6, 1e6), Some(2));
    }
}
