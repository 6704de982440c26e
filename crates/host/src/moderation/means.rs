//! How a card is moderated: by queue, as a whole, or by deferral.

use super::deferral::defers;
use wattline_knobs::{AccessError, Knobs, moderation};
use wattline_linux::ethtool::Coalesce;

/// How a card is moderated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Means {
    Queues,
    Card,
    /// By NAPI, each queue.
    Deferral,
}

impl Means {
    /// How an interface can be moderated, or why it cannot.
    pub fn of(knobs: &impl Knobs, interface: &str) -> Result<Self, AccessError> {
        if knobs.read(&moderation::queue_setting(interface, 0, Coalesce::RxUsecs)).is_ok() {
            return Ok(Self::Queues);
        }
        let of_card = knobs.read(&moderation::setting(interface, Coalesce::RxUsecs));
        match of_card {
            Ok(_) => Ok(Self::Card),
            Err(_) if defers(knobs, interface) => Ok(Self::Deferral),
            Err(why) => Err(why),
        }
    }
}
