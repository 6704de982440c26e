//! Means of repetitions, and their differences.

use super::quantity::{leads, rank};
use super::read::Run;
use crate::spread::student;
use serde::Serialize;
use std::cmp::Ordering;
use std::collections::BTreeSet;

/// Mean of a figure over the repetitions of a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Mean {
    /// Number of repetitions that have the figure.
    pub count: usize,
    /// Mean over them.
    pub mean: f64,
    /// Half the 95 % confidence interval, by Student's distribution; absent for a single
    /// repetition.
    pub half: Option<f64>,
    /// Square of the standard error of the mean.
    #[serde(skip)]
    error: Option<f64>,
}

/// Verdict on a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Higher than in the first run: zero is below the interval.
    More,
    /// Lower than in the first run.
    Less,
    /// Zero lies in the interval: no difference is shown, which does not show that there is none.
    NotShown,
    /// All repetitions of both runs have the same value.
    Same,
    /// Single repetitions, whose scatter is unknown.
    Unknown,
}

impl Outcome {
    /// Returns the outcome in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::More => "more",
            Self::Less => "less",
            Self::NotShown => "no difference shown",
            Self::Same => "the same",
            Self::Unknown => "too few repetitions",
        }
    }

    /// Returns true if a difference is shown.
    pub fn differs(self) -> bool {
        matches!(self, Self::More | Self::Less)
    }
}

/// Difference between a run's mean and the first run's.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Difference {
    /// The difference.
    pub mean: f64,
    /// Half its 95 % confidence interval (Welch: the runs need not have the same scatter); absent
    /// if unknown.
    pub half: Option<f64>,
    /// Difference as a share of the first run's mean; absent if that is zero.
    pub relative: Option<f64>,
    /// Verdict.
    pub outcome: Outcome,
}

/// A figure in all runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figure {
    /// Path in the results.
    pub path: String,
    /// Means by run; absent if a run has no such figure.
    pub means: Vec<Option<Mean>>,
    /// Differences from the first run, by run after the first.
    pub differences: Vec<Option<Difference>>,
}

/// Runs compared with the first of them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// The runs.
    pub runs: Vec<Run>,
    /// Figures, by path.
    pub figures: Vec<Figure>,
}

impl Mean {
    fn from_values(values: &[f64]) -> Option<Self> {
        let count = values.len();
        let mean = values.iter().sum::<f64>() / count as f64;
        let mean =
            if values.iter().all(|value| *value == values[0]) { *values.first()? } else { mean };
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let error = (count > 1).then(|| squares / (count - 1) as f64 / count as f64);
        let half = error.map(|error| student(count - 1) * error.sqrt());
        Some(Self { count, mean, half, error })
    }
}

impl Difference {
    fn between(first: &Mean, other: &Mean) -> Self {
        let mean = other.mean - first.mean;
        let relative = (first.mean != 0.0).then(|| mean / first.mean.abs());
        let half = first.error.zip(other.error).map(|(one, two)| {
            let sum = one + two;
            // Welch and Satterthwaite; rounded down, which makes the interval no narrower.
            let of = |error: f64, count: usize| error * error / (count - 1) as f64;
            let degrees = sum * sum / (of(one, first.count) + of(two, other.count));
            if sum > 0.0 { student(degrees.max(1.0) as usize) * sum.sqrt() } else { 0.0 }
        });
        let outcome = match half {
            None => Outcome::Unknown,
            Some(0.0) if mean == 0.0 => Outcome::Same,
            Some(half) if mean.abs() <= half => Outcome::NotShown,
            Some(_) if mean > 0.0 => Outcome::More,
            Some(_) => Outcome::Less,
        };
        Self { mean, half, relative, outcome }
    }
}

impl Comparison {
    /// Compares runs with the first, by figures whose path contains `only`, or by all figures.
    pub fn new(runs: Vec<Run>, only: Option<&str>) -> Self {
        let wanted = |path: &&String| only.is_none_or(|only| path.contains(only));
        let paths: BTreeSet<&String> = (runs.iter().flat_map(|run| &run.repetitions))
            .flat_map(|figures| figures.keys().filter(wanted))
            .collect();
        let figure = |path: &String| {
            let mean = |run: &Run| {
                let values: Vec<f64> =
                    run.repetitions.iter().filter_map(|one| one.get(path).copied()).collect();
                Mean::from_values(&values)
            };
            let means: Vec<Option<Mean>> = runs.iter().map(mean).collect();
            let first = means.first().copied().flatten();
            let against =
                |other: &Option<Mean>| Some(Difference::between(&first?, other.as_ref()?));
            let differences = means.iter().skip(1).map(against).collect();
            Figure { path: path.clone(), means, differences }
        };
        let figures = paths.into_iter().map(figure).collect();
        Self { runs, figures }
    }

    /// Returns figures with a shown difference, then the others by path. The former begin with
    /// power, latency and loss of the whole run; figures of the whole run come before figures of
    /// its parts, and larger shares first.
    pub fn sorted(&self) -> Vec<&Figure> {
        let weight = |figure: &Figure| {
            let shown = figure.differences.iter().flatten().filter(|it| it.outcome.differs());
            shown.map(|it| it.relative.map_or(f64::MAX, f64::abs)).fold(-1.0, f64::max)
        };
        let place = |path: &str| match leads(path) {
            true => (0, rank(path)),
            false => (1 + path.matches('.').count(), rank(path)),
        };
        let mut figures: Vec<(f64, &Figure)> =
            self.figures.iter().map(|figure| (weight(figure), figure)).collect();
        figures.sort_by(|(less, one), (more, two)| {
            let both_differ = *less >= 0.0 && *more >= 0.0;
            let places = || place(&one.path).cmp(&place(&two.path));
            let places = if both_differ { places() } else { Ordering::Equal };
            places.then(more.total_cmp(less))
        });
        figures.into_iter().map(|(_, figure)| figure).collect()
    }

