//! SAMPLEBYTE: windows that begin with a byte of a fixed set, then half a period is skipped.
//!
//! This is the cheapest method: one look-up per byte, and none for half of the bytes. EndRE trains
//! the set on the traffic. Here it is fixed: half of it is spread over all values, and half is
//! neither rare nor too common in text, so that binary content and text are both sampled.

use super::sample::{Sample, WINDOW, push};

/// Bytes of text, which alternate with bytes spread over all values.
const TEXT: &[u8; 32] = b"dlucmpfgaonhrist0123e<=/\"DSCAT,-";

pub(super) struct SampleByte {
    begins: Box<[bool; 256]>,
    skip: usize,
}

impl SampleByte {
    pub fn new(period: usize) -> Self {
        let skip = period / 2;
        // With this many of 256 values, the next match is half a period away on average.
        let wanted = (256 / skip.max(1)).clamp(2, 128);
        let mut begins = Box::new([false; 256]);
        let mut chosen = 0;
        for turn in 0..256usize {
            let spread = (turn * 151 + 131) % 256;
            for byte in [Some(spread), TEXT.get(turn).map(|byte| usize::from(*byte))] {
                let Some(byte) = byte.filter(|byte| chosen < wanted && !begins[*byte]) else {
                    continue;
                };
                begins[byte] = true;
                chosen += 1;
            }
        }
        Self { begins, skip }
    }

    pub fn select(&self, payload: &[u8], samples: &mut Vec<Sample>) {
        let Some(count) = (payload.len() + 1).checked_sub(WINDOW) else { return };
        let starts = payload.get(..count).unwrap_or_default();
        let mut at = 0;
        while let Some(rest) = starts.get(at..) {
            let Some(wait) = rest.iter().position(|byte| self.begins[usize::from(*byte)]) else {
                break;
            };
            push(samples, payload, at + wait);
            at += wait + self.skip.max(1);
        }
    }
}
