//! Trials on synthetic machines with a known truth.

use crate::trial::analysis::{compare, difference, pairs_needed};
use crate::trial::block::{Block, Energy, Figure, Pair, Reading, means_after};
use crate::trial::order::{Order, orders};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt as _, SeedableRng as _};
use std::collections::{BTreeMap, VecDeque};

const BLOCK_SECONDS: usize = 60;
const WASHOUT_SECONDS: f64 = 15.0;
const PAIRS: usize = 16;
const TRIALS: u64 = 1_000;

/// The course of the load.
#[derive(Debug, Clone, Copy)]
enum Load {
    /// A day in the time of a trial, with noise.
    Day,
    /// A random walk.
    Walk,
    /// Bursts of some ten seconds.
    Bursts,
    /// A chore of half a minute that a timer starts every other minute, as long as a pair of
    /// blocks.
    Chores,
}

/// Faults of a meter, besides its inertia of 3 s, and of the load.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    /// A sensor in the machine that shows tenths of a watt.
    None,
    /// Figures are 0 to 15 s late, as behind a network.
    Lag,
    /// Steps of 1 W, without noise that would blur them.
    Steps,
    /// The load rises from a tenth to nine tenths, and the machine warms up.
    Drift,
    /// A tenth of the samples is missing, in runs of some seconds.
    Missing,
    /// All of these.
    All,
}

impl Fault {
    fn has(self, other: Self) -> bool {
        self == other || self == Self::All
    }
}

/// A machine second by second.
struct Synthetic {
    random: Xoshiro256PlusPlus,
    load: Load,
    fault: Fault,
    second: usize,
    level: f64,
    burst: usize,
    /// Slowly varying noise of the power, such as of fans.
    slow: f64,
    /// Reading of the meter, which lags.
    shown: f64,
    /// Additional delay of the meter in seconds, and the powers of that time.
    delay: usize,
    late: VecDeque<f64>,
    /// Seconds for which the meter is unavailable.
    away: u32,
}

impl Synthetic {
    fn new(load: Load, fault: Fault, seed: u64) -> Self {
        let random = Xoshiro256PlusPlus::seed_from_u64(seed ^ 0x5eed_0000_0000);
        let delay = if fault.has(Fault::Lag) { (seed % 16) as usize } else { 0 };
        let (second, level, burst, slow, shown) = (0, 0.4, 0, 0.0, 140.0);
        let (late, away) = (VecDeque::new(), 0);
        Self { random, load, fault, second, level, burst, slow, shown, delay, late, away }
    }

    fn uniform(&mut self) -> f64 {
        self.random.random()
    }

    /// Returns a sum of uniform numbers: mean 0, deviation 1.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }

    fn load(&mut self) -> f64 {
        let second = self.second as f64;
        let noise = self.normal();
        let load = match self.load {
            Load::Day => 0.4 + 0.3 * (second / 1_900.0).sin() + 0.05 * noise,
            Load::Walk => {
                self.level = (self.level + 0.01 * noise).clamp(0.05, 0.95);
                self.level
            }
            Load::Bursts => {
                if self.burst == 0 && self.uniform() < 0.02 {
                    self.burst = self.random.random_range(5..25);
                }
                self.burst = self.burst.saturating_sub(1);
                if self.burst > 0 { 0.9 } else { 0.2 + 0.02 * noise }
            }
            Load::Chores => 0.3 + if self.second % 120 < 30 { 0.4 } else { 0.0 } + 0.02 * noise,
        };
        let drift = if self.fault.has(Fault::Drift) {
            0.8 * (second / (2 * PAIRS * BLOCK_SECONDS) as f64) - 0.4
        } else {
            0.0
        };
        (load + drift).clamp(0.0, 1.0)
    }

