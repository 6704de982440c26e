//! The cheapest operating point that keeps the budget, by a closed form.

use super::leap::{Guard, RING_SHARE};
use super::machine::Machine;
use super::requirements::{MOST_LOAD, Requirements};

/// Share of the rings that may be full of what comes faster than the carried rate.
pub(super) const BACKLOG_IN_RINGS: f64 = 0.5;
/// Share of packets that may be late.
pub(super) const LATE: f64 = 0.01;
/// Packets of a batch. It is small, so that the ports of a core take short turns and the packet that
/// waits longest is served soon.
pub(super) const BATCH: u32 = 8;
/// Among points whose power exceeds the least by at most this share, the one with most capacity is
/// taken.
const TIE: f64 = 0.001;
/// For each number of cores, the search evaluates the slowest frequency that carries the load, and so
/// many above it.
const FASTER: usize = 3;
/// The shortest nap by timer, as a multiple of the time to wake up. In shorter naps, waking takes more
/// than a third of the time, and a core had better stay awake.
const WAKES_OF_A_NAP: f64 = 2.0;

/// An operating point with its expected power and capacity.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Choice {
    pub cores: usize,
    pub frequency: usize,
    /// Timed sleep in seconds; none for interrupts.
    pub nap: Option<f64>,
    /// Cores never sleep.
    pub polls: bool,
    /// Deepest idle state of active cores.
    pub idle: usize,
    /// Deepest idle state of the parked cores that a leap needs, and their number. The others sleep as
    /// deep as they can.
    pub parked: usize,
    pub ready: usize,
    /// Watts of the whole machine at the mean rate.
    pub watts: f64,
    pub capacity: f64,
}

impl Machine {
    /// The point of least power, or one of nearly its power with most capacity. All cores at the fastest
    /// frequency where no point carries the load. `found` is scratch space.
    pub fn choose(&self, required: &Requirements, found: &mut Vec<Choice>) -> Choice {
        found.clear();
        self.each(required, found);
        let least = found.iter().map(|choice| choice.watts).fold(f64::INFINITY, f64::min);
        let near = found.iter().filter(|choice| choice.watts <= least * (1.0 + TIE));
        let best = near.max_by(|a, b| a.capacity.total_cmp(&b.capacity));
        best.copied().unwrap_or_else(|| self.everything(required))
    }

    /// Highest number of points that [`Self::choose`] evaluates.
    pub fn points(&self) -> usize {
        self.cores * (FASTER + 1)
    }

    /// Evaluates points. It leaves out a point whose work alone draws more than the best so far does in
    /// total.
    fn each(&self, required: &Requirements, found: &mut Vec<Choice>) {
        let (lowest, fastest) = self.usable;
        let mut least = f64::INFINITY;
        for cores in required.floor.clamp(1, self.cores)..=self.cores {
            let carries = |f: &usize| self.capacity(cores, *f) * MOST_LOAD >= required.need;
            let Some(slowest) = (lowest..=fastest).find(carries) else { continue };
            let Some(first) = self.first_that_meets(cores, (slowest, fastest), least, required)
            else {
                continue;
            };
            for frequency in first..=(first + FASTER).min(fastest) {
                if self.work_watts(cores, frequency, required) > least * (1.0 + TIE) {
                    continue;
                }
                if let Some(choice) = self.evaluate(cores, frequency, required) {
                    least = least.min(choice.watts);
                    found.push(choice);
                }
            }
        }
    }

    /// The slowest frequency between two, by index, at which so many cores meet the requirements: a
    /// faster one meets them, too. `None` where there is none of less than `least` watts.
    fn first_that_meets(
        &self,
        cores: usize,
        (slowest, fastest): (usize, usize),
        least: f64,
        required: &Requirements,
    ) -> Option<usize> {
        let meets = |f: usize| self.evaluate(cores, f, required).is_some();
        let is_dear = |f: usize| self.work_watts(cores, f, required) > least * (1.0 + TIE);
        if meets(slowest) {
            return Some(slowest);
        }
        let (mut below, mut first) = (slowest, fastest);
        if is_dear(slowest) || !meets(fastest) {
            return None;
        }
        while first - below > 1 {
            let middle = usize::midpoint(below, first);
            if is_dear(middle) || meets(middle) { first = middle } else { below = middle }
        }
        Some(first)
    }

