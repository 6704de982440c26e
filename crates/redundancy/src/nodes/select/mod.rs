//! Selection of the windows of a payload whose fingerprints are looked up and stored.
//!
//! A window is [`WINDOW`] bytes. Processing every window costs too much, so about one in `period`
//! is selected. The selection depends on the content and not on the position, so repeated content
//! that is shifted has the same windows selected again.
//!
//! - MODP: fingerprints that are small enough (Spring and Wetherall, SIGCOMM 2000, after Rabin
//!   and Manber)
//! - MAXP: local maxima of a cheap hash (Anand et al., SIGMETRICS 2009, after Bjørner et al.)
//! - SAMPLEBYTE: windows that begin with one of a set of bytes, then half a period is skipped
//!   (Aggarwal et al., EndRE, NSDI 2010)

mod maxp;
mod modp;
mod sample;
mod samplebyte;

use maxp::Maxp;
use modp::Modp;
use sample::{MOST_SAMPLES, push};
use samplebyte::SampleByte;
use wattline_packet::redundancy::LONGEST_PAYLOAD;
use wattline_units::named;

pub use sample::{SHORTEST_PERIOD, Sample, WINDOW};

named! {
    /// Method of selecting windows.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Selection {
        /// Selection by the value of the fingerprint.
        Modp = "modp",
        /// Selection of local maxima.
        Maxp = "maxp",
        /// Selection by the first byte.
        SampleByte = "samplebyte",
    }
}

/// Selects windows; one per worker, since it has working memory.
pub struct Selector {
    how: How,
    samples: Vec<Sample>,
}

enum How {
    Modp(Modp),
    Maxp(Maxp),
    SampleByte(SampleByte),
}

impl Selector {
    /// Makes a selector of about one window in `period`, which is at least [`SHORTEST_PERIOD`].
    #[must_use]
    pub fn new(selection: Selection, period: usize) -> Self {
        let period = period.max(SHORTEST_PERIOD);
        let how = match selection {
            Selection::Modp => How::Modp(Modp::new(period)),
            Selection::Maxp => How::Maxp(Maxp::new(period)),
            Selection::SampleByte => How::SampleByte(SampleByte::new(period)),
        };
        Self { how, samples: Vec::with_capacity(MOST_SAMPLES + 1) }
    }

    /// Returns the selected windows of a payload, in their order.
    pub fn select(&mut self, payload: &[u8]) -> &[Sample] {
        self.samples.clear();
        let payload = &payload[..payload.len().min(LONGEST_PAYLOAD)];
        let Some(last) = payload.len().checked_sub(WINDOW) else { return &[] };
        match &mut self.how {
            How::Modp(modp) => modp.select(payload, &mut self.samples),
            How::Maxp(maxp) => maxp.select(payload, &mut self.samples),
            How::SampleByte(bytes) => bytes.select(payload, &mut self.samples),
        }
        if self.samples.is_empty() {
            // In content without contrast, such as zeros, any window will do.
            push(&mut self.samples, payload, last / 2);
        }
        &self.samples
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::sample::fingerprint;
    use super::*;
    use proptest::prelude::*;

    /// Returns pseudo-random bytes, the same in every run.
    pub fn noise(seed: u64, length: usize) -> Vec<u8> {
        let mut state = seed.wrapping_mul(2) + 1;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 56) as u8
        };
        (0..length).map(|_| next()).collect()
    }

    #[test]
    fn about_one_window_in_a_period_is_selected() {
        for selection in Selection::ALL {
            for period in [8, 16, 32, 64, 128] {
                let mut selector = Selector::new(selection, period);
                let mut count = 0;
                for seed in 0..200 {
                    count += selector.select(&noise(seed, 1400)).len();
                }
                let expected = 200 * (1400 - WINDOW) / period;
                let name = selection.name();
                assert!(count * 10 > expected * 7, "{name} {period}: {count} of {expected}");
                assert!(count * 10 < expected * 14, "{name} {period}: {count} of {expected}");
            }
        }
    }

    #[test]
    fn content_without_contrast_has_a_window_too() {
        for selection in Selection::ALL {
            let mut selector = Selector::new(selection, 32);
            assert!(!selector.select(&[0; 1400]).is_empty());
            assert!(selector.select(&[0; WINDOW - 1]).is_empty());
            assert_eq!(selector.select(&[0; WINDOW]).len(), 1);
            assert!(selector.select(&vec![7; 70_000]).len() <= MOST_SAMPLES);
        }
    }

    proptest! {
        /// Content that is shifted has the same windows selected, except near its ends.
        #[test]
        fn selection_follows_the_content(seed: u64, shift in 0usize..600, which in 0usize..3) {
            let mut selector = Selector::new(Selection::ALL[which], 32);
            let content = noise(seed, 1000);
            let alone: Vec<Sample> = selector.select(&content).to_vec();
            let moved = [noise(!seed, shift), content.clone()].concat();
            let there: Vec<Sample> = selector.select(&moved).to_vec();
            let inner = alone.iter().filter(|sample| (300..900).contains(&sample.offset));
            for sample in inner {
                let expected = Sample { offset: sample.offset + shift as u16, ..*sample };
                prop_assert!(there.contains(&expected), "{:?}", sample);
            }
        }

        #[test]
        fn any_payload_gives_windows_inside_it(payload: Vec<u8>, which in 0usize..3) {
            let mut selector = Selector::new(Selection::ALL[which], 8);
            let samples = selector.select(&payload);
            prop_assert_eq!(samples.is_empty(), payload.len() < WINDOW);
            for pair in samples.windows(2) {
                prop_assert!(pair[0].offset < pair[1].offset);
            }
            for sample in samples {
                let window = payload[usize::from(sample.offset)..].first_chunk().unwrap();
                prop_assert_eq!(sample.fingerprint, fingerprint(window));
            }
        }
    }
}
