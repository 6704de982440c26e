//! Offered load: rate, duration, flows, sizes.

use super::payload;
use crate::Error;
use std::time::Duration;

/// Ethernet header and frame check sequence.
const ETHERNET: usize = 14 + 4;
const UDP: usize = 8;

/// Frame sizes in bytes, frame check sequence included as the field counts them, each
/// with its share in parts of the sum.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SizeMix(Vec<(usize, u32)>);

impl SizeMix {
    /// The "simple IMIX" that router makers quote: seven of 64 bytes to four of 594 and one of 1518.
    pub fn imix() -> Self {
        Self(vec![(64, 7), (594, 4), (1518, 1)])
    }

    /// Frames of one size.
    pub fn fixed(frame_bytes: usize) -> Self {
        Self(vec![(frame_bytes, 1)])
    }

    /// The size of the `index`th packet: the mix dealt out evenly, the same in every run.
    pub fn frame_bytes(&self, index: u64) -> usize {
        let total: u64 = self.0.iter().map(|(_, share)| u64::from(*share)).sum();
        let Some(place) = index.checked_rem(total) else {
            return 0;
        };
        // A stride that shares no factor with the total deals the sizes out mixed, not in blocks.
        let stride = (total / 2..).find(|step| *step > 0 && coprime(*step, total)).unwrap_or(1);
        let mut place = (place * stride) % total;
        for (size, share) in &self.0 {
            match place.checked_sub(u64::from(*share)) {
                Some(rest) => place = rest,
                None => return *size,
            }
        }
        0
    }
}

fn coprime(mut a: u64, mut b: u64) -> bool {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a == 1
}

/// Bytes of UDP payload in a frame of so many bytes; at least what a probe carries, so
/// the smallest IPv6 frame is 84 bytes rather than 64.
pub fn payload_bytes(frame_bytes: usize, ipv6: bool) -> usize {
    let ip = if ipv6 { 40 } else { 20 };
    frame_bytes.saturating_sub(ETHERNET + ip + UDP).max(payload::LENGTH)
}

/// An offered load.
#[derive(Debug, Clone, PartialEq)]
pub struct Load {
    /// Packets per second, open loop: what is lost or late slows nothing down.
    pub rate_pps: f64,
    /// Duration.
    pub duration: Duration,
    /// Number of flows (a source port each), sent round robin: even ones IPv4, odd ones IPv6.
    pub flows: u16,
    /// Sizes of frames.
    pub sizes: SizeMix,
}

impl Default for Load {
    fn default() -> Self {
        Self {
            rate_pps: 20_000.0,
            duration: Duration::from_secs(2),
            flows: 64,
            sizes: SizeMix::imix(),
        }
    }
}

impl Load {
    /// Number of packets.
    pub fn packets(&self) -> u64 {
        // `as` saturates; checked to be a sensible number by `check`.
        (self.rate_pps * self.duration.as_secs_f64()).round() as u64
    }

    pub(super) fn check(&self) -> Result<(), Error> {
        let wrong = |reason: String| Err(Error::Data { path: "offered load".into(), reason });
        if !(self.rate_pps > 0.0 && self.rate_pps <= 1e7) {
            return wrong(format!(
                "{} packets per second; 1 to 10,000,000 can be offered",
                self.rate_pps
            ));
        }
        if self.flows == 0 || self.flows > 4096 {
            return wrong(format!("{} flows; 1 to 4096 can be offered", self.flows));
        }
        if let Some((size, _)) = self.sizes.0.iter().find(|(size, _)| !(64..=1518).contains(size)) {
            return wrong(format!("frames of {size} bytes; 64 to 1518 can be offered"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mix_keeps_its_shares_and_is_mixed() {
        let mix = SizeMix::imix();
        let sizes: Vec<_> = (0..24).map(|index| mix.frame_bytes(index)).collect();
        let count = |size| sizes.iter().filter(|found| **found == size).count();
        assert_eq!((count(64), count(594), count(1518)), (14, 8, 2));
        let changes = sizes.windows(2).filter(|pair| pair[0] != pair[1]).count();
        assert!(changes >= 10, "{sizes:?}");
    }

    #[test]
    fn frames_get_the_size_that_is_asked_for() {
        assert_eq!(payload_bytes(64, false), 18);
        assert_eq!(payload_bytes(64, true), 18);
        assert_eq!(payload_bytes(1518, false), 1472);
        assert_eq!(payload_bytes(1518, true), 1452);
    }

    #[test]
    fn impossible_loads_are_refused() {
        for load in [
            Load { rate_pps: 0.0, ..Load::default() },
            Load { rate_pps: f64::NAN, ..Load::default() },
            Load { flows: 0, ..Load::default() },
            Load { sizes: SizeMix::fixed(9000), ..Load::default() },
        ] {
            assert!(load.check().is_err(), "{load:?}");
        }
        assert!(Load::default().check().is_ok());
        assert_eq!(Load::default().packets(), 40_000);
    }
}
