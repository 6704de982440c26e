//! The adaptive interrupt moderation of Intel's 10G driver.
//!
//! Source: Intel's own ixgbe 5.6.1, the driver in Co-PI's paper, src/ixgbe_main.c,
//! `ixgbe_update_itr` and `ixgbe_set_itr` (<https://github.com/intel/ethernet-linux-ixgbe>), which
//! define the rule. Linux's own driver has other branches and 126 us as its longest period.
//!
//! Once all work of an interrupt is done, its packets are judged, received and sent ones
//! separately. The shorter of both periods applies, and a period for bulk takes precedence over one
//! for low latency:
//!
//! | packets | period | for |
//! |---|---|---|
//! | received, 1 to 23 of less than 12,112 bytes together | eight times as much in the next one, 10 to 50 us, at most 2 us less than before | latency |
//! | fewer than 48 | 2 us more | latency below 8, else as before |
//! | 48 to 95 | stays | bulk |
//! | 96 to 255 | half | bulk |
//! | 256 and more | by the mean length | bulk |
//!
//! After more than a jiffy without a judgement the shortest period applies.

use super::Interrupt;
use wattline_units::{Span, Time};

const SHORTEST_MICROS: u32 = 10;
/// Longest period. The rule for 256 packets and more could give up to 126 us, which exceeds the
/// range printed by Co-PI (section II.A: ITR 40 to 336).
const LONGEST_MICROS: u32 = 84;
/// Periods are multiples of this step, and grow by it.
const STEP_MICROS: u32 = 2;
/// Mark of a low-latency period, which makes it compare as longer than any for bulk.
const LATENCY: u32 = 0x80;
/// Fewer bytes than this, in fewer packets than [`FEW_PACKETS`], are no bulk transfer.
const FEW_BYTES: u32 = 12_112;
const FEW_PACKETS: u32 = 24;
/// Ethernet's bytes around a frame, as the driver counts them.
const OVERHEAD: u32 = 24;
/// Ubuntu's kernel has 250 jiffies a second.
const JIFFY: Span = Span::from_millis(4);

/// The rule with the present period.
#[derive(Debug, Clone)]
pub struct Ixgbe {
    micros: u32,
    /// Last period of each direction, with its mark.
    received: u32,
    sent: u32,
    /// Jiffy of the last judgement.
    judged: Option<u64>,
}

impl Default for Ixgbe {
    fn default() -> Self {
        // The driver starts at 20,000 interrupts per second (IXGBE_20K_ITR): 50 us.
        let direction = LONGEST_MICROS | LATENCY;
        Self { micros: 50, received: direction, sent: direction, judged: None }
    }
}

impl Ixgbe {
    /// Returns the present period.
    pub fn period(&self) -> Span {
        Span::from_micros(self.micros.into())
    }

    /// Judges the packets of an interrupt.
    pub fn interrupt(&mut self, seen: &Interrupt) -> Span {
        let jiffy = seen.at.since(Time::ZERO).times(JIFFY);
        let is_late = self.judged.is_some_and(|judged| jiffy > judged + 1);
        self.judged = Some(jiffy);
        if is_late {
            (self.received, self.sent) = (SHORTEST_MICROS | LATENCY, SHORTEST_MICROS | LATENCY);
        } else {
            self.received = match few(seen.received, seen.received_bytes) {
                Some(wanted) if wanted < self.received => self.received - STEP_MICROS,
                Some(wanted) => wanted,
                None => self.judge(self.received, seen.received, seen.received_bytes),
            };
            self.sent = self.judge(self.sent, seen.sent, seen.sent_bytes);
        }
        // The register holds only even microseconds.
        let shorter = self.received.min(self.sent) & (LATENCY - STEP_MICROS);
        self.micros = shorter.clamp(SHORTEST_MICROS, LONGEST_MICROS);
        self.period()
    }

    fn judge(&self, before: u32, packets: u32, bytes: u32) -> u32 {
        let more = (self.micros + STEP_MICROS).min(LONGEST_MICROS);
        match packets {
            0..=7 => more | LATENCY,
            8..=47 => more | (before & LATENCY),
            48..=95 => self.micros,
            96..=255 => (self.micros / 2).max(SHORTEST_MICROS),
            _ => by_length(bytes / packets),
        }
    }
}