    /// Adds a second to the counters of a block.
    fn next(&mut self, reading: &mut Reading, effect: f64) {
        let work = self.load();
        self.slow = 0.995 * self.slow + 0.15 * self.normal();
        let drift = if self.fault.has(Fault::Drift) { 0.01 } else { 0.002 } * self.second as f64;
        // More load costs less than in proportion, which a straight line does not explain.
        let power = 100.0 + 90.0 * work.powf(0.8) + self.slow + drift + effect;
        self.late.push_back(power);
        let seen = self.late[self.late.len().saturating_sub(1 + self.delay)];
        if self.late.len() > self.delay {
            self.late.pop_front();
        }
        self.shown += (seen - self.shown) / 3.0;
        self.second += 1;
        reading.seconds += 1.0;
        let energy = reading.energy.get_or_insert_default();
        let steps = self.fault.has(Fault::Steps);
        let noise = if steps { 0.0 } else { 0.5 * self.normal() };
        let step = if steps { 1.0 } else { 0.1 };
        let sample = ((self.shown + noise) / step).round() * step;
        if self.fault.has(Fault::Missing) && self.away == 0 && self.uniform() < 0.025 {
            self.away = self.random.random_range(1..8);
        }
        if self.away > 0 {
            self.away -= 1;
            energy.unmetered_seconds += 1.0;
        } else {
            energy.joules += sample;
            energy.metered_seconds += 1.0;
        }
        *reading.integrals.entry(Figure::Packets).or_default() += work;
    }

    /// Runs a block; repeats a void one.
    fn block(&mut self, effect: f64) -> Block {
        loop {
            if let Some(block) = self.try_block(effect) {
                return block;
            }
        }
    }

    fn try_block(&mut self, effect: f64) -> Option<Block> {
        let begin = BTreeMap::from([(Figure::Packets, 0.0)]);
        let energy = Some(Energy::default());
        let mut now = Reading { energy, integrals: begin, ..Reading::default() };
        let mut readings = vec![now.clone()];
        for _ in 0..BLOCK_SECONDS {
            self.next(&mut now, effect);
            readings.push(now.clone());
        }
        let means = means_after(&readings, WASHOUT_SECONDS)?;
        Some(Block { watts: means.power_watts, work: means.figures[&Figure::Packets] })
    }

    fn pairs(&mut self, orders: &[Order], effect: f64) -> Vec<Pair> {
        let pair = |order: &Order| {
            let mut block = |is_b: bool| self.block(if is_b { effect } else { 0.0 });
            let (first, second) = (block(*order == Order::BFirst), block(*order == Order::AFirst));
            Pair { order: *order, first, second }
        };
        orders.iter().map(pair).collect()
    }
}

/// Runs 1,000 trials: the interval must contain the truth in 93 to 97 % of them, and equal settings
/// may show a difference in at most 6 %. Returns the failures.
fn misses(load: Load, fault: Fault, percent: f64) -> Option<String> {
    // The machine draws some 140 W.
    let effect = -1.4 * percent;
    let (mut held, mut shown) = (0_u32, 0_u32);
    for seed in 1_000_000..1_000_000 + TRIALS {
        let pairs = Synthetic::new(load, fault, seed).pairs(&orders(PAIRS, seed), effect);
        let found = compare(&pairs, Some(Figure::Packets), seed).unwrap().power;
        held += u32::from((found.lower_watts..=found.upper_watts).contains(&effect));
        shown += u32::from(found.is_shown());
    }
    let [held, shown] = [held, shown].map(|count| 100.0 * f64::from(count) / TRIALS as f64);
    let line = format!(
        "{load:?}, {fault:?}, {percent} %: {held:.1} % hold the truth, {shown:.1} % show a difference"
    );
    println!("{line}");
    let holds = (93.0..=97.0).contains(&held) && (percent > 0.0 || shown <= 6.0);
    (!holds).then_some(line)
}

#[test]
fn intervals_hold_the_truth_and_equal_settings_show_no_difference() {
    let all = [(Load::Day, 0.0), (Load::Walk, 0.5), (Load::Bursts, 1.0), (Load::Day, 3.0)];
    let missed: Vec<_> =
        all.into_iter().filter_map(|(load, percent)| misses(load, Fault::All, percent)).collect();
    assert!(missed.is_empty(), "{missed:#?}");
}

#[test]
#[ignore = "takes minutes"]
fn intervals_of_each_load_and_meter_hold_the_truth() {
    use Fault::{All, Drift, Lag, Missing, None, Steps};
    let mut missed = Vec::new();
    for load in [Load::Day, Load::Walk, Load::Bursts] {
        for fault in [None, Lag, Steps, Drift, Missing, All] {
            let all = [0.0, 0.5, 1.0, 3.0].into_iter();
            missed.extend(all.filter_map(|percent| misses(load, fault, percent)));
        }
    }
    assert!(missed.is_empty(), "{missed:#?}");
}

/// Ways to compare two settings in the same number of blocks.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Method {
    /// Wattline's method: random order within pairs, and the randomisation test.
    Trial,
    /// A, B, A, B and so on, judged by regression on setting and work.
    Alternation,
    /// All blocks of A, then all of B, judged by regression on setting and work.
    BeforeAndAfter,
}

