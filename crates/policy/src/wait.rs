//! Ways in which a core waits for packets.

use serde::{Deserialize, Serialize};
use wattline_units::Span;

/// Way in which a core waits when its queues are empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wait {
    /// The core polls again at once, and never sleeps.
    Poll,
    /// The core polls again after a pause offered by the processor (`PAUSE`, `TPAUSE`), and never
    /// sleeps.
    Pause,
    /// The core sleeps for this time, then polls again; interrupts stay off.
    Sleep(Span),
    /// The core enables interrupts and sleeps until the next one (NAPI).
    Interrupt,
}
