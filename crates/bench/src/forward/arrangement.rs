//! Placement of the threads on processors, and offered load.

use serde::Serialize;
use std::time::Duration;
use wattline_units::named;

/// The generator's processor, outside the device under test.
pub const OUTSIDE: usize = 0;
/// The candidate's processor.
pub const INSIDE: usize = 1;

named! {
    /// Processor of the kernel thread that receives for a candidate with its own threads.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Placement {
        /// The candidate's processor, shared by all threads that work for the candidate.
        Shared = "shared",
        /// The generator's processor. The candidate's threads have a processor to themselves, as on a
        /// machine that routes the interrupts of a card to another processor.
        Split = "split",
        /// Like [`Self::Split`], but the candidate's threads run only half of the time. They always
        /// find frames, so all of their processor time is useful, even if they poll.
        Rationed = "rationed",
    }
}

impl Placement {
    /// Processor of the kernel thread that receives for the candidate.
    pub fn receiver(self) -> usize {
        match self {
            Self::Shared => INSIDE,
            Self::Split | Self::Rationed => OUTSIDE,
        }
    }
}

named! {
    /// Processor that frees the transmitted frames. It affects the cost of sending: memory freed by
    /// another processor returns to its allocator on a slow path, and both processors write the same
    /// cache lines for each frame.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Sink {
        /// The generator's processor, in the role of the machine at the other end of the cable.
        Remote = "remote",
        /// The candidate's processor. With a real card this is usual: transmit completions are mostly
        /// handled by the processor that sent.
        Local = "local",
    }
}

impl Sink {
    /// Processor of the kernel thread that counts and frees the frames.
    pub fn processor(self) -> usize {
        match self {
            Self::Remote => OUTSIDE,
            Self::Local => INSIDE,
        }
    }
}

named! {
    /// Load that the generator offers.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Load {
        /// As many frames as the generator's processor can produce: more than any candidate forwards.
        Full = "full",
        /// 1.5 million frames per second, each sent when it is due: more than any candidate forwards
        /// with a local sink. Every frame that the generator produces is sent. At full load most are
        /// not, and the sink takes a lock to free the pages that the candidate did not copy.
        Ample = "ample",
        /// [`PACED_PPS`], which every candidate can forward. This is the usual state of a router, and
        /// no time is spent on frames that are later dropped.
        Paced = "paced",
    }
}

/// Frames per second at [`Load::Paced`] while the generator sends. It pauses for about 20 ms
/// between two runs of live frames.
const PACED_PPS: u32 = 250_000;

/// Frames per second at [`Load::Ample`].
const AMPLE_PPS: u32 = 1_500_000;

impl Load {
    /// Time between two frames; `None` if the generator sends as fast as it can.
    pub fn gap(self) -> Option<Duration> {
        match self {
            Self::Full => None,
            Self::Ample => Some(Duration::from_secs(1) / AMPLE_PPS),
            Self::Paced => Some(Duration::from_secs(1) / PACED_PPS),
        }
    }
}

/// Placement and load of one candidate's rounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Arrangement {
    /// Processor of the candidate's receiving thread.
    pub placement: Placement,
    /// Processor that frees the transmitted frames.
    pub sink: Sink,
    /// Load offered to the candidate.
    pub load: Load,
}
