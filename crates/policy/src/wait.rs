//! Ways in which a core waits for packets.

use serde::{Deserialize, Serialize};
use wattline_units::Span;

/// Way in which a core waits when its queues are empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wait {
    /// It looks again at once, and never sleeps.
    Poll,
    /// It looks again after a pause that the processor offers for it (`PAUSE`, `TPAUSE`), and
    /// never sleeps.
    Pause,
    /// It sleeps so long, then looks again; interrupts stay off.
    Sleep(Span),
    /// It enables interrupts and sleeps until one comes (NAPI).
    Interrupt,
}
