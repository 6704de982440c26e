//! What to measure.

use std::fmt::Write as _;
use std::path::PathBuf;
use wattline_dataplane::frame::BATCH_MAX;

/// Which direction of a tunnel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Packets come in clear and leave through the tunnel.
    Send,
    /// Packets come out of the tunnel: authentication, decryption, replay window, selectors.
    Receive,
}

impl Direction {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Send, Self::Receive];

    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Send => "send",
            Self::Receive => "receive",
        }
    }

    /// The direction of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|direction| direction.name() == name)
    }
}

/// What to measure.
#[derive(Debug, Clone)]
pub struct Args {
    /// One of [`names`](super::names).
    pub application: String,
    /// A prefix per line; `None` for sixteen prefixes that hold all of IPv4.
    pub routes: Option<PathBuf>,
    /// Frames of each of these captures as a further workload.
    pub captures: Vec<PathBuf>,
    /// Flows that are alive, 1 to 2^24; packets are of random ones among them.
    pub flows: usize,
    /// Frames per batch, 1 to 64.
    pub batch: usize,
    /// Turns, of which the median counts.
    pub repeats: usize,
    /// What `ipsec` protects packets with.
    pub algorithm: String,
    /// Directions of `ipsec`.
    pub directions: Vec<Direction>,
    /// The harness of ipsec-mb, to be measured beside `ipsec`.
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
    /// The options that are not the defaults, as on the command line.
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
