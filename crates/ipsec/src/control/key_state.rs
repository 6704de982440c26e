//! State of a key, and its text on disk.
//!
//! ```text
//! wattline key state 2
//! key 5a02ab3ff1307c4d
//! role send
//! sequence 0x00001002 16777216
//! ivs 5d2f0c1ab93e7700 5d2f0c1aba3e76ff
//! sha256 0123456789abcdef
//! ```
//!
//! The second line names the key, so that the file of another key is not mistaken for this one. An
//! SPI that receives has the number 0: its received numbers are in another file. The last line is a
//! checksum of the lines before it. A text that differs in any byte from the canonical text of its
//! contents is refused.

use super::iv_ranges::{IvRange, IvRanges};
use aws_lc_rs::digest::{SHA256, digest};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Length of the longest text in bytes.
pub(super) const LONGEST: usize = 1 << 20;

/// Direction in which a key is used. One key for both would repeat the nonces of the other end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Send,
    Receive,
}

impl Role {
    const fn name(self) -> &'static str {
        match self {
            Self::Send => "send",
            Self::Receive => "receive",
        }
    }
}

/// Use of a key so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KeyState {
    /// Fingerprint of the cipher's key.
    pub key: u64,
    pub role: Role,
    /// Highest sequence number that may have been sent under each SPI; 0 for an SPI that receives.
    pub sequences: BTreeMap<u32, u64>,
    /// IVs that may have been sent.
    pub used: IvRanges,
}

impl KeyState {
    /// Makes the state of a key that was never used.
    pub fn new(key: u64, role: Role) -> Self {
        Self { key, role, sequences: BTreeMap::new(), used: IvRanges::default() }
    }

    /// Returns the text of this state.
    pub fn text(&self) -> String {
        let Self { key, role, .. } = self;
        let mut text = format!("wattline key state 2\nkey {key:016x}\nrole {}\n", role.name());
        for (spi, number) in &self.sequences {
            let _ = writeln!(text, "sequence {spi:#010x} {number}");
        }
        for IvRange { first, last } in self.used.iter() {
            let _ = writeln!(text, "ivs {first:016x} {last:016x}");
        }
        let sum = digest(&SHA256, text.as_bytes());
        let sum = u64::from_be_bytes(*sum.as_ref().first_chunk().unwrap_or(&[0; 8]));
        let _ = writeln!(text, "sha256 {sum:016x}");
        text
    }

    /// Parses a text; returns `None` if it differs from the text that [`Self::text`] would write.
    pub fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines().skip(1);
        let key = u64::from_str_radix(lines.next()?.strip_prefix("key ")?, 16).ok()?;
        let role = match lines.next()? {
            "role send" => Role::Send,
            "role receive" => Role::Receive,
            _ => return None,
        };
        let mut state = Self::new(key, role);
        for line in lines {
            let mut words = line.split(' ');
            match (words.next()?, words.next()?, words.next()) {
                ("sequence", spi, Some(number)) => {
                    let spi = u32::from_str_radix(spi.strip_prefix("0x")?, 16).ok()?;
                    state.sequences.insert(spi, number.parse().ok()?);
                }
                ("ivs", first, Some(last)) => {
                    let end = |text| u64::from_str_radix(text, 16).ok();
                    let range = IvRange { first: end(first)?, last: end(last)? };
                    (range.first <= range.last).then(|| state.used.add(range))?;
                }
                ("sha256", _, None) => {}
                _ => return None,
            }
        }
        (state.text() == text).then_some(state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::iv_ranges::tests::Random;

    #[test]
    fn only_canonical_text_is_parsed() {
        let mut state = KeyState::new(0x5a02, Role::Send);
        assert_eq!(KeyState::parse(&state.text()), Some(state.clone()));
        state.sequences = [(0x1002, 7), (u32::MAX, u64::MAX)].into();
        for (first, last) in [(0, 0), (77, 1 << 40), (u64::MAX, u64::MAX)] {
            state.used.add(IvRange { first, last });
        }
        let text = state.text();
        assert_eq!(KeyState::parse(&text), Some(state));
        assert_eq!(KeyState::parse(&text.replace("send", "receive")), None);
        for cut in 0..text.len() {
            assert_eq!(KeyState::parse(&text[..cut]), None, "{cut}");
        }
        for at in 0..text.len() {
            for bit in 0..8 {
                let mut bytes = text.clone().into_bytes();
                bytes[at] ^= 1 << bit;
                let text = String::from_utf8_lossy(&bytes);
                assert_eq!(KeyState::parse(&text), None, "byte {at}, bit {bit}");
            }
        }
    }

    #[test]
    fn longest_text_is_read() {
        let mut state = KeyState::new(0x5a02, Role::Send);
        let mut random = Random(3);
        for _ in 0..5000 {
            let first = random.next();
            state.used.add(IvRange { first, last: first });
        }
        let text = state.text();
        assert!(text.len() < LONGEST / 4);
        assert_eq!(KeyState::parse(&text), Some(state));
    }
}
