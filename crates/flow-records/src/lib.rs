//! The application `flow_records`: which flows pass, told to collectors (IPFIX, NetFlow version 9).
//!
//! - [`nodes`]: the node that every worker has, with its tables of flows
//! - `control`: records of all workers on their way to collectors
//! - `section`: `[flow_records]` of the configuration
//!
//! A program hands [`APPLICATION`] to its router (`wattline-router`).
#![forbid(unsafe_code)]

mod control;
pub mod nodes;
mod section;

pub use section::{CollectorAddress, FlowRecordsSection, FlowRecordsSettings, Transport};

use wattline_router::application::ApplicationKind;

/// The application.
pub const APPLICATION: ApplicationKind =
    ApplicationKind { section: &FlowRecordsSection, start: control::start };
