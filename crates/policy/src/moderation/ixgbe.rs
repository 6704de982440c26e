//! The adaptive interrupt moderation of Intel's 10G driver.
//!
//! Source: Linux, drivers/net/ethernet/intel/ixgbe/ixgbe_main.c, `ixgbe_update_itr` and
//! `ixgbe_set_itr` (from 4.15 on), whose rule this is. The kernel's longest period is 126 us; here it
//! is the 84 us that Co-PI prints for its driver 5.6.1 (section II.A: ITR 40 to 336).
//!
//! Each interrupt judges what it brought, received and sent apart, and the shorter of both
//! periods holds:
//!
//! | packets | period |
//! |---|---|
//! | none | 2 us more |
//! | fewer than 4, of less than 9000 bytes together | by the mean length, halved |
//! | 4 to 47 | 2 us more |
//! | 48 to 95 | stays |
//! | 96 to 255 | half |
//! | 256 and more | by the mean length |

use super::Interrupt;
use wattline_units::Span;

const SHORTEST_MICROS: u32 = 10;
const LONGEST_MICROS: u32 = 84;
/// Periods are multiples of it, and the step upward.
const STEP_MICROS: u32 = 2;
/// Fewer bytes than this, in fewer packets than four, are no bulk transfer.
const FEW_BYTES: u32 = 9_000;

/// The rule with the present period.
#[derive(Debug, Clone)]
pub struct Ixgbe {
    micros: u32,
    /// Each direction's last request, and whether it was made for low latency: that sticks until
    /// the counts are large.
    received: u32,
    sent: u32,
}

impl Default for Ixgbe {
    fn default() -> Self {
        // The driver starts at 20,000 interrupts per second (IXGBE_20K_ITR): 50 us.
        Self { micros: 50, received: 50, sent: 50 }
    }
}

impl Ixgbe {
    /// The present period.
    pub fn period(&self) -> Span {
        Span::from_micros(self.micros.into())
    }

    /// Judges what one interrupt brought.
    pub fn interrupt(&mut self, seen: &Interrupt) -> Span {
        self.received = self.judge(seen.received, seen.received_bytes);
        self.sent = self.judge(seen.sent, seen.sent_bytes);
        self.micros = self.received.min(self.sent).clamp(SHORTEST_MICROS, LONGEST_MICROS);
        self.period()
    }

    fn judge(&self, packets: u32, bytes: u32) -> u32 {
        let more = (self.micros + STEP_MICROS).min(LONGEST_MICROS);
        match packets {
            0 => more,
            1..=3 if bytes < FEW_BYTES => by_length(bytes / packets, true),
            1..=47 => more,
            48..=95 => self.micros,
            96..=255 => (self.micros / 2).max(SHORTEST_MICROS),
            _ => by_length(bytes / packets, false),
        }
    }
}

/// The period for packets of this mean length: as many as a socket's buffer of 212,992 bytes
/// holds with 640 bytes of overhead each, at the rate of the link, in four straight pieces.
fn by_length(bytes: u32, low_latency: bool) -> u32 {
    let scaled = match bytes {
        0..=60 => 5_120,
        61..=316 => bytes * 40 + 2_720,
        317..=1084 => bytes * 15 + 11_452,
        1085..=1967 => bytes * 5 + 22_420,
        _ => 32_256,
    };
    let scaled = if low_latency { scaled / 2 } else { scaled };
    scaled.div_ceil(STEP_MICROS * 256) * STEP_MICROS
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn received(rule: &mut Ixgbe, packets: u32, length: u32) -> u64 {
        // Sent alike, so that the judgement of what was received decides.
        let seen = Interrupt {
            received: packets,
            received_bytes: packets * length,
            sent: packets,
            sent_bytes: packets * length,
            ..Interrupt::default()
        };
        rule.interrupt(&seen).as_picos() / 1_000_000
    }

    #[test]
    fn a_few_short_packets_are_latency_driven() {
        let mut rule = Ixgbe::default();
        // 60 bytes: 5120 / 2 = 2560, of 512 each: 5 steps of 2 us.
        assert_eq!(received(&mut rule, 1, 60), 10);
        // 128 bytes: (128 * 40 + 2720) / 2 = 3920: 8 steps.
        assert_eq!(received(&mut rule, 3, 128), 16);
        // 1514 bytes: (1514 * 5 + 22420) / 2 = 14995: 30 steps.
        assert_eq!(received(&mut rule, 2, 1514), 60);
    }

    #[test]
    fn small_batches_lengthen_the_period_and_large_ones_shorten_it() {
        let mut rule = Ixgbe::default();
        assert_eq!(received(&mut rule, 10, 100), 52);
        assert_eq!(received(&mut rule, 47, 100), 54);
        assert_eq!(received(&mut rule, 60, 100), 54);
        assert_eq!(received(&mut rule, 200, 100), 27);
        assert_eq!(received(&mut rule, 200, 100), 13);
        assert_eq!(received(&mut rule, 200, 100), 10, "no shorter");
        // 256 packets of 600 bytes: 600 * 15 + 11452 = 20452: 40 steps of 512.
        assert_eq!(received(&mut rule, 256, 600), 80);
        for _ in 0..40 {
            received(&mut rule, 20, 100);
        }
        assert_eq!(rule.period(), Span::from_micros(84), "no longer");
    }

    #[test]
    fn the_shorter_of_both_directions_holds() {
        let mut rule = Ixgbe::default();
        let seen = Interrupt {
            received: 1,
            received_bytes: 60,
            sent: 2,
            sent_bytes: 3028,
            ..Interrupt::default()
        };
        assert_eq!(rule.interrupt(&seen), Span::from_micros(10));
        let nothing = Interrupt::default();
        assert_eq!(rule.interrupt(&nothing), Span::from_micros(12));
    }

    proptest! {
        #[test]
        fn stays_in_the_range_that_the_paper_prints(
            batches in prop::collection::vec((0u32..1024, 0u32..65_536, 0u32..1024, 0u32..65_536), 1..50)
        ) {
            let mut rule = Ixgbe::default();
            for (received, length, sent, other) in batches {
                let seen = Interrupt {
                    received,
                    received_bytes: received * length,
                    sent,
                    sent_bytes: sent * other,
                    ..Interrupt::default()
                };
                let period = rule.interrupt(&seen);
                prop_assert!((Span::from_micros(10)..=Span::from_micros(84)).contains(&period));
            }
        }
    }
}
