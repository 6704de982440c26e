//! Platforms that the governor of a router drives, put together from their own crates: one file
//! each, and a line in [`PLATFORMS`].

mod errand;
mod host;
mod plan;
#[cfg(feature = "laboratory")]
mod scale;
mod seen;
mod worker_control;

pub use plan::{PlanError, plan};

use wattline_router::config::PowerPlatform;
use wattline_router::platform::Platforms;

/// All platforms that a configuration can name.
pub const PLATFORMS: Platforms = &[
    #[cfg(feature = "laboratory")]
    (PowerPlatform::Scale, scale::open),
    (PowerPlatform::Host, host::open),
];
