//! Lengths of frames, in the order of sending.

use std::str::FromStr;

/// Shortest and longest Ethernet frame in bytes, frame check sequence included.
pub const FRAME_MIN: u16 = 64;
/// See [`FRAME_MIN`].
pub const FRAME_MAX: u16 = 1518;
/// Preamble, start delimiter and gap, which a frame occupies on a link in addition to its length.
pub const WIRE_OVERHEAD: u16 = 20;
/// Length of the frame check sequence, which frames in memory lack.
pub const FCS: u16 = 4;
const PARTS_MAX: u32 = 10_000;

/// A mix of frame lengths in an even order, the same in every run. Lengths include the frame check
/// sequence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sizes {
    name: String,
    order: Vec<u16>,
}

impl Sizes {
    /// Creates a mix of one length.
    pub fn fixed(bytes: u16) -> Self {
        Self { name: bytes.to_string(), order: vec![bytes] }
    }

    /// Returns the "simple IMIX" that vendors of routers quote: seven frames of 64 bytes, four of
    /// 594 and one of 1518.
    pub fn imix() -> Self {
        Self::mixed("imix", &[(64, 7), (594, 4), (1518, 1)])
    }

    /// Returns `IMIX_v4_1` of FD.io's CSIT: 28 frames of 64 bytes, 16 of 570 and four of 1518.
    pub fn imix_csit() -> Self {
        Self::mixed("imix-csit", &[(64, 28), (570, 16), (1518, 4)])
    }

    /// Creates a mix of lengths in this order. There must be at least one, all within Ethernet's
    /// range.
    pub(super) fn in_order(name: String, order: Vec<u16>) -> Self {
        Self { name, order }
    }

    fn mixed(name: &str, parts: &[(u16, u32)]) -> Self {
        let total: u32 = parts.iter().map(|(_, share)| share).sum();
        // A stride near the golden section without a common factor with the total mixes the lengths
        // instead of forming blocks.
        let golden = (f64::from(total) * 0.618) as u32;
        let stride = (golden.max(1)..).find(|step| coprime(*step, total)).unwrap_or(1);
        let length_at = |place: u32| {
            let mut before = 0;
            let found = parts.iter().find(|(_, share)| {
                before += share;
                place < before
            });
            found.map_or(FRAME_MIN, |(length, _)| *length)
        };
        let order = (0..total).map(|index| {
            let place = u64::from(index) * u64::from(stride) % u64::from(total);
            // The remainder is below the total, which has 32 bits.
            length_at(place as u32)
        });
        Self { name: name.to_owned(), order: order.collect() }
    }

    /// Returns the name: a length, `imix`, `imix-csit` or the list as given.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the length of the `index`th frame.
    #[inline]
    pub fn at(&self, index: u64) -> u16 {
        match self.order[..] {
            [only] => only,
            _ => self.order[(index % self.order.len() as u64) as usize],
        }
    }

    /// Returns the mean length in bytes.
    pub fn mean(&self) -> f64 {
        self.order.iter().map(|length| f64::from(*length)).sum::<f64>() / self.order.len() as f64
    }

    /// Returns the shortest length.
    pub fn shortest(&self) -> u16 {
        self.order.iter().copied().min().unwrap_or(FRAME_MIN)
    }

    /// Returns the longest length.
    pub fn longest(&self) -> u16 {
        self.order.iter().copied().max().unwrap_or(FRAME_MIN)
    }

    /// Returns the number of frames after which the order repeats.
    pub fn period(&self) -> usize {
        self.order.len()
    }
}

/// Parses `64` … `1518`, `imix`, `imix-csit`, or a list such as `64*7+594*4+1518*1`.
impl FromStr for Sizes {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        const FORMS: &str = "expected 64 to 1518 bytes, imix, imix-csit, or a list such as \
                             64*7+594*4+1518*1 with at most 10,000 frames";
        match text {
            "imix" => return Ok(Self::imix()),
            "imix-csit" => return Ok(Self::imix_csit()),
            _ => {}
        }
        let mut parts = Vec::new();
        for part in text.split('+') {
            let (length, share) = part.split_once('*').unwrap_or((part, "1"));
            let length: u16 = length.trim().parse().map_err(|_| FORMS.to_owned())?;
            let share: u32 = share.trim().parse().map_err(|_| FORMS.to_owned())?;
            if !(FRAME_MIN..=FRAME_MAX).contains(&length) || !(1..=PARTS_MAX).contains(&share) {
                return Err(FORMS.to_owned());
            }
            parts.push((length, share));
        }
        match parts[..] {
            [(length, _)] => Ok(Self::fixed(length)),
            _ if parts.iter().map(|(_, share)| share).sum::<u32>() > PARTS_MAX => {
                Err(FORMS.to_owned())
            }
            _ => Ok(Self::mixed(text, &parts)),
        }
    }
}

fn coprime(mut a: u32, mut b: u32) -> bool {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixes_keep_their_shares_and_are_mixed() {
        for (sizes, expected) in [
            (Sizes::imix(), [(64, 7), (594, 4), (1518, 1)]),
            (Sizes::imix_csit(), [(64, 28), (570, 16), (1518, 4)]),
            ("100*3+200*2+300*5".parse().unwrap(), [(100, 3), (200, 2), (300, 5)]),
        ] {
            let order: Vec<_> = (0..sizes.period() as u64).map(|index| sizes.at(index)).collect();
            for (length, share) in expected {
                assert_eq!(order.iter().filter(|found| **found == length).count(), share);
            }
            let changes = order.windows(2).filter(|pair| pair[0] != pair[1]).count();
            assert!(changes * 2 > order.len(), "{order:?}");
        }
        assert!((Sizes::imix().mean() - 361.833).abs() < 0.001);
    }

    #[test]
    fn lengths_outside_ethernet_are_refused() {
        for text in ["", "63", "1519", "imix2", "64*0", "64*", "64+", "-64", "64*20000"] {
            assert!(text.parse::<Sizes>().is_err(), "{text}");
        }
        assert_eq!("512".parse(), Ok(Sizes::fixed(512)));
    }
}
