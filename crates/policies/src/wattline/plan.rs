//! Finds the cheapest operating point that meets the requirements, by a closed form.

use super::constants::*;
use super::machine::{At, Machine};

/// Requirements on an operating point.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Requirements {
    /// Packets per second that the point has to carry.
    pub need: f64,
    /// Packets per second for which its energy counts.
    pub mean: f64,
    /// Variance of arrivals over their mean. It applies to queues, unless the recent peak is
    /// carried, and to interrupts, since one interrupt wakes a core for a whole train.
    pub dispersion: f64,
    /// Seconds that a packet may spend in queue and core, and the part of them for naps.
    pub slack: f64,
    /// Ports, whose queues a core serves in turn.
    pub ports: usize,
    /// Minimum number of cores.
    pub floor: usize,
    /// Packets that all rings of a core hold.
    pub ring: f64,
    /// True if less than the highest rate is carried, and some packets wait.
    pub waits: bool,
    /// The rise that the point has to withstand until the policy reacts.
    pub rise: Rise,
}

/// A possible rise.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Rise {
    /// Possible rate in packets per second after a sudden rise.
    pub rate: f64,
    /// Highest rate of rises so far, in packets per second, or the capacity of all cores if there
    /// was none.
    pub known: f64,
    /// Packets that the rise may make late.
    pub late: f64,
    /// Seconds for a change of frequency, and for each added core.
    pub transition: f64,
    pub step: f64,
}

impl Requirements {
    /// Returns true if a plan for these requirements holds for `other`, which requires no more and
    /// only little less.
    pub fn covers(&self, other: &Self) -> bool {
        // Values for which higher means stricter. Dispersion is known less exactly.
        let strictness = |of: &Self| {
            let Rise { rate, known, late, step, .. } = of.rise;
            let dispersion = of.dispersion.max(1.0).powf(SAME / TRUSTED);
            [of.need, of.mean, dispersion, -of.slack, -of.ring, rate, known, -late, step]
        };
        let little_less = |(plan, now): (f64, f64)| {
            plan == now || (now < plan && plan - now <= SAME * plan.abs())
        };
        (self.floor, self.waits) == (other.floor, other.waits)
            && strictness(self).into_iter().zip(strictness(other)).all(little_less)
    }

    /// Returns the dispersion that queues see: a carried peak already contains the variation within
    /// the slack.
    fn in_queues(&self) -> f64 {
        if self.waits { 1.0 } else { self.dispersion }
    }
}

/// An operating point with its expected power and capacity.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Choice {
    pub cores: usize,
    pub frequency: usize,
    /// Timed sleep in seconds; `None` for interrupts.
    pub nap: Option<f64>,
    /// Deepest idle state of active cores.
    pub idle: usize,
    /// Deepest idle state of the parked cores that a rise needs, and their number. The others sleep
    /// as deep as they can.
    pub parked: usize,
    pub ready: usize,
    /// Watts of the whole machine at the mean rate.
    pub watts: f64,
    pub capacity: f64,
}

/// Limits that keep the late packets of a rise within the allowance.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Guard {
    /// The longest nap in seconds.
    pub nap: f64,
    /// Deepest idle state of the parked cores that a rise needs at once, and their number.
    pub parked: usize,
    pub ready: usize,
}

impl Machine {
    /// Returns the point of least power, or all cores at the fastest frequency if no point carries
    /// the load. For each number of cores it tries the slowest frequency that meets the
    /// requirements, and two above it; the search ends at a point whose work alone draws more than
    /// the best so far.
    pub fn choose(&self, required: &Requirements) -> Choice {
        let mut best: Option<Choice> = None;
        for cores in required.floor.clamp(1, self.cores)..=self.cores {
            let carries = |f: &usize| self.capacity(cores, *f) * MOST_LOAD >= required.need;
            let mut met = 0;
            for frequency in (self.usable.0..=self.usable.1).filter(carries) {
                let work = self.work_watts(cores, frequency, required);
                if met > 2 || best.is_some_and(|best| work > best.watts) {
                    break;
                }
                let Some(choice) = self.evaluate((cores, frequency), required) else { continue };
                met += 1;
                if best.is_none_or(|best| choice.watts < best.watts) {
                    best = Some(choice);
                }
            }
        }
        best.unwrap_or_else(|| self.everything(required))
    }

