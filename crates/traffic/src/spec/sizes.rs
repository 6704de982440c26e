//! Parses packet lengths as people write them.

use super::capture_file::CaptureFile;
use crate::Sizes;
use crate::capture::CaptureError;
use std::collections::BTreeMap;
use std::path::Path;

/// Forms of lengths, for error messages.
pub(super) const FORMS: &str = "20 to 65535 bytes; imix; a list such as 64*7+594*4+1518*1; \
                                or a file whose name ends in .pcap or .pcapng";

#[derive(Debug, Clone, PartialEq)]
pub(super) enum SizeSpec {
    Fixed(u16),
    Weighted(Vec<(u16, f64)>),
    /// Lengths of a capture's packets, weighted by their frequency.
    Empirical(CaptureFile),
}

impl SizeSpec {
    pub(super) fn parse(text: &str) -> Result<Self, &'static str> {
        if text.eq_ignore_ascii_case("imix") {
            return Ok(Self::Weighted(Sizes::IMIX.to_vec()));
        }
        if text.ends_with(".pcap") || text.ends_with(".pcapng") {
            return Ok(Self::Empirical(text.into()));
        }
        if !text.contains(['*', '+']) {
            return bytes(text).map(Self::Fixed);
        }
        let list = text
            .split('+')
            .map(|part| {
                let (size, weight) = part.split_once('*').unwrap_or((part, "1"));
                let weight =
                    weight.trim().parse().map_err(|_| "has a weight that is not a number")?;
                Ok((bytes(size)?, weight))
            })
            .collect::<Result<Vec<_>, _>>()?;
        Sizes::weighted(&list).ok_or("has weights that are negative or all zero")?;
        Ok(Self::Weighted(list))
    }

    /// Mean in bytes, if it is known without reading a file.
    pub(super) fn mean(&self) -> Option<f64> {
        match self {
            Self::Fixed(bytes) => Some(f64::from(*bytes)),
            Self::Weighted(list) => Sizes::weighted(list).map(|sizes| sizes.mean()),
            Self::Empirical(_) => None,
        }
    }

    /// Returns the capture whose lengths are used.
    pub(super) fn capture(&self) -> Option<&Path> {
        match self {
            Self::Empirical(file) => Some(file.path()),
            Self::Fixed(_) | Self::Weighted(_) => None,
        }
    }

    pub(super) fn load(&self) -> Result<Sizes, CaptureError> {
        match self {
            Self::Fixed(bytes) => Ok(Sizes::fixed(*bytes)),
            // The weights were checked when the list was parsed.
            Self::Weighted(list) => Ok(Sizes::weighted(list).unwrap_or(Sizes::fixed(64))),
            Self::Empirical(file) => {
                let trace = file.read()?;
                let mut counts = BTreeMap::new();
                for packet in trace.packets() {
                    *counts.entry(packet.length).or_insert(0.0) += 1.0;
                }
                let list: Vec<(u16, f64)> = counts.into_iter().collect();
                // A trace has at least one packet, so the weights are valid.
                Ok(Sizes::weighted(&list).unwrap_or(Sizes::fixed(64)))
            }
        }
    }
}

fn bytes(text: &str) -> Result<u16, &'static str> {
    match text.trim().parse::<u32>() {
        Ok(value @ 20..=65_535) => Ok(value as u16),
        Ok(_) => Err("is out of range"),
        Err(_) => Err("is not a length"),
    }
}
