//! Parser of a histogram in Prometheus' text format 0.0.4, and in OpenMetrics as far as a histogram
//! needs it.

use super::selector::{Selector, split};
use crate::sources::Refused;
use std::collections::BTreeMap;

/// Longest accepted text.
const LONGEST_TEXT: usize = 16 << 20;
/// Largest accepted numbers of series and of buckets.
const MOST_SERIES: usize = 1_000;
const MOST_BUCKETS: usize = 1_000;
/// 2^53: above, a double cannot represent every whole number.
const MOST_REQUESTS: f64 = 9_007_199_254_740_992.0;
/// Largest plausible bound, a year.
const HIGHEST_BOUND: f64 = 31_536_000.0;

/// Series of a histogram at one time, by their labels other than `le`.
#[derive(Debug, Default)]
pub(super) struct Scrape {
    pub series: BTreeMap<Vec<(String, String)>, Series>,
}

/// A series, or the increase of one or several series.
#[derive(Debug, Default, Clone)]
pub(super) struct Series {
    /// Upper bounds in seconds, ascending, the last one infinite, each with the number of requests
    /// that took no longer.
    pub buckets: Vec<(f64, f64)>,
    /// Total seconds of all requests, if known.
    pub sum: Option<f64>,
}

impl Series {
    /// Returns the number of all requests.
    pub fn total(&self) -> f64 {
        self.buckets.last().map_or(0.0, |(_, count)| *count)
    }

    /// Returns the increase since an earlier state; `None` if the two contradict each other. A
    /// smaller total means that the application restarted from zero.
    pub fn since(&self, before: &Self) -> Option<Self> {
        if !self.same_bounds(before) {
            return None;
        }
        if self.total() < before.total() {
            return Some(self.clone());
        }
        let pairs = self.buckets.iter().zip(&before.buckets);
        let buckets: Vec<_> =
            pairs.map(|((bound, now), (_, before))| (*bound, now - before)).collect();
        let sum = self.sum.zip(before.sum).map(|(now, before)| now - before);
        let increase = Self { buckets, sum };
        increase.is_cumulative().then_some(increase)
    }

    /// Adds another series with the same bounds; returns false if the bounds differ.
    pub fn add(&mut self, other: &Self) -> bool {
        if self.buckets.is_empty() {
            *self = other.clone();
            return true;
        }
        if !self.same_bounds(other) {
            return false;
        }
        self.buckets.iter_mut().zip(&other.buckets).for_each(|(mine, other)| mine.1 += other.1);
        self.sum = self.sum.zip(other.sum).map(|(mine, other)| mine + other);
        true
    }

    fn same_bounds(&self, other: &Self) -> bool {
        let bounds = |series: &Self| series.buckets.iter().map(|(b, _)| *b).collect::<Vec<_>>();
        bounds(self) == bounds(other)
    }

    /// Returns true if counts are not negative and do not decrease from bucket to bucket.
    fn is_cumulative(&self) -> bool {
        let counts = || self.buckets.iter().map(|(_, count)| *count);
        counts().next().is_some_and(|first| first >= 0.0)
            && counts().zip(counts().skip(1)).all(|(below, above)| below <= above)
    }
}

impl Scrape {
    /// Reads the series that a selector matches, with bounds in units of `unit_seconds`. Any error
    /// in them is counted, and the result is then `None`: a part of a histogram has no quantiles.
    pub fn parse(
        text: &str,
        selector: &Selector,
        unit_seconds: f64,
        refused: &mut Refused,
    ) -> Option<Self> {
        if text.len() > LONGEST_TEXT {
            refused.absurd += 1;
            return None;
        }
        let mut scrape = Self::default();
        let before = refused.total();
        for line in text.lines() {
            scrape.take(line.trim(), selector, unit_seconds, refused);
            if refused.total() > before {
                return None;
            }
        }
        for series in scrape.series.values_mut() {
            series.buckets.sort_by(|(a, _), (b, _)| a.total_cmp(b));
            let ends = series.buckets.last().is_some_and(|(bound, _)| *bound == f64::INFINITY);
            let twice = series.buckets.windows(2).any(|pair| pair[0].0 == pair[1].0);
            if !ends || twice || !series.is_cumulative() {
                refused.inconsistent += 1;
                return None;
            }
        }
        Some(scrape)
    }

    fn take(&mut self, line: &str, selector: &Selector, unit_seconds: f64, refused: &mut Refused) {
        let Some(ending) = line.strip_prefix(selector.name.as_str()) else { return };
        let bucket = ending.starts_with("_bucket");
        if !bucket && !ending.starts_with("_sum") {
            return;
        }
        let Some((name, mut labels, rest)) = split(line) else {
            refused.malformed += 1;
            return;
        };
        // Another metric whose name begins the same.
        let parts = name.strip_prefix(selector.name.as_str());
        if !matches!(parts, Some("_bucket" | "_sum")) || !selector.takes(&labels) {
            return;
        }
        // A time or an exemplar may follow the value.
        let Some(value) = rest.split_ascii_whitespace().next().and_then(|word| word.parse().ok())
        else {
            refused.malformed += 1;
            return;
        };
        let bound = match labels.iter().position(|(label, _)| label == "le") {
            Some(index) => Some(labels.swap_remove(index).1),
            None if bucket => {
                refused.malformed += 1;
                return;
            }
            None => None,
        };
        labels.sort();
        if self.series.len() >= MOST_SERIES && !self.series.contains_key(&labels) {
            refused.absurd += 1;
            return;
        }
        let series = self.series.entry(labels).or_default();
        match bound {
            // Without a valid sum only the mean is unknown.
            None => series.sum = Some(value * unit_seconds).filter(|sum: &f64| sum.is_finite()),
            Some(bound) => {
                let Some(bound) = check_bound(&bound, unit_seconds, refused) else { return };
                let Some(count) = check_count(value, refused) else { return };
                if series.buckets.len() >= MOST_BUCKETS {
                    refused.absurd += 1;
                    return;
                }
                series.buckets.push((bound, count));
            }
        }
    }
}

fn check_bound(text: &str, unit_seconds: f64, refused: &mut Refused) -> Option<f64> {
    let counter = match text.parse::<f64>() {
        Ok(f64::INFINITY) => return Some(f64::INFINITY),
        Err(_) => &mut refused.malformed,
        Ok(bound) if bound.is_nan() => &mut refused.not_a_number,
        Ok(bound) if bound < 0.0 => &mut refused.negative,
        Ok(bound) if bound * unit_seconds > HIGHEST_BOUND => &mut refused.absurd,
        Ok(bound) => return Some(bound * unit_seconds),
    };
    *counter += 1;
    None
}

fn check_count(count: f64, refused: &mut Refused) -> Option<f64> {
    let counter = if count.is_nan() {
        &mut refused.not_a_number
    } else if count < 0.0 {
        &mut refused.negative
    } else if count > MOST_REQUESTS {
        &mut refused.absurd
    } else {
        return Some(count);
    };
    *counter += 1;
    None
}
