//! Arguments of `wattline bench app`.

use std::fmt::Write as _;
use std::path::PathBuf;
use wattline_dataplane::frame::BATCH_MAX;
use wattline_units::named;

named! {
    /// Direction of traffic through an IPsec tunnel.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Direction {
        /// Packets arrive in clear and leave through the tunnel.
        Send = "send",
        /// Packets leave the tunnel: authentication, decryption, replay window, selectors.
        Receive = "receive",
    }
}

impl Direction {
    /// Direction with this name, if there is one.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|direction| direction.name() == name)
    }
}

/// Arguments of the application benchmark.
#[derive(Debug, Clone)]
pub struct Args {
    /// Application to measure, one of [`names`](super::names).
    pub application: String,
    /// File of routes, one prefix per line; `None` for sixteen prefixes that cover all of IPv4.
    pub routes: Option<PathBuf>,
    /// Captures; the frames of each one are a further workload.
    pub captures: Vec<PathBuf>,
    /// Number of live flows, 1 to 2^24; each packet belongs to a random one of them.
    pub flows: usize,
    /// Frames per batch, 1 to 64.
    pub batch: usize,
    /// Number of timed repeats; the report gives their median.
    pub repeats: usize,
    /// Name of the algorithm with which `ipsec` protects packets.
    pub algorithm: String,
    /// Directions of `ipsec` to measure.
    pub directions: Vec<Direction>,
    /// Path of the ipsec-mb harness; if given, it is measured along with `ipsec`.
    pub peer: Option<PathBuf>,
}

impl Default for Args {
    fn default() -> Self {
        Self {
            application: "ipv4".to_owned(),
            routes: None,
            captures: Vec::new(),
            flows: 1_000_000,
            batch: BATCH_MAX,
            repeats: 31,
            algorithm: "aes128-gcm".to_owned(),
            directions: Direction::ALL.to_vec(),
            peer: None,
        }
    }
}

impl Args {
    /// Options that differ from the defaults, written as on the command line.
    pub(super) fn options(&self) -> String {
        let mut text = String::new();
        let default = Self::default();
        let mut option = |name: &str, value: &dyn std::fmt::Display, given: bool| {
            if given {
                // Writing into a string cannot fail.
                let _ = write!(text, " --{name} {value}");
            }
        };
        let files = [
            ("routes", self.routes.as_slice()),
            ("capture", &self.captures),
            ("peer", self.peer.as_slice()),
        ];
        for (name, files) in files {
            files.iter().for_each(|file| option(name, &file.display(), true));
        }
        option("flows", &self.flows, self.flows != default.flows);
        option("batch", &self.batch, self.batch != default.batch);
        option("repeats", &self.repeats, self.repeats != default.repeats);
        option("algorithm", &self.algorithm, self.algorithm != default.algorithm);
        let narrowed = self.directions != default.directions;
        self.directions.iter().for_each(|it| option("direction", &it.name(), narrowed));
        text.trim_start().to_owned()
    }
}
