//! A trial from its first block to its last: the next setting, the end or repetition of a block,
//! and the end of the trial. It can be stored and resumed between two pairs.

use crate::trial::analysis::{Comparison, TooFewPairs, compare, pairs_needed};
use crate::trial::block::{Block, Figure, Means, Meter, Pair, Reading, between, means_after};
use crate::trial::order::{Order, orders};
use serde::{Deserialize, Serialize};

/// Share of a block that is left out at its start.
const WASHOUT: f64 = 0.25;
/// Averaging time of a limit; half a block if that is shorter.
const LIMIT_SECONDS: f64 = 10.0;
/// Void blocks in a row that end the trial.
const MOST_VOID: u32 = 3;

/// The setting of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Setting {
    /// The first of the two.
    A,
    /// The second.
    B,
}

/// Everything that distinguishes two trials.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Design {
    /// Name of the first setting.
    pub a: String,
    /// Name of the second.
    pub b: String,
    /// A number that differs if the contents of a setting do.
    pub settings: u64,
    /// Versions of the compared programs and of the kernel.
    pub versions: Vec<String>,
    /// Name of the counter of work, if there is one.
    pub counter: Option<String>,
    /// Number of pairs of blocks.
    pub pairs: usize,
    /// Length of a block, washout included.
    pub block_seconds: f64,
}

impl Design {
    /// Returns the time left out at the start of a block.
    pub fn washout_seconds(&self) -> f64 {
        WASHOUT * self.block_seconds
    }
}

/// Limits at which a trial ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// Share of time in which some task may wait for a CPU.
    pub pressure: f64,
    /// 99th percentile of the latency in seconds.
    pub latency_seconds: Option<f64>,
}

/// A limit that was passed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Passed {
    /// The limited figure.
    pub figure: Figure,
    /// Its mean over the last seconds.
    pub mean: f64,
    /// The limit.
    pub limit: f64,
}

/// The course of a block.
#[derive(Debug, Clone, Default)]
pub struct Course {
    readings: Vec<Reading>,
}

/// State of a block after a reading.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum State {
    /// The block goes on.
    GoesOn,
    /// Its time is over.
    Over,
    /// The trial must end.
    Passed(Passed),
}

impl Course {
    /// Takes a reading.
    pub fn take(&mut self, reading: Reading, design: &Design, limits: Limits) -> State {
        let over = reading.seconds >= design.block_seconds;
        self.readings.push(reading);
        match self.passed(design, limits) {
            Some(passed) => State::Passed(passed),
            None if over => State::Over,
            None => State::GoesOn,
        }
    }

    /// Returns its means; `None` if the meter was away for too long.
    pub fn means(&self, design: &Design) -> Option<Means> {
        means_after(&self.readings, design.washout_seconds())
    }

    /// Returns all pairs of neighbouring blocks that fit into the recording, starting about every
    /// second, to show how much blocks differ under one setting.
    fn pairs(&self, design: &Design) -> Vec<[Means; 2]> {
        let (block, washout) = (design.block_seconds, design.washout_seconds());
        let means = |from: f64| {
            let place = |seconds: f64| self.readings.partition_point(|it| it.seconds < seconds);
            let (first, last) = (place(from + washout), place(from + block));
            between(self.readings.get(first)?, self.readings.get(last)?)
        };
        let begins = self.readings.iter().map(|reading| reading.seconds);
        begins.filter_map(|from| Some([means(from)?, means(from + block)?])).collect()
    }

    fn passed(&self, design: &Design, limits: Limits) -> Option<Passed> {
        let last = self.readings.last()?;
        let window = LIMIT_SECONDS.min(design.block_seconds / 2.0);
        let first = self.readings.iter().rfind(|it| it.seconds <= last.seconds - window)?;
        let mean = |figure| {
            let (now, then) = (last.integrals.get(&figure)?, first.integrals.get(&figure)?);
            Some((now - then) / (last.seconds - first.seconds))
        };
        let limits =
            [(Figure::Pressure, Some(limits.pressure)), (Figure::Latency, limits.latency_seconds)];
        limits.into_iter().find_map(|(figure, limit)| {
            let (mean, limit) = (mean(figure)?, limit?);
            (mean > limit).then_some(Passed { figure, mean, limit })
        })
    }
}

