//! Platforms for the governor of a router, each built from its own crates: one file each, and a
//! line in [`PLATFORMS`].

mod background_task;
mod host;
mod plan;
mod worker_control;

pub use plan::{PlanError, plan};

use wattline_router::config::PowerPlatform;
use wattline_router::platform::Platforms;

/// The platforms of an operator. `scale` belongs to the laboratory.
pub const PLATFORMS: Platforms = &[(PowerPlatform::Host, host::open)];
