//! The generator: threads with an event loop each, and their measurements.

mod answers;
mod connection;
mod interval;
mod options;
mod reconnect;
mod record;
mod run;
mod slots;
mod worker;

pub use interval::Interval;
pub use options::{LoadOptions, OptionsError};
pub use record::{Counts, Failures, Recording, ThreadUse};
pub use run::{LoadError, run};
