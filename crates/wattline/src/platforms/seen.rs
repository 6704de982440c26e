//! State of a governor for the router's statistics.

use wattline_governor::Governor;
use wattline_governor::machine::Machine;
use wattline_router::platform::Seen;

/// Returns the state of a governor's machine, for the router's statistics.
pub(super) fn seen<M: Machine>(governor: &mut Governor<M>) -> Seen {
    Seen {
        point: governor.point().clone(),
        platform: governor.platform().clone(),
        decisions: governor.decisions(0),
        knobs: governor.ledger().entries().cloned().collect(),
    }
}