    /// Returns the power in watts of the work alone: a lower bound for the point.
    fn work_watts(&self, cores: usize, frequency: usize, required: &Requirements) -> f64 {
        let awake = (required.mean * self.service(cores, frequency)).min(cores as f64);
        let any = 1.0 - (1.0 - awake / cores as f64).powi(cores as i32);
        self.base + awake * self.awake[frequency] + any * self.uncore[frequency]
    }

    /// Returns all cores at the fastest frequency, awake at the first packet.
    pub fn everything(&self, required: &Requirements) -> Choice {
        self.at_full_speed(f64::INFINITY, self.cores, required)
    }

    /// Returns the fewest cores that carry a rate at the fastest frequency, but at least `least`.
    pub fn at_full_speed(&self, rate: f64, least: usize, required: &Requirements) -> Choice {
        let cores = self.fewest(rate, least.max(required.floor));
        let (at, guard) = ((cores, self.usable.1), self.no_guard());
        self.point(at, self.nap_seconds(at, guard.nap, required), guard, required)
    }

    /// Returns the number of cores that carry a rate at the fastest frequency, at least `least`;
    /// all if none suffices.
    pub fn fewest(&self, rate: f64, least: usize) -> usize {
        let carries = |cores: &usize| self.capacity(*cores, self.usable.1) * MOST_LOAD >= rate;
        (least..=self.cores).find(carries).unwrap_or(self.cores)
    }

    fn no_guard(&self) -> Guard {
        Guard { nap: f64::INFINITY, parked: self.idle.len() - 1, ready: 0 }
    }

    /// Evaluates a point with its naps. Returns `None` if packets would still be late, or if a rise
    /// would make too many late.
    pub fn evaluate(&self, at: At, required: &Requirements) -> Option<Choice> {
        let wait = self.wake[at.1] + self.service(at.0, at.1) + self.delivery;
        if self.tail(at, 0.0, required) + wait > required.slack {
            return None;
        }
        let guard = self.guard(at, self.wake[at.1], required)?;
        // Without a timer a core sleeps until the next packet, or between trains.
        let interrupted = self.point(at, None, guard, required);
        let Some(nap) = self.nap_seconds(at, guard.nap, required) else {
            let gap = at.0 as f64 / required.mean.max(1.0);
            return (guard.nap >= self.shortest_nap(at.1).min(gap)).then_some(interrupted);
        };
        let napping = self.point(at, Some(nap), guard, required);
        Some(if interrupted.watts < napping.watts { interrupted } else { napping })
    }

    /// Returns the power in watts of the cores that are not active.
    fn parked_watts(&self, cores: usize, guard: Guard) -> f64 {
        let deep = self.cores - cores - guard.ready;
        let deepest = self.idle.last().map_or(0.0, |state| state.0);
        guard.ready as f64 * self.idle[guard.parked].0 + deep as f64 * deepest
    }

    /// Returns the packets that the rings hold in addition to those that wait by plan: none wait at
    /// a point that serves even the highest rate, otherwise they fill half of the rings.
    fn room(&self, (cores, frequency): At, required: &Requirements) -> f64 {
        let rings = required.ring * cores as f64;
        let serves_all = self.capacity(cores, frequency) * MOST_LOAD >= required.rise.rate;
        if required.waits && !serves_all { rings / 2.0 } else { rings }
    }

    /// Returns the shortest timed nap: in shorter ones, waking up takes more than a third of the
    /// time.
    fn shortest_nap(&self, frequency: usize) -> f64 {
        2.0 * self.wake[frequency]
    }

