//! The application `flow_records`: exports records of passing flows (IPFIX, NetFlow version
//! 9).
//!
//! - [`nodes`]: the node in every worker, with its tables of flows
//! - `control`: transport of the records of all workers to collectors
//! - `section`: `[flow_records]` of the configuration
//!
//! A program passes [`APPLICATION`] to its router (`wattline-router`).
#![forbid(unsafe_code)]

mod control;
pub mod nodes;
mod section;

pub use section::{CollectorAddress, FLOW_RECORDS, FlowRecordsSettings, Transport};

use wattline_router::application::ApplicationKind;

/// Registration of the application.
pub const APPLICATION: ApplicationKind =
    ApplicationKind { section: &FLOW_RECORDS, start: control::start };
