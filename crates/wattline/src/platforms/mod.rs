//! What the governor of a router drives, put together from the platforms' own crates: one file
//! each, and a line in [`PLATFORMS`].

mod host;
mod plan;
mod reins;
mod scale;

pub use plan::{PlanError, plan};

use wattline_governor::Governor;
use wattline_governor::machine::Machine;
use wattline_router::config::PowerPlatform;
use wattline_router::platform::{Platforms, Seen};

/// All platforms that a configuration can name.
pub const PLATFORMS: Platforms =
    &[(PowerPlatform::Scale, scale::open), (PowerPlatform::Host, host::open)];

/// How a governor's machine runs, for the router's statistics.
fn seen<M: Machine>(governor: &mut Governor<M>) -> Seen {
    Seen {
        point: governor.point().clone(),
        platform: governor.platform().clone(),
        knobs: governor.ledger().entries().cloned().collect(),
    }
}
