//! The older adaptive moderation of Intel's 10G driver, in three classes.
//!
//! Source: Linux before 4.15, drivers/net/ethernet/intel/ixgbe/ixgbe_main.c, `ixgbe_update_itr` and
//! `ixgbe_set_itr`, which define the rule. Its classes are 100,000, 20,000 and 12,000 interrupts
//! per second (10, 50 and 84 us). The extremes are those that Co-PI prints for its driver, so this
//! may be the rule it used. The kernel's present rule is [`super::ixgbe`].
//!
//! At each interrupt, the bytes per microsecond of its period are compared with 10 and 20. Each
//! direction has its class, the longer period applies, and the change is smoothed.

use super::Interrupt;
use wattline_units::Span;

/// Periods of the classes in register units of a quarter of a microsecond.
const CLASSES: [u32; 3] = [40, 200, 336];
/// Bytes per microsecond up to which the first and the second class apply.
const BYTES_PER_MICRO: [u32; 2] = [10, 20];

/// The rule with the present period.
#[derive(Debug, Clone)]
pub struct IxgbeClassic {
    /// Present period in quarters of a microsecond.
    register: u32,
    /// Class of the received packets.
    received: usize,
    /// Class of the sent packets.
    sent: usize,
}

impl Default for IxgbeClassic {
    fn default() -> Self {
        // IXGBE_20K_ITR, in the middle class.
        Self { register: CLASSES[1], received: 1, sent: 1 }
    }
}

impl IxgbeClassic {
    /// Returns the present period, rounded down to the 2 us steps of the card.
    pub fn period(&self) -> Span {
        Span::from_micros(u64::from(self.register / 8 * 2))
    }

    /// Takes the packets of an interrupt, and returns the next period.
    pub fn interrupt(&mut self, seen: &Interrupt) -> Span {
        let micros = (self.register / 4).max(1);
        let judge = |class: usize, packets: u32, bytes: u32| {
            let per_micro = bytes / micros;
            match class {
                _ if packets == 0 => class,
                0 if per_micro > BYTES_PER_MICRO[0] => 1,
                1 if per_micro > BYTES_PER_MICRO[1] => 2,
                1 if per_micro <= BYTES_PER_MICRO[0] => 0,
                2 if per_micro <= BYTES_PER_MICRO[1] => 1,
                same => same,
            }
        };
        self.received = judge(self.received, seen.received, seen.received_bytes);
        self.sent = judge(self.sent, seen.sent, seen.sent_bytes);
        let wanted = CLASSES[self.received.max(self.sent)];
        if wanted != self.register {
            // Covers a tenth of the distance, in terms of rates.
            self.register = 10 * wanted * self.register / (9 * wanted + self.register);
            self.register = self.register.clamp(CLASSES[0], CLASSES[2]);
        }
        self.period()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interrupts(rule: &mut IxgbeClassic, count: usize, bytes: u32, packets: u32) -> u64 {
        for _ in 0..count {
            let seen = Interrupt {
                received: packets,
                received_bytes: bytes,
                sent: packets,
                sent_bytes: bytes,
                ..Interrupt::default()
            };
            rule.interrupt(&seen);
        }
        rule.period().as_picos() / 1_000_000
    }

    #[test]
    fn the_class_follows_bytes_per_microsecond_step_by_step() {
        let mut rule = IxgbeClassic::default();
        // 2 bytes per us of 50: the lowest class; 10 x 40 x 200 / (9 x 40 + 200) = 142: 34 us.
        assert_eq!(interrupts(&mut rule, 1, 100, 1), 34);
        // The register falls on, 142 -> 113 -> 95 -> ..., down to 10 us.
        assert_eq!(interrupts(&mut rule, 1, 70, 1), 28);
        assert_eq!(interrupts(&mut rule, 60, 64, 1), 10);
        // 1514 bytes in 10 us are 151 per us: the class rises by two, one at a time.
        interrupts(&mut rule, 1, 1514, 1);
        assert_eq!((rule.received, rule.sent), (1, 1));
        interrupts(&mut rule, 1, 1514, 1);
        assert_eq!((rule.received, rule.sent), (2, 2));
        // Integer division stops the smoothing at 326 of 336, as in the kernel.
        assert_eq!(interrupts(&mut rule, 200, 15_140, 10), 80);
    }

    #[test]
    fn empty_interrupts_are_ignored_and_the_longer_period_applies() {
        let mut rule = IxgbeClassic::default();
        let before = rule.period();
        assert_eq!(rule.interrupt(&Interrupt::default()), before);
        let seen = Interrupt { sent: 1, sent_bytes: 5_000, ..Interrupt::default() };
        rule.interrupt(&seen);
        assert_eq!((rule.received, rule.sent), (1, 2));
        assert!(rule.period() > before);
    }
}
