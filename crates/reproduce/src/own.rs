//! The reader's own traffic in place of a paper's.

use crate::error::ReproduceError;
use std::path::Path;
use wattline_traffic::capture::Reader;
use wattline_traffic::rates::{self, RateStep};
use wattline_traffic::source::{Content, Links, Modulated, Replay, Silent, Source, Steps, Trace};
use wattline_traffic::spec::BuildError;

/// A capture, or rates over time, replayed once in full length.
#[derive(Debug, Clone)]
pub struct OwnTraffic {
    name: String,
    packets: Packets,
}

#[derive(Debug, Clone)]
enum Packets {
    Capture(Trace),
    Rates(Vec<RateStep>),
}

impl OwnTraffic {
    /// Reads a pcap or pcapng file.
    ///
    /// # Errors
    /// A file that cannot be read or has no packets.
    pub fn capture(file: &Path) -> Result<Self, ReproduceError> {
        let read = || Trace::read(&mut Reader::open(file)?);
        let trace = read().map_err(BuildError::from)?;
        Ok(Self { name: file.display().to_string(), packets: Packets::Capture(trace) })
    }

    /// Reads a CSV file with the columns `time_seconds` and `rate_pps`.
    ///
    /// # Errors
    /// A file that cannot be read; the message lists all its mistakes.
    pub fn rates(file: &Path) -> Result<Self, ReproduceError> {
        let steps = rates::load(file).map_err(BuildError::from)?;
        Ok(Self { name: file.display().to_string(), packets: Packets::Rates(steps) })
    }

    /// Describes the traffic, for a figure's text.
    pub(crate) fn describe(&self) -> String {
        let kind = match &self.packets {
            Packets::Capture(_) => "packets of the capture",
            Packets::Rates(_) => "Poisson arrivals at the rates of",
        };
        format!("{kind} {}, {:.6} s", self.name, self.seconds())
    }

    /// Duration in seconds.
    pub(crate) fn seconds(&self) -> f64 {
        match &self.packets {
            Packets::Capture(trace) => trace.seconds(),
            Packets::Rates(steps) => steps.iter().map(|step| step.seconds).sum(),
        }
    }

    /// Returns the mean length of a packet, if the traffic has lengths.
    pub(crate) fn mean_bytes(&self) -> Option<u16> {
        match &self.packets {
            Packets::Capture(trace) => Some(trace.mean_bytes().round() as u16),
            Packets::Rates(_) => None,
        }
    }

    /// Starts the packets. Packets at rates have this content.
    pub(crate) fn source(&self, content: Content, links: Links, seed: u64) -> Box<dyn Source> {
        match &self.packets {
            Packets::Capture(trace) => Box::new(Replay::new(trace, None, false, links)),
            Packets::Rates(steps) => match Steps::new(steps.clone(), 1.0) {
                Some(steps) => Box::new(Modulated::new(steps, content, seed)),
                None => Box::new(Silent),
            },
        }
    }
}
