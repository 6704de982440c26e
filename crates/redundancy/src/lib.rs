//! The application `redundancy`: redundancy elimination between two routers; what both have seen is
//! not sent twice.
//!
//! - [`nodes`]: caches, encoders and decoders, and the nodes that every worker has of them
//! - `control`: makes the caches, and lets decoders report to encoders
//! - `section`: `[[redundancy]]` of the configuration
//!
//! A program hands [`APPLICATION`] to its router (`wattline-router`).
#![forbid(unsafe_code)]

mod control;
pub mod nodes;
mod section;

pub use section::{RedundancyRole, RedundancySection, RedundancySections, RedundancySettings};

use wattline_router::application::ApplicationKind;

/// The application.
pub const APPLICATION: ApplicationKind =
    ApplicationKind { section: &RedundancySection, start: control::start };
