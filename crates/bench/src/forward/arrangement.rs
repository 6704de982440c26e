//! Who runs where, and how much load is offered.

use serde::Serialize;
use std::time::Duration;

/// The processor of the generator.
pub const OUTSIDE: usize = 0;
/// The contestant's processor.
pub const INSIDE: usize = 1;

/// Which processor receives for a contestant that has threads of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Placement {
    /// The contestant's: all that works for it shares one processor.
    Shared,
    /// The generator's: the contestant's threads have a processor to themselves, as where the
    /// interrupts of a card go elsewhere.
    Split,
    /// As split, but the contestant's threads have their processor half of the time only: they
    /// never run out of frames, so that their processor time is useful time even where they poll.
    Rationed,
}

impl Placement {
    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Shared => "shared",
            Self::Split => "split",
            Self::Rationed => "rationed",
        }
    }

    /// The processor on which the kernel thread that receives for the contestant runs.
    pub fn receiver(self) -> usize {
        match self {
            Self::Shared => INSIDE,
            Self::Split | Self::Rationed => OUTSIDE,
        }
    }
}

/// Which processor frees the frames that were sent. It decides what sending costs: memory that
/// another processor frees comes back to its allocator the slow way, and both write the same
/// cache lines for each frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Sink {
    /// The generator's, as where the machine at the other end of the cable were a processor of
    /// this one.
    Remote,
    /// The contestant's, as with a card, whose transmit completions are mostly handled by the
    /// processor that sent.
    Local,
}

impl Sink {
    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Remote => "remote",
            Self::Local => "local",
        }
    }

    /// The processor on which the kernel thread that counts and frees the frames runs.
    pub fn processor(self) -> usize {
        match self {
            Self::Remote => OUTSIDE,
            Self::Local => INSIDE,
        }
    }
}

/// How much the generator makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Load {
    /// As much as its processor's time is left for: more than is forwarded.
    Full,
    /// 1.5 million frames a second, each made when it is due: more than is forwarded where the
    /// sink is local, and no page goes back to the generator unsent. At full load most do, past
    /// a lock that the sink takes to free those that whoever forwards did not copy.
    Ample,
    /// [`PACED_PPS`], which every contestant forwards: what a router does most of its life, and
    /// no time goes into frames that are then dropped.
    Paced,
}

/// Frames per second at the load that is paced, while the generator sends: between two of its
/// calls, which end and prepare a run of live frames, nothing is sent for some 20 ms.
const PACED_PPS: u32 = 250_000;

const AMPLE_PPS: u32 = 1_500_000;

impl Load {
    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Ample => "ample",
            Self::Paced => "paced",
        }
    }

    /// Time from a frame to the next, where the generator keeps to one.
    pub fn gap(self) -> Option<Duration> {
        match self {
            Self::Full => None,
            Self::Ample => Some(Duration::from_secs(1) / AMPLE_PPS),
            Self::Paced => Some(Duration::from_secs(1) / PACED_PPS),
        }
    }
}

/// The set-up of a contestant's rounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Arrangement {
    /// Where the contestant's receiving thread runs.
    pub placement: Placement,
    /// Where its frames are freed.
    pub sink: Sink,
    /// What is offered to it.
    pub load: Load,
}
