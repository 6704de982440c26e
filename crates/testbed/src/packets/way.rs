//! The ways in which packets are sent and received.
//!
//! | | sent by | received by |
//! |---|---|---|
//! | sockets | AF_XDP: every packet is made here and copied by the kernel where a driver cannot do without; sleeps between packets | AF_XDP: a ring of packets, read and accounted for by a thread |
//! | XDP | live frames: the kernel makes packets, several times as many; spins until the next is due | a program in the driver, which accounts for them where they arrive, without a ring |

use std::str::FromStr;

/// Method of sending packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SendBy {
    /// Live frames where interface and kernel allow it, else sockets.
    #[default]
    Auto,
    /// AF_XDP sockets.
    Sockets,
    /// Live frames of the kernel, or an error.
    LiveFrames,
}

/// Method of receiving packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReceiveBy {
    /// A program in the driver where that is possible, else sockets.
    #[default]
    Auto,
    /// AF_XDP sockets.
    Sockets,
    /// A program in the driver, or an error.
    Program,
}

/// Both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ways {
    /// Method of sending packets.
    pub send: SendBy,
    /// Method of receiving packets.
    pub receive: ReceiveBy,
}

impl Ways {
    /// Sockets for both: the way that every interface and kernel with AF_XDP has.
    pub const SOCKETS: Self = Self { send: SendBy::Sockets, receive: ReceiveBy::Sockets };
}

/// `auto`, `sockets`, `live-frames`.
impl FromStr for SendBy {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "sockets" => Ok(Self::Sockets),
            "live-frames" => Ok(Self::LiveFrames),
            _ => Err("expected auto, sockets or live-frames".to_owned()),
        }
    }
}

/// `auto`, `sockets`, `program`.
impl FromStr for ReceiveBy {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "sockets" => Ok(Self::Sockets),
            "program" => Ok(Self::Program),
            _ => Err("expected auto, sockets or program".to_owned()),
        }
    }
}

/// Methods that were found to be possible.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WaysFound {
    /// Whether live frames are sent.
    pub live_frames: bool,
    /// Whether a program in the driver receives.
    pub program: bool,
    /// Reasons why another method was not possible, if it was tried.
    pub reasons: Vec<String>,
}

impl WaysFound {
    /// In words.
    pub fn words(&self) -> String {
        let send = if self.live_frames { "live frames" } else { "AF_XDP sockets" };
        let receive = if self.program { "a program in the driver" } else { "AF_XDP sockets" };
        format!("sent by {send}, received by {receive}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_are_read_and_others_are_told_what_there_is() {
        assert_eq!("live-frames".parse(), Ok(SendBy::LiveFrames));
        assert_eq!("program".parse(), Ok(ReceiveBy::Program));
        assert_eq!(("auto".parse(), "auto".parse()), (Ok(SendBy::Auto), Ok(ReceiveBy::Auto)));
        assert!("xdp".parse::<SendBy>().unwrap_err().contains("live-frames"));
        assert!("live-frames".parse::<ReceiveBy>().unwrap_err().contains("program"));
    }
}
