//! Methods of sending and receiving packets.
//!
//! | | sent by | received by |
//! |---|---|---|
//! | sockets | AF_XDP: every packet is written here, and copied by the kernel if the driver has no
//! zero-copy; sleeps between packets | AF_XDP: a ring of packets, read and accounted for by a
//! thread |
//! | XDP | live frames: the kernel creates several times as many packets; spins until the next is
//! due | a program in the driver, which accounts for packets on arrival, without a ring |

use std::str::FromStr;

/// Method of sending packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SendBy {
    /// Live frames if interface and kernel support them, otherwise sockets.
    #[default]
    Auto,
    /// AF_XDP sockets.
    Sockets,
    /// Live frames of the kernel; an error if they are not supported.
    LiveFrames,
}

/// Method of receiving packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReceiveBy {
    /// A program in the driver if possible, otherwise sockets.
    #[default]
    Auto,
    /// AF_XDP sockets.
    Sockets,
    /// A program in the driver; an error if that is not possible.
    Program,
}

/// Methods of sending and receiving.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Methods {
    /// Method of sending packets.
    pub send: SendBy,
    /// Method of receiving packets.
    pub receive: ReceiveBy,
}

impl Methods {
    /// Sockets for both, which every interface and kernel with AF_XDP supports.
    pub const SOCKETS: Self = Self { send: SendBy::Sockets, receive: ReceiveBy::Sockets };
}

/// Parses `auto`, `sockets`, `live-frames`.
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

/// Parses `auto`, `sockets`, `program`.
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

/// Methods in use.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MethodsFound {
    /// True for live frames.
    pub live_frames: bool,
    /// True for a program in the driver.
    pub program: bool,
    /// Reasons why other tried methods are not possible.
    pub reasons: Vec<String>,
}

impl MethodsFound {
    /// Describes the methods.
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
    fn methods_are_parsed_and_errors_list_the_choices() {
        assert_eq!("live-frames".parse(), Ok(SendBy::LiveFrames));
        assert_eq!("program".parse(), Ok(ReceiveBy::Program));
        assert_eq!(("auto".parse(), "auto".parse()), (Ok(SendBy::Auto), Ok(ReceiveBy::Auto)));
        assert!("xdp".parse::<SendBy>().unwrap_err().contains("live-frames"));
        assert!("live-frames".parse::<ReceiveBy>().unwrap_err().contains("program"));
    }
}
