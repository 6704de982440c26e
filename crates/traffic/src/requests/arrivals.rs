//! Requests that reach one core.

use super::sizes::Quantiles;
use super::spec::RequestSpec;
use crate::random::Random;

/// A request as it reaches the server's card.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Request {
    /// Arrival time in picoseconds since the start.
    pub at: u64,
    /// Frame bytes of the request.
    pub request_bytes: u32,
    /// Payload bytes of the response.
    pub response_bytes: u32,
    /// Random number from the exponential distribution of mean 1, for the spread of service times.
    pub draw: f32,
}

/// The endless sequence of one core's requests in order of time.
///
/// Bursts arrive as a Poisson process. The number of requests in a burst is geometrically
/// distributed, and the gaps between them exponentially; bursts may overlap. With one request per
/// burst this is a Poisson process of requests.
#[derive(Debug, Clone)]
pub struct Arrivals {
    random: Random,
    kinds: Vec<(f64, Quantiles, Quantiles)>,
    /// Mean picoseconds between bursts; infinite for a core without requests.
    between: f64,
    gap: f64,
    /// Probability that a burst continues after a request.
    goes_on: f64,
    /// Start of the next burst.
    burst_at: f64,
    /// Time of the next request of each burst in progress.
    running: Vec<f64>,
}

impl Arrivals {
    /// Requests of core number `core` at `rate` requests per second.
    pub fn new(spec: &RequestSpec, rate: f64, seed: u64, core: usize) -> Self {
        let mut random = Random::new(seed, 0x7e9 + core as u64);
        let burst = spec.burst.max(1.0);
        let between = if rate > 0.0 { burst / rate * 1e12 } else { f64::INFINITY };
        let kinds = spec.workload.kinds();
        let kinds = kinds.into_iter().map(|kind| (kind.share, kind.request, kind.response));
        let burst_at = between * random.exponential();
        Self {
            kinds: kinds.collect(),
            between,
            gap: spec.gap.as_picos() as f64,
            goes_on: 1.0 - 1.0 / burst,
            burst_at,
            running: Vec::new(),
            random,
        }
    }

    /// The next request.
    pub fn next_request(&mut self) -> Request {
        let at = self.next_time();
        let Self { random, kinds, .. } = self;
        let mut kind = &kinds[0];
        if kinds.len() > 1 {
            let mut left = random.unit();
            for one in kinds.iter() {
                kind = one;
                left -= one.0;
                if left < 0.0 {
                    break;
                }
            }
        }
        Request {
            at,
            request_bytes: kind.1.draw(random),
            response_bytes: kind.2.draw(random),
            draw: random.exponential() as f32,
        }
    }

    fn next_time(&mut self) -> u64 {
        let first = self.running.iter().enumerate().min_by(|a, b| a.1.total_cmp(b.1));
        let (at, went_on) = match first.map(|(index, at)| (index, *at)) {
            Some((index, at)) if at <= self.burst_at => {
                self.running.swap_remove(index);
                (at, true)
            }
            _ => (self.burst_at, false),
        };
        if !went_on {
            self.burst_at += self.between * self.random.exponential();
        }
        if self.goes_on > 0.0 && self.random.unit() < self.goes_on {
            self.running.push(at + self.gap * self.random.exponential());
        }
        // No simulation goes beyond 2^64 ps; the cast saturates.
        at as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::requests::Workload;

    fn times(spec: &str, count: usize, seed: u64) -> Vec<u64> {
        let spec = RequestSpec::parse(spec).unwrap();
        let mut arrivals = Arrivals::new(&spec, spec.rate, seed, 0);
        (0..count).map(|_| arrivals.next_request().at).collect()
    }

    #[test]
    fn rate_and_order_hold_with_and_without_bursts() {
        for spec in ["memcached:100krps,burst=1", "memcached:100krps,burst=40,gap=5us"] {
            let times = times(spec, 400_000, 3);
            assert!(times.windows(2).all(|pair| pair[0] <= pair[1]), "{spec}");
            let seconds = times[times.len() - 1] as f64 / 1e12;
            let rate = times.len() as f64 / seconds;
            assert!((rate / 1e5 - 1.0).abs() < 0.05, "{spec}: {rate}");
        }
    }

    #[test]
    fn poisson_gaps_vary_as_their_mean_and_bursts_more() {
        let variation = |spec: &str| {
            let times = times(spec, 200_000, 5);
            // Counts in millisecond slots: the index of dispersion is 1 for Poisson.
            let slots = (times[times.len() - 1] / 1_000_000_000) as usize;
            let mut counts = vec![0.0; slots + 1];
            times.iter().for_each(|at| counts[(at / 1_000_000_000) as usize] += 1.0);
            let mean = counts.iter().sum::<f64>() / counts.len() as f64;
            counts.iter().map(|n: &f64| (n - mean).powi(2)).sum::<f64>()
                / counts.len() as f64
                / mean
        };
        let poisson = variation("memcached:100krps,burst=1");
        assert!((poisson - 1.0).abs() < 0.1, "{poisson}");
        // A geometric burst of mean b: (second moment) / mean = 2 b - 1.
        let bursty = variation("memcached:100krps,burst=20,gap=1us");
        assert!((bursty / 39.0 - 1.0).abs() < 0.2, "{bursty}");
    }

    #[test]
    fn seeds_and_cores_differ_and_repeat() {
        let spec = RequestSpec::new(Workload::Nginx, 1e4);
        let first = |seed, core| Arrivals::new(&spec, 1e4, seed, core).next_request();
        assert_eq!(first(1, 0), first(1, 0));
        assert_ne!(first(1, 0).at, first(1, 1).at);
        assert_ne!(first(1, 0).at, first(2, 0).at);
        assert_eq!(Arrivals::new(&spec, 0.0, 1, 0).next_request().at, u64::MAX);
    }
}
