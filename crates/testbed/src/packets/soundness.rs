//! Soundness of a trial, without which it says nothing about the device.

use serde::ser::{Serialize, SerializeStruct, Serializer};
use std::fmt;

/// Conduct of the generator in a trial. A trial is sound if the generator held the rate to one part
/// in a hundred, and its receiver lost nothing. Any other trial says nothing about the device at
/// the requested load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Soundness {
    /// Packets due.
    pub due_packets: u64,
    /// Packets that were not sent in time.
    pub unsent_packets: u64,
    /// Packets that found no room at the receiver.
    pub overflow_packets: u64,
}

impl Soundness {
    /// Returns true if the trial is sound.
    pub fn is_sound(&self) -> bool {
        self.due_packets > 0 && self.held_the_rate() && self.overflow_packets == 0
    }

    /// Returns the reason why the trial is not sound.
    pub fn unsound_reason(&self) -> Option<String> {
        (!self.is_sound()).then(|| {
            let mut reasons = Vec::new();
            if self.due_packets == 0 {
                reasons.push("nothing was sent".to_owned());
            }
            if !self.held_the_rate() {
                let sent = 100.0 * (1.0 - self.unsent_packets as f64 / self.due_packets as f64);
                // 98.99 % is not 99 %.
                let sent = (sent * 100.0).floor() / 100.0;
                reasons.push(format!("the generator sent {sent} % of what was due"));
            }
            if self.overflow_packets > 0 {
                let packets = self.overflow_packets;
                reasons.push(format!("its receiver had no room for {packets} packets"));
            }
            reasons.join("; ")
        })
    }

    fn held_the_rate(&self) -> bool {
        self.unsent_packets * 100 <= self.due_packets
    }
}

/// Writes `yes`, or `no` with the reason.
impl fmt::Display for Soundness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.unsound_reason() {
            None => f.write_str("yes"),
            Some(why) => write!(f, "no: {why}"),
        }
    }
}

/// Serialises to `is_sound` and `unsound_because`, which is null for a sound trial.
impl Serialize for Soundness {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Soundness", 2)?;
        fields.serialize_field("is_sound", &self.is_sound())?;
        fields.serialize_field("unsound_because", &self.unsound_reason())?;
        fields.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsound_trial_has_a_reason() {
        let of = |due_packets, unsent_packets, overflow_packets| {
            Soundness { due_packets, unsent_packets, overflow_packets }.to_string()
        };
        assert_eq!(of(1000, 0, 0), "yes");
        assert_eq!(of(1000, 10, 0), "yes");
        assert_eq!(of(1000, 11, 0), "no: the generator sent 98.9 % of what was due");
        assert_eq!(of(100_000, 1001, 0), "no: the generator sent 98.99 % of what was due");
        assert_eq!(of(1000, 0, 7), "no: its receiver had no room for 7 packets");
        assert_eq!(of(0, 0, 0), "no: nothing was sent");
        let both = of(1000, 500, 2);
        assert!(both.contains("50 %") && both.contains("; its receiver"), "{both}");
    }

    #[test]
    fn json_has_the_reason() {
        let json = |unsent_packets| {
            let of = Soundness { due_packets: 10, unsent_packets, overflow_packets: 0 };
            serde_json::to_value(of).unwrap()
        };
        assert_eq!(json(0), serde_json::json!({"is_sound": true, "unsound_because": null}));
        let why = "the generator sent 50 % of what was due";
        assert_eq!(json(5), serde_json::json!({"is_sound": false, "unsound_because": why}));
    }
}
