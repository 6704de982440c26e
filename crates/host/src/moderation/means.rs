//! Means to moderate a card: by queue, as a whole, or by deferral.

use super::deferral::defers;
use wattline_knobs::{AccessError, Knobs, moderation};
use wattline_linux::ethtool::Coalesce;

/// Means to moderate a card.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Means {
    Queues,
    Card,
    /// By NAPI, each queue.
    Deferral,
}

impl Means {
    /// Finds the means to moderate an interface, or the reason for their absence.
    pub fn find(knobs: &impl Knobs, interface: &str) -> Result<Self, AccessError> {
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