    /// Power in watts of the work alone, without naps and wake-ups: a lower bound for the point.
    fn work_watts(&self, cores: usize, frequency: usize, required: &Requirements) -> f64 {
        let awake = (required.mean * self.service(cores, frequency)).min(cores as f64);
        let any = 1.0 - (1.0 - awake / cores as f64).powi(cores as i32);
        self.base + awake * self.awake[frequency] + any * self.uncore[frequency]
    }

    /// All cores at the fastest frequency, awake at the first packet.
    pub fn everything(&self, required: &Requirements) -> Choice {
        self.at_full_speed(f64::INFINITY, self.cores, required)
    }

    /// The fewest cores that carry a rate at the fastest frequency, but at least `least`, as a point.
    pub fn at_full_speed(&self, rate: f64, least: usize, required: &Requirements) -> Choice {
        let frequency = self.usable.1;
        let cores = self.fewest(rate, least.max(required.floor));
        let parked = self.idle.len().saturating_sub(1);
        let guard = Guard { nap: f64::INFINITY, parked, ready: 0 };
        let nap = self.nap_seconds(cores, frequency, guard.nap, required);
        self.point(cores, frequency, nap, guard, required)
    }

    /// The fewest cores that carry a rate at the fastest frequency, but at least `least`; all where none do.
    pub fn fewest(&self, rate: f64, least: usize) -> usize {
        let carries = |cores: &usize| self.capacity(*cores, self.usable.1) * MOST_LOAD >= rate;
        (least..=self.cores).find(carries).unwrap_or(self.cores)
    }

    /// Watts of a point under another load.
    pub fn watts(&self, choice: &Choice, required: &Requirements) -> f64 {
        let guard = Guard { nap: f64::INFINITY, parked: choice.parked, ready: choice.ready };
        self.point(choice.cores, choice.frequency, choice.nap, guard, required).watts
    }

    /// Evaluates a point with its naps, or without any where only that keeps the budget. `None` where
    /// packets would be late even so, or where a leap would make too many late.
    pub fn evaluate(
        &self,
        cores: usize,
        frequency: usize,
        required: &Requirements,
    ) -> Option<Choice> {
        self.napping(cores, frequency, required).or_else(|| {
            if self.polls && required.polls {
                self.polling(cores, frequency, required)
            } else {
                None
            }
        })
    }

    /// Cores that never sleep draw more at the same point. But no packet waits for one to wake up, so
    /// they may be so slow, or so few, that they are busy most of the time.
    fn polling(&self, cores: usize, frequency: usize, required: &Requirements) -> Option<Choice> {
        let service = self.service(cores, frequency);
        if self.tail(cores, frequency, 0.0, required) + service > required.slack {
            return None;
        }
        let guard = self.guard((cores, frequency), 0.0, required)?;
        let watts = self.base
            + self.parked_watts(cores, guard)
            + cores as f64 * self.awake[frequency]
            + self.uncore[frequency];
        Some(Choice {
            cores,
            frequency,
            nap: None,
            polls: true,
            idle: 0,
            parked: guard.parked,
            ready: guard.ready,
            watts,
            capacity: cores as f64 / service,
        })
    }

