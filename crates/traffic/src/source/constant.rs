//! Packets at a constant rate, without bursts.

use super::{Content, Rate, Source};
use crate::capture::CaptureError;
use crate::packet::Block;

/// Packets at a constant rate. A rate in packets spaces them equally. A rate in bits spaces each by
/// its own length, so that the bit rate is constant at any moment.
#[derive(Debug, Clone)]
pub struct Constant {
    content: Content,
    spacing: Spacing,
    picos: f64,
}

#[derive(Debug, Clone, Copy)]
enum Spacing {
    PerPacket(f64),
    PerByte { picos: f64, overhead: f64 },
}

impl Constant {
    /// Makes the source; the rate must be positive.
    pub fn new(rate: Rate, content: Content) -> Self {
        let spacing = match rate {
            Rate::Packets(rate) => Spacing::PerPacket(1e12 / rate),
            Rate::Bits(rate) => Spacing::PerByte { picos: 8e12 / rate, overhead: 0.0 },
            Rate::Link { bits, overhead } => {
                Spacing::PerByte { picos: 8e12 / bits, overhead: overhead.into() }
            }
        };
        Self { content, spacing, picos: 0.0 }
    }
}

impl Source for Constant {
    fn next_block(&mut self, out: &mut Block) -> Result<(), CaptureError> {
        let Self { content, spacing, picos } = self;
        match *spacing {
            Spacing::PerPacket(gap) => content.fill(out, |_| {
                *picos += gap;
                *picos
            }),
            Spacing::PerByte { picos: gap, overhead } => content.fill(out, |length| {
                *picos += gap * (f64::from(length) + overhead);
                *picos
            }),
        }
        Ok(())
    }
}