/// A trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Experiment {
    /// Compared settings, and lengths.
    pub design: Design,
    /// Seed of the order.
    seed: u64,
    /// Meters of the power, as of the first block.
    pub meter: Option<Meter>,
    /// Blocks of complete pairs, in the order in which they ran.
    pairs: Vec<[Means; 2]>,
    /// Blocks that were void.
    pub void_blocks: u32,
    /// First block of an incomplete pair.
    #[serde(skip)]
    open: Option<Means>,
    #[serde(skip)]
    void_in_a_row: u32,
}

/// Effect of an ended block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// A pair is complete: a good moment to store the trial.
    Pair,
    /// The second block of the pair comes next.
    HalfPair,
    /// The block is void, and its pair is repeated.
    Repeats,
    /// Too many blocks in a row are void.
    GivesUp,
}

impl Experiment {
    /// Creates a trial. The seed determines the order of its blocks.
    pub fn new(design: Design, seed: u64) -> Self {
        let (pairs, meter, open) = (Vec::new(), None, None);
        Self { design, seed, meter, pairs, void_blocks: 0, open, void_in_a_row: 0 }
    }

    /// Returns the setting of the next block; `None` after the last.
    pub fn next(&self) -> Option<Setting> {
        let orders = orders(self.design.pairs, self.seed);
        let order = orders.get(self.pairs.len())?;
        let a_now = (*order == Order::AFirst) == self.open.is_none();
        Some(if a_now { Setting::A } else { Setting::B })
    }

    /// Returns the number of complete pairs.
    pub fn pairs(&self) -> usize {
        self.pairs.len()
    }

    /// Adds an ended block, with the meters of its power; `None` for a block without means. Blocks
    /// of a pair are neighbours, so a void block voids its pair.
    pub fn finish(&mut self, block: Option<(Means, Meter)>) -> Progress {
        let same = |meter: &Meter| self.meter.as_ref().is_none_or(|first| first == meter);
        let Some((means, meter)) = block.filter(|(_, meter)| same(meter)) else {
            self.open = None;
            self.void_blocks += 1;
            self.void_in_a_row += 1;
            let many = self.void_in_a_row >= MOST_VOID;
            return if many { Progress::GivesUp } else { Progress::Repeats };
        };
        self.void_in_a_row = 0;
        self.meter = Some(meter);
        match self.open.take() {
            Some(first) => {
                self.pairs.push([first, means]);
                Progress::Pair
            }
            None => {
                self.open = Some(means);
                Progress::HalfPair
            }
        }
    }

    /// Returns the difference that the pairs show.
    ///
    /// # Errors
    /// [`TooFewPairs`].
    pub fn result(&self) -> Result<Comparison, TooFewPairs> {
        let work = work(&self.pairs);
        let orders = orders(self.design.pairs, self.seed);
        let pair = |(order, blocks): (Order, &[Means; 2])| pair_of(order, blocks, work);
        let pairs: Vec<Pair> = orders.into_iter().zip(&self.pairs).map(pair).collect();
        compare(&pairs, work, self.seed)
    }

    /// Returns the means of all blocks of a setting.
    pub fn means(&self, setting: Setting) -> Means {
        let orders = orders(self.design.pairs, self.seed);
        let of = |(order, blocks): (Order, &'_ [Means; 2])| {
            let second = (order == Order::AFirst) == (setting == Setting::B);
            blocks[usize::from(second)].clone()
        };
        let blocks: Vec<Means> = orders.into_iter().zip(&self.pairs).map(of).collect();
        let mean = |of: &dyn Fn(&Means) -> Option<f64>| {
            let sum: Option<f64> = blocks.iter().map(of).sum();
            Some(sum? / blocks.len() as f64)
        };
        let figures = blocks.first().map(|block| block.figures.keys().copied());
        let figure =
            |figure: Figure| Some((figure, mean(&|block| block.figures.get(&figure).copied())?));
        Means {
            power_watts: mean(&|block| Some(block.power_watts)).unwrap_or(f64::NAN),
            figures: figures.into_iter().flatten().filter_map(figure).collect(),
        }
    }
}

