//! A histogram that the application exports to Prometheus.

mod exposition;
mod selector;

pub use selector::{Selector, SelectorError};

use super::{LONGEST_SECONDS, LatencySource, LatencySummary, Origin, Quantile, Refused};
use exposition::{Scrape, Series};
use wattline_units::{Span, Time};

/// Latency between two scrapes of a histogram.
///
/// A quantile is interpolated linearly within its bucket, as Prometheus' `histogram_quantile` does;
/// the upper end of the bucket is returned as well.
#[derive(Debug)]
pub struct PrometheusHistogram {
    selector: Selector,
    /// Seconds in the histogram's unit.
    unit_seconds: f64,
    /// Last scrape and its time.
    last: Option<(Scrape, Time)>,
    known: Option<(LatencySummary, Time)>,
    /// Requests between the last two scrapes.
    increase: Series,
    refused: Refused,
}

impl PrometheusHistogram {
    /// Creates a source for the histogram of `selector`, whose bounds are in units of
    /// `unit_seconds`: 1 for `_seconds`, 0.001 for `_milliseconds`.
    pub fn new(selector: Selector, unit_seconds: f64) -> Self {
        let refused = Refused::default();
        Self {
            selector,
            unit_seconds,
            last: None,
            known: None,
            increase: Series::default(),
            refused,
        }
    }

    /// Takes the text of a scrape made at `now`; returns true if it contains the histogram. From
    /// the second scrape on, the summary covers the requests between the last two.
    pub fn take(&mut self, text: &str, now: Time) -> bool {
        let Some(scrape) =
            Scrape::parse(text, &self.selector, self.unit_seconds, &mut self.refused)
        else {
            return false;
        };
        if scrape.series.is_empty() {
            return false;
        }
        let Some((last, at)) = self.last.replace((scrape, now)) else { return true };
        let Some((scrape, _)) = &self.last else { return true };
        let mut sum = Series::default();
        for (labels, series) in &scrape.series {
            // A new series may have begun at any time.
            let Some(before) = last.series.get(labels) else { continue };
            match series.since(before) {
                Some(increase) if sum.add(&increase) => {}
                _ => self.refused.inconsistent += 1,
            }
        }
        let window = now.since(at);
        self.known = summary(&sum, window).map(|summary| (summary, now));
        self.increase = sum;
        true
    }
}

impl LatencySource for PrometheusHistogram {
    fn origin(&self) -> Origin {
        Origin::Application
    }

    fn summary(&self, now: Time) -> Option<LatencySummary> {
        let (summary, at) = self.known?;
        Some(LatencySummary { age: now.since(at), ..summary })
    }

    fn counts_late(&self) -> bool {
        true
    }

    fn late(&self, _: Time, bound: Span) -> Option<u64> {
        self.known.map(|_| late(&self.increase, bound))
    }

    fn refused(&self) -> Refused {
        self.refused
    }
}

/// Returns the number of requests that may have taken longer than a bound: all except those in
/// buckets that end at or below it.
fn late(increase: &Series, bound: Span) -> u64 {
    // Bounds are decimal fractions; 10 ms must not lie above 0.01 by its rounding.
    let seconds = bound.as_seconds() * (1.0 + 1e-9);
    let within = increase.buckets.iter().take_while(|(upper, _)| *upper <= seconds).last();
    let within = within.map_or(0.0, |(_, count)| *count);
    (increase.total() - within).round().max(0.0) as u64
}

/// Returns the summary of an increase; `None` if it has no requests.
fn summary(increase: &Series, window: Span) -> Option<LatencySummary> {
    let total = increase.total();
    // Counts are whole numbers; `as` saturates.
    let samples = total.round() as u64;
    if samples == 0 {
        return None;
    }
    let mean =
        increase.sum.map(|sum| sum / total).filter(|mean| (0.0..=LONGEST_SECONDS).contains(mean));
    Some(LatencySummary {
        origin: Origin::Application,
        samples,
        age: Span::ZERO,
        window,
        mean: mean.map(Span::from_seconds),
        p50: quantile(increase, 0.50 * total),
        p95: quantile(increase, 0.95 * total),
        p99: quantile(increase, 0.99 * total),
    })
}