    /// Returns the numbers of shown differences and of intervals. About one in twenty intervals
    /// shows a difference by chance.
    pub fn counts(&self) -> (usize, usize) {
        let all = self.figures.iter().flat_map(|figure| figure.differences.iter().flatten());
        let scattered = all.filter(|it| it.half.is_some() && it.outcome != Outcome::Same);
        scattered
            .fold((0, 0), |(shown, all), it| (shown + usize::from(it.outcome.differs()), all + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(name: &str, values: &[f64]) -> Run {
        let repetitions = values.iter().map(|value| {
            [("watts".to_owned(), *value), ("seed".to_owned(), 7.0)].into_iter().collect()
        });
        Run {
            name: name.to_owned(),
            build: None,
            repetitions: repetitions.collect(),
            left_out: Vec::new(),
        }
    }

    fn watts(values: &[&[f64]]) -> Figure {
        let runs = values.iter().map(|values| run("x", values)).collect();
        Comparison::new(runs, Some("watts")).figures[0].clone()
    }

    /// Student's yields of two sorts of corn ("The probable error of a mean", Biometrika 6, 1908),
    /// by Welch's test: t = 0.23 at 19.98 degrees of freedom, so no difference is shown.
    #[test]
    fn interval_follows_welch() {
        let one = [
            1903.0, 1935.0, 1910.0, 2496.0, 2108.0, 1961.0, 2060.0, 1444.0, 1612.0, 1316.0, 1511.0,
        ];
        let two = [
            2009.0, 1915.0, 2011.0, 2463.0, 2180.0, 1925.0, 2122.0, 1482.0, 1542.0, 1443.0, 1535.0,
        ];
        let figure = watts(&[&one, &two]);
        let difference = figure.differences[0].unwrap();
        assert!((difference.mean - 33.727).abs() < 1e-3, "{difference:?}");
        // Variances 117,468.9 and 110,789.2: standard error 144.05; 2.093 at 19 degrees.
        assert!((difference.half.unwrap() - 301.5).abs() < 0.1, "{difference:?}");
        assert_eq!(difference.outcome, Outcome::NotShown);
        let mean = figure.means[0].unwrap();
        assert!((mean.mean - 1841.454).abs() < 1e-3 && mean.count == 11);
    }

    #[test]
    fn differences_are_shown_not_shown_or_unknown() {
        let outcome = |one: &[f64], two: &[f64]| watts(&[one, two]).differences[0].unwrap().outcome;
        assert_eq!(outcome(&[1.0, 1.1, 0.9], &[2.0, 2.1, 1.9]), Outcome::More);
        assert_eq!(outcome(&[2.0, 2.1, 1.9], &[1.0, 1.1, 0.9]), Outcome::Less);
        assert_eq!(outcome(&[1.0, 3.0], &[2.0, 4.0]), Outcome::NotShown);
        assert_eq!(outcome(&[1.0], &[2.0, 2.1]), Outcome::Unknown);
        assert_eq!(outcome(&[0.1, 0.1, 0.1], &[0.1, 0.1]), Outcome::Same);
        assert_eq!(outcome(&[0.0, 0.0], &[1.0, 1.0]), Outcome::More, "both never change");
        let zero = watts(&[&[0.0, 0.0], &[1.0, 1.0]]).differences[0].unwrap();
        assert_eq!((zero.relative, zero.half), (None, Some(0.0)));
    }

    #[test]
    fn differences_come_first_and_chance_is_counted() {
        let runs =
            vec![run("a", &[1.0, 1.1, 0.9]), run("b", &[2.0, 2.1, 1.9]), run("c", &[1.0, 1.2])];
        let comparison = Comparison::new(runs, None);
        let order: Vec<&str> = comparison.sorted().iter().map(|it| it.path.as_str()).collect();
        assert_eq!(order, ["watts", "seed"]);
        let named = |name: &str, value: f64| {
            let figures =
                ["decisions", "overloads", "latency.p99_seconds", "power_watts", "watts.nic"];
            let one = |add: f64| figures.map(|path| (path.to_owned(), value + add)).into();
            Run {
                name: name.to_owned(),
                build: None,
                repetitions: vec![one(0.0), one(0.01)],
                left_out: vec![],
            }
        };
        let sorted = Comparison::new(vec![named("a", 1.0), named("b", 2.0)], None);
        let order: Vec<&str> = sorted.sorted().iter().map(|it| it.path.as_str()).collect();
        assert_eq!(order[..2], ["power_watts", "latency.p99_seconds"], "{order:?}");
        assert_eq!(comparison.counts(), (1, 2), "the seeds have no scatter");
        let mut lacking = run("d", &[1.0, 2.0]);
        lacking.repetitions[1].remove("watts");
        lacking.repetitions[0].remove("watts");
        let comparison = Comparison::new(vec![run("a", &[1.0, 1.0]), lacking], Some("watts"));
        assert_eq!(comparison.figures[0].differences, [None]);
    }
}