/// Length of a trial, estimated from a recording.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Estimate {
    /// Mean power of the recording.
    pub power_watts: f64,
    /// Half the desired width of the interval.
    pub half_width_watts: f64,
    /// Pairs needed.
    pub pairs: usize,
    /// Time needed.
    pub duration_seconds: f64,
}

/// Estimates the length of a trial until its interval is about `share` of the power wide on either
/// side, from a recording under one setting. `None` if the recording has no power or is not longer
/// than a pair.
pub fn estimate(course: &Course, design: &Design, share: f64) -> Option<Estimate> {
    let pairs = course.pairs(design);
    let work = work(&pairs);
    let power_watts = between(course.readings.first()?, course.readings.last()?)?.power_watts;
    let half_width_watts = share * power_watts;
    let recorded: Vec<Pair> =
        pairs.iter().map(|blocks| pair_of(Order::AFirst, blocks, work)).collect();
    let pairs = pairs_needed(&recorded, half_width_watts)?;
    let duration_seconds = 2.0 * pairs as f64 * design.block_seconds;
    Some(Estimate { power_watts, half_width_watts, pairs, duration_seconds })
}

/// Returns the measure of work that all blocks have.
fn work(pairs: &[[Means; 2]]) -> Option<Figure> {
    let has = |figure: &Figure| {
        let mut all = pairs.iter().flatten().map(|block| block.figures.get(figure));
        all.all(|value| value.is_some_and(|value| *value > 0.0))
    };
    Figure::WORK.into_iter().find(has).filter(|_| !pairs.is_empty())
}

