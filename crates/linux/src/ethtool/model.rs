//! Settings of network cards, independent of the protocol that carries them.

use std::fmt;
use std::str::FromStr;

/// An interrupt moderation parameter, with its name in `ethtool -C`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Coalesce {
    /// Microseconds that a receive interrupt waits for more packets.
    RxUsecs,
    /// Packets after which the interrupt waits no longer.
    RxFrames,
    /// The same for transmission.
    TxUsecs,
    /// The same for transmission.
    TxFrames,
    /// 1: the driver chooses the receive parameters itself.
    AdaptiveRx,
    /// 1: the driver chooses the transmit parameters itself.
    AdaptiveTx,
}

impl Coalesce {
    /// All parameters.
    pub const ALL: [Self; 6] = [
        Self::RxUsecs,
        Self::RxFrames,
        Self::TxUsecs,
        Self::TxFrames,
        Self::AdaptiveRx,
        Self::AdaptiveTx,
    ];
}

/// All parameters of an interface, as its driver reports them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CoalesceValues(pub(super) [u32; Coalesce::ALL.len()]);

impl CoalesceValues {
    /// Returns a parameter; 0 if the driver does not have it.
    pub fn get(&self, parameter: Coalesce) -> u32 {
        let all = Coalesce::ALL.iter().zip(self.0);
        all.filter(|(other, _)| **other == parameter).map(|(_, value)| value).next().unwrap_or(0)
    }
}

/// Indirection table: the receive queue of each hash value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndirectionTable {
    /// A queue per entry.
    pub queues: Vec<u32>,
}

/// Queues of a card.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Channels {
    /// Receive and transmit queues with a common interrupt.
    pub combined: u32,
    /// Largest number of combined queues.
    pub most_combined: u32,
    /// Queues that only receive.
    pub receive: u32,
    /// Largest number of receive queues.
    pub most_receive: u32,
    /// Queues that only transmit.
    pub transmit: u32,
    /// Largest number of transmit queues.
    pub most_transmit: u32,
}

/// Descriptors per queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rings {
    /// Receive descriptors.
    pub receive: u32,
    /// Largest number of receive descriptors.
    pub most_receive: u32,
    /// Transmit descriptors.
    pub transmit: u32,
    /// Largest number of transmit descriptors.
    pub most_transmit: u32,
}

impl fmt::Display for Coalesce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::RxUsecs => "rx-usecs",
            Self::RxFrames => "rx-frames",
            Self::TxUsecs => "tx-usecs",
            Self::TxFrames => "tx-frames",
            Self::AdaptiveRx => "adaptive-rx",
            Self::AdaptiveTx => "adaptive-tx",
        })
    }
}

impl FromStr for Coalesce {
    type Err = ();
    fn from_str(text: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|parameter| parameter.to_string() == text).ok_or(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameter_names_read_back() {
        for parameter in Coalesce::ALL {
            assert_eq!(parameter.to_string().parse(), Ok(parameter));
        }
    }
}
