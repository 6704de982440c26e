//! Workloads: kinds of requests, their rates, and the lengths of their answers.

use super::sizes::Quantiles;
use serde::{Deserialize, Serialize};
use std::fmt;
use wattline_units::named;

named! {
    /// Workload of a server.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Workload {
        /// A key-value store under Facebook's ETC mix: short keys, short values, 30 reads per
        /// write.
        Memcached = "memcached",
        /// A web server that sends files over persistent connections.
        Nginx = "nginx",
    }
}

/// Bytes of Ethernet, IP and TCP headers (with timestamps) around a segment's payload.
const HEADERS: f64 = 66.0;
/// `get KEY\r\n`, without the key (memcached, protocol.txt).
const GET_LINE: f64 = 6.0;
/// `VALUE KEY flags bytes\r\n` and `\r\nEND\r\n`, without key and value.
const VALUE_LINE: f64 = 26.0;
/// `set KEY flags 0 bytes\r\n` and the last `\r\n`, without key and value.
const SET_LINE: f64 = 18.0;
/// `STORED\r\n`.
const STORED: f64 = 8.0;
/// One in this many requests is a write: ETC has 30 reads per write (Atikoglu et al., SIGMETRICS
/// 2012).
const REQUESTS_PER_SET: f64 = 31.0;
/// Location, scale and shape of the key lengths of ETC, a generalised extreme value
/// distribution (Atikoglu et al., section 5.1).
const KEY: (f64, f64, f64) = (30.7984, 8.20449, 0.078688);
/// Scale and shape of the value lengths of ETC, a generalised Pareto distribution (the same).
const VALUE: (f64, f64) = (214.476, 0.348238);
/// Length in bytes at which values are cut off. memcached's default limit is 1 MB, but the
/// distribution was fitted to values far below.
const LONGEST_VALUE: f64 = 16_384.0;
/// A `GET` with the headers of a load generator. Assumed: Co-PI does not print it.
const HTTP_REQUEST: f64 = 120.0;
/// Headers of a response of nginx. Assumed.
const HTTP_HEADERS: f64 = 240.0;
/// Length of a file in bytes. Assumed: Co-PI says "large size data"; at 140 KRPS its link of 10
/// Gbit/s carries at most 8.9 kB with headers.
const FILE: f64 = 4_096.0;

/// One kind of request of a workload, with the quantiles of its lengths in bytes.
#[derive(Debug, Clone)]
pub(super) struct Kind {
    /// Share of all requests.
    pub share: f64,
    /// Frame bytes of the request.
    pub request: Quantiles,
    /// Payload bytes of the response.
    pub response: Quantiles,
}

impl Workload {
    /// Workload with this name, if there is one.
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|workload| workload.name() == name)
    }

    /// Low, medium and high load of Co-PI for its server of eight cores, in requests per second
    /// (section III.A and the discussion of Figures 10 and 11).
    pub const fn published_loads(self) -> [f64; 3] {
        match self {
            Self::Memcached => [200e3, 700e3, 900e3],
            Self::Nginx => [48e3, 88e3, 140e3],
        }
    }

    pub(super) fn kinds(self) -> Vec<Kind> {
        match self {
            Self::Memcached => {
                let key = |u: f64| {
                    let (location, scale, shape) = KEY;
                    (location + scale * ((-u.ln()).powf(-shape) - 1.0) / shape).clamp(1.0, 250.0)
                };
                let value = |u: f64| {
                    let (scale, shape) = VALUE;
                    (scale * ((1.0 - u).powf(-shape) - 1.0) / shape).clamp(1.0, LONGEST_VALUE)
                };
                let mean_key = Quantiles::from_inverse(key).mean();
                vec![
                    Kind {
                        share: 1.0 - 1.0 / REQUESTS_PER_SET,
                        request: Quantiles::from_inverse(|u| HEADERS + GET_LINE + key(u)),
                        response: Quantiles::from_inverse(|u| VALUE_LINE + mean_key + value(u)),
                    },
                    Kind {
                        share: 1.0 / REQUESTS_PER_SET,
                        request: Quantiles::from_inverse(|u| {
                            HEADERS + SET_LINE + mean_key + value(u)
                        }),
                        response: Quantiles::from_inverse(|_| STORED),
                    },
                ]
            }
            Self::Nginx => vec![Kind {
                share: 1.0,
                request: Quantiles::from_inverse(|_| HEADERS + HTTP_REQUEST),
                response: Quantiles::from_inverse(|_| HTTP_HEADERS + FILE),
            }],
        }
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The means agree with Atikoglu et al. and with mutilate's `fb_key` and `fb_value`.
    #[test]
    fn etc_has_the_published_means() {
        let kinds = Workload::Memcached.kinds();
        let [get, set] = kinds.as_slice() else { panic!("two kinds") };
        let key = get.request.mean() - HEADERS - GET_LINE;
        assert!((key - 36.3).abs() < 0.5, "mean key {key}");
        let value = set.request.mean() - HEADERS - SET_LINE - key;
        // The Pareto's mean is scale / (1 - shape) = 329; cut at 16 kB a little less.
        assert!((value - 325.0).abs() < 8.0, "mean value {value}");
        assert!((get.share + set.share - 1.0).abs() < 1e-12);
    }

    #[test]
    fn the_published_loads_fit_a_link_of_ten_gigabit() {
        for workload in Workload::ALL {
            let response: f64 = workload
                .kinds()
                .iter()
                .map(|kind| {
                    let bytes = kind.response.mean();
                    kind.share * (bytes + (bytes / 1448.0).ceil() * (HEADERS + 24.0))
                })
                .sum();
            let high = workload.published_loads()[2];
            assert!(high * response * 8.0 < 1e10, "{workload}: {response} bytes");
        }
    }
}