/// Returns the period for a few received packets, with its mark.
fn few(packets: u32, bytes: u32) -> Option<u32> {
    if !(1..FEW_PACKETS).contains(&packets) || bytes >= FEW_BYTES {
        return None;
    }
    let scaled = ((bytes + packets * OVERHEAD) * 2).clamp(2_560, 12_800);
    Some(steps(scaled) | LATENCY)
}

/// Returns the period for packets of this mean length: the time in which the link delivers as many
/// as a socket's buffer of 212,992 bytes holds with 640 bytes of overhead each, approximated by
/// four straight pieces.
fn by_length(bytes: u32) -> u32 {
    let scaled = match bytes {
        0..=60 => 5_120,
        61..=316 => bytes * 40 + 2_720,
        317..=1084 => bytes * 15 + 11_452,
        1085..=1980 => bytes * 5 + 22_420,
        _ => 32_256,
    };
    steps(scaled)
}

/// Rounds a period in 256ths of a microsecond up to whole steps.
fn steps(scaled: u32) -> u32 {
    scaled.div_ceil(STEP_MICROS * 256) * STEP_MICROS
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns the period after an interrupt that received and sent these numbers of packets of
    /// this length.
    fn after(rule: &mut Ixgbe, received: u32, sent: u32, length: u32) -> u64 {
        let seen = Interrupt {
            received,
            received_bytes: received * length,
            sent,
            sent_bytes: sent * length,
            ..Interrupt::default()
        };
        rule.interrupt(&seen).as_picos() / 1_000_000
    }

    #[test]
    fn a_few_short_packets_shorten_the_period_step_by_step() {
        let mut rule = Ixgbe::default();
        // It starts from 84 us and goes down to (100 + 24) * 2, of at least 2560: 10 us.
        let periods: Vec<u64> = (0..40).map(|_| after(&mut rule, 1, 1, 100)).collect();
        assert_eq!(periods[0], 52, "2 us more than 50 for what was sent, 82 for what was received");
        assert_eq!(periods[39], 10, "{periods:?}");
        assert!(periods.windows(2).all(|pair| pair[1] + 2 >= pair[0]), "{periods:?}");
    }

    #[test]
    fn few_packets_aim_at_eight_times_as_much() {
        let mut rule = Ixgbe { received: 10 | LATENCY, ..Ixgbe::default() };
        // (12 * 200 + 12 * 24) * 2 = 5376: 11 steps of 512.
        assert_eq!(after(&mut rule, 12, 12, 200), 22);
        // 23 packets of 500 bytes: (11500 + 552) * 2 = 24104, at most 12800: 50 us; sent: 22 + 2.
        assert_eq!(after(&mut rule, 23, 23, 500), 24);
        assert_eq!(rule.received, 50 | LATENCY);
    }

    #[test]
    fn middling_batches_lengthen_the_period_and_large_ones_shorten_it() {
        let mut rule = Ixgbe::default();
        assert_eq!(after(&mut rule, 30, 30, 600), 52);
        assert_eq!(after(&mut rule, 47, 47, 600), 54);
        assert_eq!(after(&mut rule, 60, 60, 600), 54);
        assert_eq!(after(&mut rule, 200, 200, 600), 26, "27, and no odd ones");
        assert_eq!(after(&mut rule, 200, 200, 600), 12);
        assert_eq!(after(&mut rule, 200, 200, 600), 10, "no shorter");
        // 256 packets of 600 bytes: 600 * 15 + 11452 = 20452: 40 steps of 512.
        assert_eq!(after(&mut rule, 256, 256, 600), 80);
        for _ in 0..40 {
            after(&mut rule, 30, 30, 600);
        }
        assert_eq!(rule.period(), Span::from_micros(84), "no longer");
    }

    #[test]
    fn bulk_goes_before_low_latency() {
        let mut rule = Ixgbe { received: 10 | LATENCY, ..Ixgbe::default() };
        assert_eq!(after(&mut rule, 1, 60, 100), 50, "not the 10 us of the one that was received");
    }

    #[test]
    fn pause_of_two_jiffies_gives_the_shortest_period() {
        let mut rule = Ixgbe::default();
        let at = |millis| Interrupt {
            at: Time::ZERO + Span::from_millis(millis),
            received: 30,
            received_bytes: 30_000,
            ..Interrupt::default()
        };
        assert_eq!(rule.interrupt(&at(1)), Span::from_micros(52));
        assert_eq!(rule.interrupt(&at(7)), Span::from_micros(54));
        assert_eq!(rule.interrupt(&at(12)), Span::from_micros(10));
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