/// Returns the latency of the request with this rank.
fn quantile(increase: &Series, rank: f64) -> Quantile {
    let (mut below, mut lower) = (0.0, 0.0);
    for (upper, count) in &increase.buckets {
        if *count >= rank && upper.is_finite() {
            let share = if *count > below { (rank - below) / (count - below) } else { 1.0 };
            let estimate = Span::from_seconds(lower + share * (upper - lower));
            return Quantile::Within { estimate, upper: Span::from_seconds(*upper) };
        }
        if upper.is_finite() {
            (below, lower) = (*count, *upper);
        }
    }
    Quantile::Beyond(Span::from_seconds(lower))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Time {
        Time::ZERO + Span::from_millis(1_000 * seconds)
    }

    fn source(selector: &str) -> PrometheusHistogram {
        PrometheusHistogram::new(selector.parse().unwrap(), 1.0)
    }

    fn text(counts: [u64; 4], sum: f64) -> String {
        let [a, b, c, all] = counts;
        format!(
            "# HELP http_seconds How long.\n# TYPE http_seconds histogram\n\
             http_seconds_bucket{{path=\"/a\",le=\"0.001\"}} {a}\n\
             http_seconds_bucket{{path=\"/a\",le=\"0.01\"}} {b}\n\
             http_seconds_bucket{{path=\"/a\",le=\"0.1\"}} {c} 1790000000000\n\
             http_seconds_bucket{{path=\"/a\",le=\"+Inf\"}} {all}\n\
             http_seconds_sum{{path=\"/a\"}} {sum}\nhttp_seconds_count{{path=\"/a\"}} {all}\n\
             other_bucket{{le=\"+Inf\"}} 5\n"
        )
    }

    fn seconds(quantile: Quantile) -> (f64, f64) {
        let Quantile::Within { estimate, upper } = quantile else { panic!("{quantile:?}") };
        (estimate.as_seconds(), upper.as_seconds())
    }

    #[test]
    fn quantiles_cover_the_requests_between_two_scrapes() {
        let mut source = source("http_seconds");
        source.take(&text([1_000, 1_000, 1_000, 1_000], 1.0), at(1));
        assert_eq!(source.summary(at(1)), None);
        // 100 requests: 60 up to 1 ms, 36 up to 10 ms, 4 up to 100 ms.
        source.take(&text([1_060, 1_096, 1_100, 1_100], 1.5), at(2));
        let summary = source.summary(at(5)).unwrap();
        assert_eq!((summary.samples, summary.age), (100, Span::from_millis(3_000)));
        assert_eq!(summary.mean, Some(Span::from_micros(5_000)));
        let near = |found: (f64, f64), expected: (f64, f64)| {
            assert!((found.0 - expected.0).abs() < 1e-9, "{found:?}, not {expected:?}");
            assert!((found.1 - expected.1).abs() < 1e-9, "{found:?}, not {expected:?}");
        };
        // Rank 50 of 60 in 0 to 1 ms; 35 of 36 in 1 to 10 ms; 3 of 4 in 10 to 100 ms.
        near(seconds(summary.p50), (0.001 * 50.0 / 60.0, 0.001));
        near(seconds(summary.p95), (0.001 + 0.009 * 35.0 / 36.0, 0.01));
        near(seconds(summary.p99), (0.01 + 0.09 * 3.0 / 4.0, 0.1));
        // All above 10 ms; requests in the bucket of 20 ms may have been late.
        assert_eq!(source.late(at(5), Span::from_micros(10_000)), Some(4));
        assert_eq!(source.late(at(5), Span::from_micros(20_000)), Some(4));
        assert_eq!(source.late(at(5), Span::from_micros(100_000)), Some(0));
        // No request since then, so no quantiles.
        source.take(&text([1_060, 1_096, 1_100, 1_100], 1.5), at(6));
        assert_eq!(source.summary(at(6)), None);
        assert_eq!(source.late(at(6), Span::ZERO), None);
        assert_eq!(source.refused().total(), 0);
    }

    #[test]
    fn last_bucket_has_no_upper_end() {
        let mut source = source("http_seconds{path=\"/a\"}");
        source.take(&text([0, 0, 0, 0], 0.0), at(1));
        source.take(&text([0, 0, 97, 100], 0.0), at(2));
        let summary = source.summary(at(2)).unwrap();
        assert!(matches!(summary.p95, Quantile::Within { .. }));
        assert_eq!(summary.p99, Quantile::Beyond(Span::from_millis(100)));
    }

    #[test]
    fn restarted_application_counts_from_zero() {
        let mut source = source("http_seconds");
        source.take(&text([1_000, 1_000, 1_000, 1_000], 9.0), at(1));
        source.take(&text([10, 20, 20, 20], 0.1), at(2));
        assert_eq!(source.summary(at(2)).unwrap().samples, 20);
        assert_eq!(source.refused().total(), 0);
    }

    #[test]
    fn contradictions_are_refused_and_counted() {
        let after = |text: String| {
            let mut source = source("http_seconds");
            source.take(&self::text([10, 20, 30, 30], 0.0), at(1));
            source.take(&text, at(2));
            (source.summary(at(2)).map(|summary| summary.samples), source.refused())
        };
        // A bucket shrinks but the total does not; a lower bucket has more.
        for counts in [[5, 20, 40, 40], [40, 20, 40, 40]] {
            let (samples, refused) = after(text(counts, 0.0));
            assert_eq!((samples, refused.inconsistent), (None, 1), "{counts:?}");
        }
        for (old, new, reason) in [
            ("+Inf", "0.2", "inconsistent"),
            ("0.01\"", "NaN\"", "not a number"),
            ("0.01\"", "-1\"", "negative"),
            ("\"} 20", "\"} -20", "negative"),
            ("\"} 20", "\"} NaN", "not a number"),
            ("\"} 20", "\"} 1e300", "absurd"),
            ("\"} 20", "\"} many", "malformed"),
            ("\"} 20", " 20", "malformed"),
        ] {
            let changed = text([10, 20, 30, 30], 0.0).replacen(old, new, 1);
            let (samples, refused) = after(changed);
            let counted = match reason {
                "inconsistent" => refused.inconsistent,
                "negative" => refused.negative,
                "absurd" => refused.absurd,
                "malformed" => refused.malformed,
                _ => refused.not_a_number,
            };
            assert!(samples.is_none() && counted > 0, "{old} -> {new}: {refused:?}");
        }
    }

    #[test]
    fn any_text_is_survived() {
        bolero::check!().with_type::<(u8, String, f64)>().for_each(|(cut, more, value)| {
            let good = text([1, 2, 3, 4], 5.0);
            let end = good.len() - usize::from(*cut).min(good.len());
            for hostile in [
                more.clone(),
                format!("{}{more}", good.get(..end).unwrap_or_default()),
                good.replacen('3', &value.to_string(), 1),
                format!("http_seconds_bucket{{{more}}} {value}"),
            ] {
                let mut source = source("http_seconds");
                source.take(&good, at(1));
                source.take(&hostile, at(2));
                source.take(&good, at(3));
                let _ = source.summary(at(4));
            }
        });
    }
}
