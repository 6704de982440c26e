//! The text form of requests: `memcached:700krps,burst=20`.

use super::Workload;
use thiserror::Error;
use wattline_units::{Span, parse_prefixed};

/// Default mean length of a burst. This is fitted: with it, the least P95 of Co-PI's server at P4
/// and the medium load is the printed 1 ms (CP-037); a Poisson process stays below a fifth of that.
const BURST: f64 = 7.5;
/// Default mean time between two requests of a burst. This is assumed: a client's threads send one
/// after the other, and the link carries a short request in 0.15 us.
const GAP_MICROS: u64 = 2;
const MOST_REQUESTS_PER_SECOND: f64 = 1e9;
const LONGEST_BURST: f64 = 1e4;

/// Requests to one server.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RequestSpec {
    /// Workload of the requests.
    pub workload: Workload,
    /// Requests per second of the whole server.
    pub rate: f64,
    /// Mean number of requests in a burst at one core, at least 1.
    pub burst: f64,
    /// Mean time between two requests of a burst.
    pub gap: Span,
    /// Connections, spread over the cores by a hash of each; 0 spreads requests evenly.
    pub connections: u32,
}

/// A text that is not a valid description of requests.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("requests \"{text}\": {}", .problems.join("; "))]
pub struct RequestSpecError {
    /// The text as given.
    pub text: String,
    /// All faults, each with what is allowed.
    pub problems: Vec<String>,
}

impl RequestSpec {
    /// A workload at a rate, with defaults for the rest.
    pub fn new(workload: Workload, rate: f64) -> Self {
        Self { workload, rate, burst: BURST, gap: Span::from_micros(GAP_MICROS), connections: 0 }
    }

    /// Parses `WORKLOAD[:RATE][,burst=N][,gap=TIME][,connections=N]`. The default rate is the
    /// published medium load.
    ///
    /// # Errors
    /// Returns all faults of the text at once.
    pub fn parse(text: &str) -> Result<Self, RequestSpecError> {
        let (name, settings) = text.split_once(':').unwrap_or((text, ""));
        let mut problems = Vec::new();
        let workload = Workload::find(name);
        if workload.is_none() {
            problems.push(format!("workload \"{name}\": must be memcached or nginx"));
        }
        let known = workload.unwrap_or(Workload::Memcached);
        let mut spec = Self::new(known, known.published_loads()[1]);
        let mut given: Vec<&str> = Vec::new();
        for part in settings.split(',').filter(|part| !part.is_empty()) {
            let (key, value) = part.split_once('=').unwrap_or(("rate", part));
            if given.contains(&key) {
                problems.push(format!("{key} is given twice"));
            }
            given.push(key);
            let problem = match key {
                "rate" => match rate(value) {
                    Some(rate) => {
                        spec.rate = rate;
                        None
                    }
                    None => Some("a rate such as 700krps, above 0 to 1000Mrps"),
                },
                "burst" => match number(value, 1.0, LONGEST_BURST) {
                    Some(burst) => {
                        spec.burst = burst;
                        None
                    }
                    None => Some("a number, 1 to 10000"),
                },
                "gap" => {
                    match value.parse().ok().filter(|gap: &Span| *gap <= Span::from_millis(1_000)) {
                        Some(gap) => {
                            spec.gap = gap;
                            None
                        }
                        None => Some("a duration such as 2us, 0s to 1s"),
                    }
                }
                "connections" => match number(value, 0.0, 1e6).filter(|n| n.fract() == 0.0) {
                    Some(count) => {
                        spec.connections = count as u32;
                        None
                    }
                    None => Some("a whole number, 0 to 1000000"),
                },
                _ => Some("one of rate, burst, gap, connections"),
            };
            if let Some(allowed) = problem {
                let name = if ["rate", "burst", "gap", "connections"].contains(&key) {
                    format!("{key} = \"{value}\"")
                } else {
                    format!("key \"{key}\"")
                };
                problems.push(format!("{name}: must be {allowed}"));
            }
        }
        if problems.is_empty() {
            return Ok(spec);
        }
        Err(RequestSpecError { text: text.to_owned(), problems })
    }

    /// Mean payload bytes of a response.
    pub fn mean_response_bytes(&self) -> f64 {
        self.workload.kinds().iter().map(|kind| kind.share * kind.response.mean()).sum()
    }

    /// Shares of the cores, which add up to 1: equal ones, or those that follow from hashing
    /// connections into an indirection table of `entries` entries, which are assigned to the cores
    /// in turn.
    pub fn shares(&self, cores: usize, entries: usize, seed: u64) -> Vec<f64> {
        let cores = cores.max(1);
        if self.connections == 0 {
            return vec![1.0 / cores as f64; cores];
        }
        let mut random = crate::random::Random::new(seed, 0xc0);
        let mut shares = vec![0.0; cores];
        let entries = entries.clamp(1, 1 << 16) as u32;
        for _ in 0..self.connections {
            // A hash of random addresses and ports is uniform.
            shares[random.below(entries) as usize % cores] += 1.0 / f64::from(self.connections);
        }
        shares
    }
}

fn number(text: &str, least: f64, most: f64) -> Option<f64> {
    text.parse().ok().filter(|number| (least..=most).contains(number))
}

/// `250rps`, `700krps`, `1.2Mrps`.
fn rate(text: &str) -> Option<f64> {
    let rate = parse_prefixed(text, "rps")?;
    (rate > 0.0 && rate <= MOST_REQUESTS_PER_SECOND).then_some(rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_read_and_defaults_fill_the_rest() {
        let spec = RequestSpec::parse("memcached:900krps,burst=1,connections=320").unwrap();
        assert_eq!((spec.workload, spec.rate, spec.burst), (Workload::Memcached, 900e3, 1.0));
        assert_eq!(spec.connections, 320);
        let spec = RequestSpec::parse("nginx").unwrap();
        assert_eq!((spec.workload, spec.rate), (Workload::Nginx, 88e3));
    }

    #[test]
    fn every_problem_is_named_at_once() {
        let error = RequestSpec::parse("memcache:0rps,burst=0,rat=3,gap=x").unwrap_err();
        let text = error.to_string();
        for part in ["workload \"memcache\"", "rate = \"0rps\"", "burst = \"0\"", "key \"rat\""] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(RequestSpec::parse("nginx:1krps,2krps").unwrap_err().to_string().contains("twice"));
    }

    #[test]
    fn hashed_connections_are_uneven_and_add_up() {
        let spec = RequestSpec::parse("memcached:1krps,connections=320").unwrap();
        let shares = spec.shares(8, 128, 1);
        assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        assert!(shares.iter().any(|share| (share - 0.125).abs() > 0.005), "{shares:?}");
    }
}