    /// Returns the longest timed sleep of at most `most` seconds that keeps the budget and
    /// overfills no ring. Returns `None` if interrupts wake a core less often than the timer would.
    fn nap_seconds(&self, at: At, most: f64, required: &Requirements) -> Option<f64> {
        let (cores, frequency) = at;
        let wake = self.wake[frequency];
        let left = required.slack - wake - self.service(cores, frequency);
        let rings = USABLE * self.room(at, required);
        let most = left.min(rings / required.rise.rate.max(1.0) - wake).min(most);
        let shortest = self.shortest_nap(frequency);
        if most <= shortest || required.mean / cores as f64 * most < 1.0 {
            return None;
        }
        // The tail grows with the nap, so bisection finds it.
        let fits = |nap: f64| self.tail(at, nap, required) <= left;
        if fits(most) {
            return Some(most);
        }
        let (mut low, mut high) = (0.0, most);
        while high - low > LATE * most {
            let middle = f64::midpoint(low, high);
            if fits(middle) { low = middle } else { high = middle }
        }
        (low > shortest).then_some(low)
    }

    /// Returns the waiting time that 99 of 100 packets do not exceed if a core sleeps for `nap`
    /// whenever its queues are empty: an M/G/1 queue with vacations of fixed length, in heavy
    /// traffic, P(W > t) = ρ e^(-θt) (e^(θT) - 1) / (θT) with θ = 2 (1 - ρ) / (ρ s c²), and the
    /// turns of the core's other ports. At low load the formula's tail ends before the nap does.
    fn tail(&self, (cores, frequency): At, nap: f64, required: &Requirements) -> f64 {
        let service = self.service(cores, frequency);
        let each = required.need / cores as f64;
        let load = (each * service).clamp(f64::EPSILON, MOST_LOAD);
        let theta = 2.0 * (1.0 - load) / (load * service * batch(cores, required.in_queues()));
        let x = theta * nap;
        let growth = if x <= f64::EPSILON { 0.0 } else { x + (-(-x).exp_m1()).ln() - x.ln() };
        let wait = ((load / LATE).ln() + growth) / theta;
        // A turn serves at most the arrivals of a nap.
        let turns = ((required.ports - 1) as f64 * f64::from(BATCH)).min(each * nap);
        wait.max(nap * (1.0 - LATE)) + turns * service
    }

    fn point(&self, at: At, nap: Option<f64>, guard: Guard, required: &Requirements) -> Choice {
        let (cores, frequency) = at;
        let (service, wake) = (self.service(cores, frequency), self.wake[frequency]);
        let (each, all) = (required.mean / cores as f64, cores as f64);
        let load = (each * service).min(1.0);
        // With interrupts, a nap lasts until the next packet, or the next train.
        let gap = nap.unwrap_or(batch(cores, required.dispersion) / each.max(1.0) + self.delivery);
        let awake_watts = self.awake[frequency];
        let room = MOST_LOAD * required.slack - wake - service - self.delivery;
        let joules = |k: usize| self.idle[k].0 * gap + self.idle[k].1 * awake_watts;
        // A timed nap is shortened by the exit; one that an interrupt ends is not.
        let fits = |k: &usize| *k == 0 || self.idle[*k].1 + nap.unwrap_or(0.0) <= room;
        let states = (0..self.idle.len()).filter(fits);
        let idle = states.min_by(|a, b| joules(*a).total_cmp(&joules(*b))).unwrap_or(0);
        let cycles = (1.0 - load) / (gap + wake);
        let awake = (load + cycles * wake).min(1.0);
        let any = 1.0 - (1.0 - awake).powi(cores as i32);
        let watts = self.base
            + self.parked_watts(cores, guard)
            + all * (awake * awake_watts + cycles * joules(idle))
            + any * self.uncore[frequency];
        let Guard { parked, ready, .. } = guard;
        Choice { cores, frequency, nap, idle, parked, ready, watts, capacity: all / service }
    }