    fn napping(&self, cores: usize, frequency: usize, required: &Requirements) -> Option<Choice> {
        let service = self.service(cores, frequency);
        let wait = self.wake[frequency] + service + self.delivery;
        if self.tail(cores, frequency, 0.0, required) + wait > required.slack {
            return None;
        }
        let guard = self.guard((cores, frequency), self.wake[frequency], required)?;
        let nap = self.nap_seconds(cores, frequency, guard.nap, required);
        // Without a timer a core sleeps until the next packet.
        let gap = cores as f64 / required.mean.max(1e-3);
        if nap.is_none() && guard.nap < self.shortest_nap(frequency).min(gap) {
            return None;
        }
        let napping = self.point(cores, frequency, nap, guard, required);
        if nap.is_none() {
            return Some(napping);
        }
        // Between trains an interrupt lets a core sleep for longer than a timer may.
        let interrupted = self.point(cores, frequency, None, guard, required);
        Some(if interrupted.watts < napping.watts { interrupted } else { napping })
    }

    /// Power in watts of the cores that are not active.
    fn parked_watts(&self, cores: usize, guard: Guard) -> f64 {
        let watts = |state: Option<&(f64, f64)>| state.map_or(0.0, |state| state.0);
        let deep = self.cores - cores - guard.ready;
        guard.ready as f64 * watts(self.idle.get(guard.parked))
            + deep as f64 * watts(self.idle.last())
    }

    /// Packets that the rings of these cores hold beside those that wait by plan. At a point that serves
    /// even the highest rate none do.
    pub fn room(&self, cores: usize, frequency: usize, required: &Requirements) -> f64 {
        let rings = required.ring * cores as f64;
        let serves_all = self.capacity(cores, frequency) * MOST_LOAD >= required.surprise;
        if required.waits && !serves_all { (1.0 - BACKLOG_IN_RINGS) * rings } else { rings }
    }

    /// Shorter naps are mostly waking up.
    fn shortest_nap(&self, frequency: usize) -> f64 {
        WAKES_OF_A_NAP * self.wake[frequency]
    }

    /// The longest timed sleep of at most `most` seconds that keeps the budget and overfills no ring.
    /// `None` where interrupts wake a core less often than the timer would.
    fn nap_seconds(
        &self,
        cores: usize,
        frequency: usize,
        most: f64,
        required: &Requirements,
    ) -> Option<f64> {
        let wake = self.wake[frequency];
        let left = required.slack - wake - self.service(cores, frequency);
        let rings = RING_SHARE * self.room(cores, frequency, required);
        let rings = rings / required.surprise.max(1.0) - wake;
        let most = left.min(rings).min(most);
        let mean = required.mean / cores as f64;
        let shortest = self.shortest_nap(frequency);
        if most <= shortest || mean * most < 1.0 {
            return None;
        }
        // The tail grows with the nap, so bisection finds it.
        let fits = |nap: f64| self.tail(cores, frequency, nap, required) <= left;
        if fits(most) {
            return Some(most);
        }
        let (mut low, mut high) = (0.0, most);
        for _ in 0..8 {
            let middle = 0.5 * (low + high);
            if fits(middle) { low = middle } else { high = middle }
        }
        (low > shortest).then_some(low)
    }

    /// The wait that 99 of 100 packets do not exceed when a core sleeps for `nap` whenever its
    /// queues are empty: an M/G/1 queue with vacations of fixed length, in heavy traffic,
    /// P(W > t) = ρ e^(-θt) (e^(θT) - 1) / (θT) with θ = 2 (1 - ρ) / (ρ s c²).
    /// The turns of the core's other ports come on top.
    fn tail(&self, cores: usize, frequency: usize, nap: f64, required: &Requirements) -> f64 {
        let turns = (required.ports - 1) as f64 * f64::from(BATCH);
        // A turn serves at most what comes in a nap.
        let turns = turns.min(required.need / cores as f64 * nap);
        self.queue_tail(cores, frequency, nap, required) + turns * self.service(cores, frequency)
    }

    fn queue_tail(&self, cores: usize, frequency: usize, nap: f64, required: &Requirements) -> f64 {
        let service = self.service(cores, frequency);
        let load = (required.need * service / cores as f64).clamp(1e-6, MOST_LOAD);
        let theta = 2.0 * (1.0 - load) / (load * service * batch(cores, required.dispersion));
        let x = theta * nap;
        // ln((e^x - 1) / x), without overflow.
        let growth = if x < 1e-6 { 0.5 * x } else { x + (-(-x).exp()).ln_1p() - x.ln() };
        let wait = ((load / LATE).ln() + growth) / theta;
        // At low load the formula's tail ends before the nap does.
        wait.max(nap * (1.0 - LATE))
    }

