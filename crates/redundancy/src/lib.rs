//! The application `redundancy`: redundancy elimination between two routers. Content that both have
//! seen is not sent twice.
//!
//! - [`nodes`]: caches, encoders and decoders, and their nodes in every worker
//! - `control`: construction of the caches, and reports from decoders to encoders
//! - `section`: `[[redundancy]]` of the configuration
//!
//! A program passes [`APPLICATION`] to its router (`wattline-router`).
#![forbid(unsafe_code)]

mod control;
pub mod nodes;
mod section;

pub use section::{REDUNDANCY, RedundancyRole, RedundancySections, RedundancySettings};

use wattline_router::application::ApplicationKind;

/// Registration of the application.
pub const APPLICATION: ApplicationKind =
    ApplicationKind { section: &REDUNDANCY, start: control::start };