    /// Returns the limits with these active cores; `None` if no limit suffices. A rise comes while
    /// cores sleep for up to `wake` and a nap. The first core that wakes detects it. Then all cores
    /// take part, but packets of a flow wait until the earlier ones have left. So the last packet
    /// before the change waits longest, and all packets that arrive until it has left wait, too.
    pub fn guard(&self, at: At, wake: f64, required: &Requirements) -> Option<Guard> {
        let (cores, frequency) = at;
        let Rise { rate, late, transition, step, .. } = required.rise;
        let fastest = self.usable.1;
        let rate = rate.min(self.most() * MOST_LOAD);
        let transition = if frequency == fastest { 0.0 } else { transition };
        if rate <= required.need || self.capacity(cores, fastest) * MOST_LOAD >= rate {
            // A higher frequency suffices: no flow has to move.
            return Some(self.no_guard());
        }
        let deepest = self.idle.len() - 1;
        // The machine performs one step after the other.
        let steps = step * (self.cores - cores + 1) as f64;
        let lost = wake + transition + steps;
        let others = (self.cores - cores) as f64 / self.cores as f64;
        let room = required.slack + late / (rate * others) - lost;
        // The rings hold the arrivals of the nap, and the excess until the other cores take part.
        let grows = rate - self.capacity(cores, fastest);
        let held = self.room(at, required);
        let rings = |k: usize| (held - grows * (transition + steps + self.idle[k].1)) / rate - wake;
        let parked = (0..=deepest).rev().find(|k| self.idle[*k].1 <= room && rings(*k) > 0.0)?;
        let until_served = lost + self.idle[parked].1 + required.slack;
        if steps > 0.0 && grows * until_served > USABLE * held {
            return None;
        }
        let queues = (cores * required.ports) as f64;
        let planned = required.mean * required.slack / queues;
        let seen = notice(planned, required.in_queues() / cores as f64) * queues;
        let work = rate / cores as f64 * self.service(self.cores, fastest);
        let seen_within = (delay(required.slack, late / rate) - lost) / work.max(1.0) - seen / rate;
        // Cores nap at different times. Usually the first wakes within twice the mean time to the
        // first wake-up, which is nap / (cores + 1).
        let naps = if cores == 1 { 1.0 } else { (cores + 1) as f64 / 2.0 };
        let nap = (seen_within * naps).min(rings(parked));
        // A slow machine wakes no second group of cores within a rise.
        let ready = match parked {
            _ if parked == deepest => 0,
            _ if steps > 0.0 => self.cores - cores,
            _ => self.fewest(required.rise.known, cores) - cores,
        };
        (nap > 0.0).then_some(Guard { nap, parked, ready })
    }
}

/// Returns the packets that arrive at a core at once: a burst spreads over the cores.
fn batch(cores: usize, dispersion: f64) -> f64 {
    1.0 + (dispersion - 1.0).max(0.0) / cores as f64
}

/// Returns the longest delay `D` in seconds that a rise may cause, if `late` seconds of its packets
/// may be late. The rise comes at a random moment of a nap, so the delay is uniform between 0 and
/// `D`; delays above the slack make (D - slack)^2 / 2 D seconds of packets late on average.
fn delay(slack: f64, late: f64) -> f64 {
    let most = slack + late;
    if late <= 0.0 { most } else { most + (most * most - slack * slack).sqrt() }
}