    fn point(
        &self,
        cores: usize,
        frequency: usize,
        nap: Option<f64>,
        guard: Guard,
        required: &Requirements,
    ) -> Choice {
        let (service, wake) = (self.service(cores, frequency), self.wake[frequency]);
        let each = required.mean / cores as f64;
        let load = (each * service).min(1.0);
        // Interrupts: a nap lasts until the next packet, or the next batch of them, as far as batches
        // count.
        let gap = nap.unwrap_or(batch(cores, required.trains) / each.max(1e-3) + self.delivery);
        let awake_watts = self.awake[frequency];
        let room = 0.9 * required.slack - wake - service - self.delivery;
        let of = |k: usize| {
            let (watts, exit) = self.idle[k];
            (watts * gap + exit * awake_watts, k)
        };
        let fits = |k: &usize| {
            // A nap by timer is that much shorter; one that an interrupt ends is not.
            *k == 0 || (self.idle[*k].1 + nap.unwrap_or(0.0) <= room)
        };
        let states = (0..self.idle.len()).filter(fits).map(of);
        let (nap_joules, idle) = states.min_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or((0.0, 0));
        let cycles = (1.0 - load) / (gap + wake);
        let awake = (load + cycles * wake).min(1.0);
        let all = cores as f64;
        let any = 1.0 - (1.0 - awake).powi(cores as i32);
        let (parked, ready) = (guard.parked, guard.ready);
        let watts = self.base
            + self.parked_watts(cores, guard)
            + all * (awake * awake_watts + cycles * nap_joules)
            + any * self.uncore[frequency];
        let capacity = all / service;
        Choice { cores, frequency, nap, polls: false, idle, parked, ready, watts, capacity }
    }
}

/// Packets that come to a core at once, by the dispersion: a burst spreads over the cores.
fn batch(cores: usize, dispersion: f64) -> f64 {
    1.0 + (dispersion - 1.0).max(0.0) / cores as f64
}

#[cfg(test)]
mod tests {
    use super::super::requirements::Leap;
    use super::*;
    use crate::platform::tests::westmere;
    use crate::policies::testing::server;
    use wattline_server::Application;

    fn required(mpps: f64) -> Requirements {
        Requirements {
            need: mpps * 1e6,
            mean: mpps * 1e6,
            dispersion: 1.0,
            trains: 1.0,
            ports: 4,
            slack: 93e-6,
            floor: 1,
            ring: 2048.0,
            waits: false,
            surprise: mpps * 2e6,
            leap: Leap {
                rate: 0.0,
                late: 0.0,
                transition: 10e-6,
                burst: 0.0,
                step: 0.0,
                known: 0.0,
            },
            polls: true,
        }
    }