fn pair_of(order: Order, [first, second]: &[Means; 2], work: Option<Figure>) -> Pair {
    let block = |means: &Means| Block {
        watts: means.power_watts,
        work: work.and_then(|figure| means.figures.get(&figure)).copied().unwrap_or(0.0),
    };
    Pair { order, first: block(first), second: block(second) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::block::Energy;
    use std::collections::BTreeMap;

    fn design(pairs: usize) -> Design {
        let (a, b) = ("none".to_owned(), "balanced".to_owned());
        let versions = vec!["Linux 6.12.1".to_owned()];
        Design { a, b, settings: 1, versions, counter: None, pairs, block_seconds: 40.0 }
    }

    fn block(watts: f64) -> Option<(Means, Meter)> {
        let figures = BTreeMap::from([(Figure::Packets, 10.0), (Figure::BusyCpus, 0.5)]);
        Some((Means { power_watts: watts, figures }, Meter::default()))
    }

    #[test]
    fn blocks_of_a_pair_have_both_settings_and_a_void_one_repeats_its_pair() {
        let mut trial = Experiment::new(design(10), 7);
        let mut ran = Vec::new();
        let mut count = 0;
        while let Some(setting) = trial.next() {
            count += 1;
            if count % 5 == 0 {
                assert_eq!(trial.finish(None), Progress::Repeats);
                continue;
            }
            ran.push(setting);
            let watts = if setting == Setting::A { 50.0 } else { 48.0 };
            if trial.finish(block(watts)) == Progress::Pair {
                let [.., one, two] = ran[..] else { panic!("{ran:?}") };
                assert_ne!(one, two);
            }
        }
        assert_eq!(trial.pairs(), 10);
        assert_eq!(
            (trial.means(Setting::A).power_watts, trial.means(Setting::B).power_watts),
            (50.0, 48.0)
        );
        let found = trial.result().unwrap();
        assert_eq!((found.power.watts, found.work), (-2.0, Some(Figure::Packets)));
    }

    #[test]
    fn trial_gives_up_without_a_meter_or_with_another_one() {
        let mut trial = Experiment::new(design(8), 1);
        assert_eq!(trial.finish(block(50.0)), Progress::HalfPair);
        let hwmon = Meter { source: "hwmon".to_owned(), ..Meter::default() };
        let other = block(80.0).map(|(means, _)| (means, hwmon));
        assert_eq!(trial.finish(other.clone()), Progress::Repeats);
        assert_eq!(trial.finish(None), Progress::Repeats);
        assert_eq!(trial.finish(other), Progress::GivesUp);
        assert_eq!((trial.pairs(), trial.void_blocks), (0, 3));
    }

    #[test]
    fn stored_trial_goes_on_with_its_next_pair() {
        let mut trial = Experiment::new(design(8), 3);
        let mut whole = Vec::new();
        while let Some(setting) = trial.next() {
            whole.push(setting);
            trial.finish(block(50.0));
        }
        let mut trial = Experiment::new(design(8), 3);
        for _ in 0..5 {
            trial.finish(block(50.0));
        }
        let text = serde_json::to_string(&trial).unwrap();
        let mut again: Experiment = serde_json::from_str(&text).unwrap();
        assert_eq!(again.pairs(), 2, "the open pair is repeated");
        let mut rest = Vec::new();
        while let Some(setting) = again.next() {
            rest.push(setting);
            again.finish(block(50.0));
        }
        assert_eq!(rest, whole[4..]);
    }

    /// Returns the states of a block with this pressure and latency from a second on, one reading a
    /// second.
    fn course(from: u32, pressure: f64, latency: f64) -> Vec<State> {
        let limits = Limits { pressure: 0.5, latency_seconds: Some(0.01) };
        let mut course = Course::default();
        let mut sums = [0.0; 2];
        let mut states = Vec::new();
        for second in 0..=40 {
            if second > from {
                sums[0] += pressure;
                sums[1] += latency;
            }
            let integrals =
                BTreeMap::from([(Figure::Pressure, sums[0]), (Figure::Latency, sums[1])]);
            let seconds = f64::from(second);
            let reading = Reading { seconds, energy: None, integrals };
            states.push(course.take(reading, &design(8), limits));
        }
        states
    }

    #[test]
    fn limit_exceeded_for_seconds_ends_the_trial() {
        let end = |states: &[State]| {
            states.iter().position(|state| *state != State::GoesOn).map(|at| (at, states[at]))
        };
        assert_eq!(end(&course(0, 0.4, 0.001)), Some((40, State::Over)));
        let Some((at, State::Passed(passed))) = end(&course(20, 0.9, 0.0)) else { panic!() };
        assert_eq!((at, passed.figure, passed.limit), (26, Figure::Pressure, 0.5));
        let Some((at, State::Passed(passed))) = end(&course(0, 0.0, 0.02)) else { panic!() };
        assert_eq!((at, passed.figure), (10, Figure::Latency));
        assert!((passed.mean - 0.02).abs() < 1e-9);
    }

    #[test]
    fn estimate_grows_with_the_noise_of_the_machine() {
        let of = |noise: f64| {
            let mut course = Course::default();
            let mut energy = Energy::default();
            for second in 0..400_u32 {
                let wave = (f64::from(second) / 37.0).sin() + (f64::from(second) / 11.0).cos();
                energy.joules += 100.0 + noise * wave;
                energy.metered_seconds += 1.0;
                let seconds = f64::from(second);
                course.readings.push(Reading {
                    seconds,
                    energy: Some(energy),
                    ..Reading::default()
                });
            }
            estimate(&course, &design(8), 0.01)
        };
        let (little, much) = (of(0.1).unwrap(), of(20.0).unwrap());
        assert_eq!(little.pairs, crate::trial::analysis::LEAST_PAIRS);
        assert!((little.half_width_watts - 1.0).abs() < 0.01, "{little:?}");
        assert!(much.pairs > 20 && much.duration_seconds == 80.0 * much.pairs as f64, "{much:?}");
        assert_eq!(estimate(&Course::default(), &design(8), 0.01), None);
    }
}