/// Returns the packets beyond the planned ones that chance does not explain.
pub(super) fn notice(planned: f64, dispersion: f64) -> f64 {
    DEVIATIONS * (1.0 + (planned * dispersion.max(1.0)).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::server;
    use wattline_policy::testing::westmere;
    use wattline_server::Application;

    fn machine() -> Machine {
        let model = server();
        let cost = model.packet_cost(Application::Ipv4, 64).unwrap();
        Machine::new(&westmere(), Some((&model, cost)))
    }

    fn required(mpps: f64, late: f64) -> Requirements {
        let rise = Rise { rate: 10e6, known: 10e6, late, transition: 10e-6, step: 0.0 };
        Requirements {
            need: mpps * 1e6,
            mean: mpps * 1e6,
            dispersion: 1.0,
            slack: 93e-6,
            ports: 4,
            floor: 1,
            ring: 2048.0,
            waits: false,
            rise,
        }
    }

    /// Requirements without a rise to withstand.
    fn calm(mpps: f64) -> Requirements {
        let required = required(mpps, 0.0);
        Requirements { rise: Rise { rate: 0.0, ..required.rise }, ..required }
    }

    #[test]
    fn cheapest_point_that_carries_the_load_is_chosen() {
        let machine = machine();
        // Trains need capacity beyond the rate: then few fast cores may be cheaper than many slow
        // ones.
        for (dispersion, slack) in [(1.0, 93e-6), (100.0, 93e-6), (300.0, 43e-6)] {
            let mut before = 0.0;
            for mpps in [0.01, 0.5, 1.0, 4.0, 8.0, 12.0, 16.0, 20.0, 24.0] {
                let required = Requirements { dispersion, slack, ..calm(mpps) };
                let choice = machine.choose(&required);
                assert!(choice.capacity * MOST_LOAD >= mpps * 1e6, "{mpps}: {choice:?}");
                assert!(choice.watts >= before, "{mpps}: {choice:?}");
                before = choice.watts;
                let all = (1..=12).flat_map(|cores| (0..14).map(move |f| (cores, f)));
                for (cores, frequency) in all {
                    if machine.capacity(cores, frequency) * MOST_LOAD < mpps * 1e6 {
                        continue;
                    }
                    let Some(other) = machine.evaluate((cores, frequency), &required) else {
                        continue;
                    };
                    // With bursts, a nap grows with capacity, beyond the tried frequencies.
                    let near = if dispersion > 1.0 { 0.005 } else { 0.0 };
                    let least = choice.watts * (1.0 - near);
                    assert!(other.watts >= least, "{dispersion} {mpps}: {choice:?} {other:?}");
                }
            }
        }
        // Beyond the capacity of the machine: everything.
        assert_eq!(machine.choose(&calm(40.0)).cores, 12);
    }

    /// Results of the simulator for s = 0.5 us and T = 50 us: 51.0 us at load 0.8, 53.2 at 0.9.
    #[test]
    fn tail_is_that_of_a_queue_with_vacations() {
        let machine = machine();
        let service = machine.service(1, 0);
        for (load, wait) in [(0.8, 51.0e-6), (0.9, 53.2e-6)] {
            let required = Requirements { need: load / service, ports: 1, ..calm(1.0) };
            let tail = machine.tail((1, 0), 50e-6, &required);
            assert!((tail / wait - 1.0).abs() < 0.03, "{load}: {tail}");
        }
    }

    #[test]
    fn turns_of_other_ports_are_waited_for() {
        let machine = machine();
        let tail = |ports| machine.tail((2, 5), 50e-6, &Requirements { ports, ..calm(1.0) });
        let turns = machine.service(2, 5) * f64::from(BATCH);
        assert!((tail(2) - tail(1) - turns).abs() < 1e-9, "{} {}", tail(1), tail(2));
    }

    #[test]
    fn dispersion_within_the_slack_is_in_a_carried_peak() {
        let machine = machine();
        let tail = |waits, dispersion| {
            machine.tail((4, 5), 20e-6, &Requirements { waits, dispersion, ..calm(4.0) })
        };
        assert_eq!(tail(true, 50.0), tail(true, 1.0));
        assert!(tail(false, 50.0) > tail(false, 1.0));
    }

    #[test]
    fn timed_nap_fits_the_budget_and_the_rings() {
        let machine = machine();
        let nap = |required: &Requirements| machine.nap_seconds((4, 5), f64::INFINITY, required);
        let left =
            |required: &Requirements| required.slack - machine.wake[5] - machine.service(4, 5);
        let light = Requirements { slack: 190e-6, ports: 1, ..calm(1.0) };
        assert_eq!(nap(&light), Some(left(&light)), "all of the slack");
        // With trains, the queue adds to the nap.
        let need = 0.8 * machine.capacity(4, 5);
        let busy = Requirements { need, dispersion: 60.0, ..light };
        let busy_nap = nap(&busy).unwrap();
        assert!(
            machine.tail((4, 5), busy_nap, &busy) <= left(&busy) && busy_nap < 0.9 * left(&busy)
        );
        // The rings of four cores hold 1,024 packets: some 70 us of a rise to 10 Mpps.
        let rise = Requirements { ring: 256.0, ..required(1.0, 0.0) };
        let rise = Requirements { slack: 190e-6, ..rise };
        let held = USABLE * 4.0 * 256.0 / rise.rise.rate;
        assert!((nap(&rise).unwrap() + machine.wake[5] - held).abs() < 1e-9);
        // One packet per millisecond wakes a core less often than a timer.
        assert_eq!(nap(&Requirements { slack: 190e-6, ..calm(1e-3) }), None);
    }

    #[test]
    fn idle_state_is_the_cheapest_that_fits_the_budget() {
        let machine = machine();
        let idle = |slack: f64, nap: Option<f64>| {
            let required = Requirements { slack, ..calm(1e-4) };
            machine.point((1, 0), nap, machine.no_guard(), &required).idle
        };
        assert_eq!(idle(990e-6, Some(800e-6)), 2);
        assert_eq!(idle(990e-6, Some(950e-6)), 0, "no deeper state ends in time");
        // The next packet comes in 10 ms, and may not wait for C6.
        assert_eq!((idle(190e-6, None), idle(43e-6, None)), (2, 0));
    }

    /// At 5 Mpps, three cores that wake for each packet hardly sleep; trains of 512 leave them
    /// gaps.
    #[test]
    fn interrupts_are_cheaper_where_packets_come_in_trains() {
        let machine = machine();
        let guard = machine.no_guard();
        let watts = |dispersion: f64, nap: Option<f64>| {
            let required = Requirements { dispersion, ..calm(5.0) };
            machine.point((3, 13), nap, guard, &required).watts
        };
        let (alone, trains) = (watts(1.0, None), watts(512.0, None));
        assert!(trains < alone - 5.0, "{trains} {alone}");
        let timer = Some(100e-6);
        assert_eq!(watts(1.0, timer), watts(512.0, timer), "a timer wakes as often");
    }

    /// Timed naps end once a slack, interrupts once a train.
    #[test]
    fn trains_are_waited_for_by_interrupts() {
        let machine = machine();
        let naps = |dispersion: f64| {
            let required = Requirements { dispersion, waits: true, slack: 43e-6, ..calm(5.0) };
            machine.choose(&required).nap
        };
        assert!(naps(1.0).is_some() && naps(512.0).is_none());
    }

    #[test]
    fn half_of_the_rings_is_kept_for_packets_that_wait() {
        let machine = machine();
        let room = |waits, mpps: f64| {
            let required = required(4.0, 0.0);
            let rise = Rise { rate: mpps * 1e6, ..required.rise };
            let required = Requirements { waits, rise, ..required };
            machine.room((3, 13), &required)
        };
        // Three fast cores serve 10 Mpps.
        assert_eq!(
            (room(true, 9.0), room(true, 11.0), room(false, 11.0)),
            (6144.0, 3072.0, 6144.0)
        );
    }

    /// Compared with the mean over moments at which the leap comes.
    #[test]
    fn no_more_packets_are_late_on_average_than_allowed() {
        assert_eq!((delay(90e-6, 0.0), delay(90e-6, -10e-6)), (90e-6, 80e-6));
        for late in [1e-6, 10e-6, 100e-6, 1e-3] {
            let most = delay(90e-6, late);
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
        let machine = machine();
        let nap = |cores, late| {
            let guard = machine.guard((cores, 0), machine.wake[0], &required(1.0, late));
            guard.map_or(0.0, |guard| guard.nap)
        };
        // One core: 10 Mpps x 0.42 us are 4.2 s of work a second, which has to fit into 78 us, less
        // the 11 us that a leap takes to show in one of four queues.
        assert!((7e-6..8e-6).contains(&nap(1, 0.0)), "{}", nap(1, 0.0));
        assert!(nap(2, 0.0) > 2.0 * nap(1, 0.0) && nap(1, 400.0) > nap(1, 0.0));
        assert!(nap(1, -400.0) < nap(1, 0.0), "an overdrawn account makes it shorter");
        assert_eq!(nap(5, 0.0), f64::INFINITY, "five fast ones carry it: nothing has to move");
        // Parked cores are awake within the slack: C6 takes 87 us.
        let parked = |slack: f64| {
            let required = Requirements { slack, ..required(1.0, 0.0) };
            machine.guard((2, 13), machine.wake[13], &required).map(|guard| guard.parked)
        };
        assert_eq!((parked(93e-6), parked(80e-6), parked(30e-6)), (Some(2), Some(1), Some(0)));
    }

    /// Within 50 us, a leap to 10 Mpps needs four fast cores at once. Two are active.
    #[test]
    fn only_as_many_cores_sleep_lightly_as_a_leap_needs() {
        let machine = machine();
        let ready = |rise: Rise| {
            let required = Requirements { slack: 43e-6, rise, ..required(1.0, 0.0) };
            let guard = machine.guard((2, 0), machine.wake[0], &required).unwrap();
            (guard.parked, guard.ready)
        };
        let rise = required(1.0, 0.0).rise;
        assert_eq!(ready(rise), (0, 2));
        assert_eq!(ready(Rise { known: 8e6, ..rise }), (0, 1), "none was as high");
        assert_eq!(ready(Rise { known: 40e6, ..rise }), (0, 10), "all of them: nothing is known");
        let slow = Requirements { rise: Rise { step: 0.05e-6, ..rise }, ..required(1.0, 0.0) };
        let slow = Requirements { slack: 60e-6, ..slow };
        let guard = machine.guard((2, 0), machine.wake[0], &slow).unwrap();
        assert_eq!((guard.parked, guard.ready), (0, 10), "no second group wakes in time");
    }

    /// Neither a long budget nor an allowance of late packets permits lost ones: the arrivals of a
    /// nap, and until parked cores are awake, fit into the rings.
    #[test]
    fn nap_is_no_longer_than_the_rings_allow() {
        let machine = machine();
        let leap = Rise { rate: 25e6, ..required(1.0, 1e5).rise };
        let long = Requirements { slack: 490e-6, rise: leap, ..required(1.0, 1e5) };
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
    fn slow_machine_keeps_as_many_cores_as_a_leap_needs() {
        let machine = machine();
        let fewest = |step: f64, late: f64| {
            let with = required(1.0, late);
            let with = Requirements { rise: Rise { step, ..with.rise }, ..with };
            (1..=12).find(|cores| machine.guard((*cores, 0), machine.wake[0], &with).is_some())
        };
        assert_eq!(fewest(0.0, 0.0), Some(1));
        assert_eq!(fewest(50e-6, 0.0), Some(4), "four carry it at the highest frequency");
        assert_eq!(fewest(2e-6, 0.0), Some(1));
        // An allowance of many late packets permits no lost one: in 0.8 ms one core serves 2,500 of
        // 8,000 packets, and its rings hold 2,048. Two serve 5,000 of 7,500.
        assert_eq!(fewest(50e-6, 1e6), Some(2));
    }

    #[test]
    fn plan_covers_a_little_less_and_nothing_more() {
        let planned = required(1.0, 100.0);
        assert!(planned.covers(&planned));
        let with = |change: fn(&mut Requirements)| {
            let mut other = planned;
            change(&mut other);
            planned.covers(&other)
        };
        assert!(with(|required| required.need *= 0.99) && !with(|required| required.need *= 1.001));
        assert!(!with(|required| required.need *= 0.97), "a cheaper one may be found");
        assert!(with(|required| required.slack *= 1.01));
        assert!(!with(|required| required.slack *= 0.999));
        assert!(with(|required| required.rise.late += 1.0));
        assert!(!with(|required| required.rise.late -= 1.0));
        assert!(!with(|required| required.floor = 2));
        assert!(!with(|required| required.rise.step = 1e-6));
    }
}