    #[test]
    fn takes_what_carries_and_no_dearer_point() {
        let model = server();
        let cost = model.packet_cost(Application::Ipv4, 64).unwrap();
        let machine = Machine::new(&westmere(), Some((&model, cost)));
        // Trains need capacity beyond the rate: then few fast cores may be cheaper than many slow ones.
        for (dispersion, slack) in [(1.0, 93e-6), (100.0, 93e-6), (300.0, 43e-6)] {
            let mut before = 0.0;
            for mpps in [0.01, 0.5, 1.0, 4.0, 8.0, 12.0, 16.0, 20.0, 24.0] {
                let required = Requirements { dispersion, slack, ..required(mpps) };
                let choice = machine.choose(&required, &mut Vec::new());
                assert!(choice.capacity * MOST_LOAD >= mpps * 1e6, "{mpps}: {choice:?}");
                // Of points that are nearly the cheapest, the one of most capacity is taken.
                let near = if dispersion > 1.0 { TIE } else { 0.0 };
                assert!(choice.watts >= before * (1.0 - near), "{mpps}: {choice:?}");
                before = choice.watts;
                let all = (1..=12).flat_map(|cores| (0..14).map(move |f| (cores, f)));
                for (cores, frequency) in all {
                    if machine.capacity(cores, frequency) * MOST_LOAD < mpps * 1e6 {
                        continue;
                    }
                    let Some(other) = machine.evaluate(cores, frequency, &required) else {
                        continue;
                    };
                    // With bursts, a nap grows with capacity, beyond the frequencies that are tried.
                    let near = if dispersion > 1.0 { 0.01 } else { 2.0 * TIE };
                    let least = choice.watts * (1.0 - near);
                    assert!(other.watts >= least, "{dispersion} {mpps}: {choice:?} {other:?}");
                }
            }
        }
        // More than everything carries: everything.
        assert_eq!(machine.choose(&required(40.0), &mut Vec::new()).cores, 12);
    }

    /// Figures of the simulator for s = 0.5 us and T = 50 us: 51.0 us at load 0.8, 53.2 at 0.9.
    #[test]
    fn the_tail_is_that_of_a_queue_with_vacations() {
        let model = server();
        let cost = model.packet_cost(Application::Ipv4, 64).unwrap();
        let machine = Machine::new(&westmere(), Some((&model, cost)));
        let service = machine.service(1, 0);
        for (load, wait) in [(0.8, 51.0e-6), (0.9, 53.2e-6)] {
            let required = Requirements { need: load / service, ..required(1.0) };
            let tail = machine.queue_tail(1, 0, 50e-6, &required);
            assert!((tail / wait - 1.0).abs() < 0.03, "{load}: {tail}");
        }
    }

    /// At 5 Mpps, three cores that wake for each packet hardly sleep; trains of 512 leave them gaps.
    #[test]
    fn interrupts_are_cheaper_where_packets_come_in_trains() {
        let model = server();
        let cost = model.packet_cost(Application::Ipv4, 64).unwrap();
        let machine = Machine::new(&westmere(), Some((&model, cost)));
        let guard = Guard { nap: f64::INFINITY, parked: 2, ready: 0 };
        let watts = |dispersion: f64, nap: Option<f64>| {
            let required = Requirements { trains: dispersion, ..required(5.0) };
            machine.point(3, 13, nap, guard, &required).watts
        };
        let (alone, trains) = (watts(1.0, None), watts(512.0, None));
        assert!(trains < alone - 5.0, "{trains} {alone}");
        let timer = Some(100e-6);
        assert_eq!(watts(1.0, timer), watts(512.0, timer), "a timer wakes as often");
    }

    /// Timed naps end once a slack, interrupts once a train.
    #[test]
    fn trains_are_waited_for_by_interrupts() {
        let model = server();
        let cost = model.packet_cost(Application::Ipv4, 64).unwrap();
        let machine = Machine::new(&westmere(), Some((&model, cost)));
        let naps = |trains: f64| {
            let required = Requirements { trains, slack: 43e-6, ..required(5.0) };
            machine.choose(&required, &mut Vec::new()).nap
        };
        assert!(naps(1.0).is_some() && naps(512.0).is_none());
    }

    #[test]
    fn room_is_kept_for_what_waits_and_none_where_all_is_served() {
        let model = server();
        let cost = model.packet_cost(Application::Ipv4, 64).unwrap();
        let machine = Machine::new(&westmere(), Some((&model, cost)));
        let room = |waits, mpps: f64| {
            let required = Requirements { waits, surprise: mpps * 1e6, ..required(4.0) };
            machine.room(3, 13, &required)
        };
        // Three fast cores serve 10 Mpps.
        assert_eq!(
            (room(true, 9.0), room(true, 11.0), room(false, 11.0)),
            (6144.0, 3072.0, 6144.0)
        );
    }
}
