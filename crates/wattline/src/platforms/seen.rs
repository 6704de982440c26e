//! What the router's statistics are told of a governor.

use wattline_governor::Governor;
use wattline_governor::machine::Machine;
use wattline_router::platform::Seen;

/// How a governor's machine runs, for the router's statistics.
pub(super) fn seen<M: Machine>(governor: &mut Governor<M>) -> Seen {
    Seen {
        point: governor.point().clone(),
        platform: governor.platform().clone(),
        knobs: governor.ledger().entries().cloned().collect(),
        changes: governor.changes().copied().collect(),
    }
}