/// Returns the interval of the effect by least squares on setting and work, as if the errors of
/// blocks were independent.
fn regression(blocks: &[(bool, Block)]) -> (f64, f64) {
    let centred = |of: &dyn Fn(&(bool, Block)) -> f64| {
        let mean = blocks.iter().map(of).sum::<f64>() / blocks.len() as f64;
        blocks.iter().map(|block| of(block) - mean).collect::<Vec<f64>>()
    };
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let less = |a: &[f64], b: &[f64], share: f64| {
        a.iter().zip(b).map(|(a, b)| a - share * b).collect::<Vec<f64>>()
    };
    let work = centred(&|(_, block)| block.work);
    let without_work = |of: Vec<f64>| less(&of, &work, dot(&of, &work) / dot(&work, &work));
    let setting = without_work(centred(&|(is_b, _)| f64::from(u8::from(*is_b))));
    let watts = without_work(centred(&|(_, block)| block.watts));
    let effect = dot(&setting, &watts) / dot(&setting, &setting);
    let left = less(&watts, &setting, effect);
    let variance = dot(&left, &left) / (blocks.len() - 3) as f64;
    // Student's t of 29 degrees of freedom.
    let half = 2.045 * (variance / dot(&setting, &setting)).sqrt();
    (effect - half, effect + half)
}

/// Returns the interval of one comparison on a machine.
fn interval(method: Method, load: Load, effect: f64, seed: u64) -> (f64, f64) {
    let mut machine = Synthetic::new(load, Fault::None, seed);
    if method == Method::Trial {
        let pairs = machine.pairs(&orders(PAIRS, seed), effect);
        let found = compare(&pairs, Some(Figure::Packets), seed).unwrap().power;
        return (found.lower_watts, found.upper_watts);
    }
    let is_b = |block: usize| match method {
        Method::BeforeAndAfter => block >= PAIRS,
        _ => block % 2 == 1,
    };
    let block = |block| (is_b(block), machine.block(if is_b(block) { effect } else { 0.0 }));
    regression(&(0..2 * PAIRS).map(block).collect::<Vec<_>>())
}

/// Compares the three methods on the same machines. A method is valid if its intervals contain the
/// truth, and the better the more often it shows an existing difference.
#[test]
fn trial_holds_the_truth_and_shows_more_than_its_rivals() {
    const COMPARISONS: u64 = 150;
    for load in [Load::Day, Load::Walk, Load::Bursts, Load::Chores] {
        let judged = [Method::Trial, Method::Alternation, Method::BeforeAndAfter].map(|method| {
            let share = |effect: f64, counts: &dyn Fn((f64, f64)) -> bool| {
                let seeds = 7_300_000..7_300_000 + COMPARISONS;
                let count = seeds.filter(|seed| counts(interval(method, load, effect, *seed)));
                count.count() as f64 / COMPARISONS as f64
            };
            let is_shown = |(lower, upper): (f64, f64)| lower > 0.0 || upper < 0.0;
            let held = share(-1.5, &|(lower, upper)| lower <= -1.5 && upper >= -1.5);
            let power = share(-1.5, &is_shown);
            println!("{load:?}, {method:?}: {held:.2} hold the truth, {power:.2} show 1.5 W");
            (held, power)
        });
        let [trial, alternation, before_and_after] = judged;
        // Two standard errors below 95 %.
        assert!(trial.0 >= 0.91, "{load:?}: {judged:?}");
        assert!(trial.1 >= alternation.1, "{load:?}: {judged:?}");
        assert!(before_and_after.0 < 0.85, "{load:?}: {judged:?}");
    }
}

#[test]
fn recording_predicts_how_many_pairs_a_width_takes() {
    let all: Vec<Order> = orders(30, 5);
    let recorded = Synthetic::new(Load::Day, Fault::None, 7).pairs(&all, 0.0);
    let width = 0.5;
    let needed = pairs_needed(&recorded, width).unwrap();
    let run = Synthetic::new(Load::Day, Fault::None, 8).pairs(&orders(needed, 6), 0.0);
    let found = difference(&run, 1).unwrap();
    let half = (found.upper_watts - found.lower_watts) / 2.0;
    assert!((0.5..2.0).contains(&(half / width)), "{needed} pairs: {half} W");
    assert_eq!((pairs_needed(&recorded, 0.0), pairs_needed(&[], 1.0)), (None, None));
}
