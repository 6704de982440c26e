//! Reader of Wattline's configuration files.
//!
//! A daemon lists its keys ([`Key`]) and the sections that they stand in ([`Schema`]). From this list
//! come the checks, the defaults, the messages and the reference. [`read`] and [`Reader`] take typed
//! values from the text and note every mistake, with its line, its value, what is allowed and what
//! to do ([`Problems`]).
//!
//! - `key`: a key, where it stands and what it allows
//! - `schema`: what may stand in a file; `suggest`: what somebody may have meant
//! - `reader`: typed values out of a table; `tables`: the tables of a document; `document`: a whole
//!   text or file
//! - `duration`, `words`: values in the form of texts
//! - `log`, `metrics`: the sections that all daemons have
//! - `problem`: what is wrong
//! - `reference`: the list of keys as a configuration file and as a page
//! - `running`: what of a configuration is in force

mod document;
mod duration;
mod key;
pub mod log;
pub mod metrics;
mod problem;
mod reader;
pub mod reference;
pub mod running;
mod schema;
mod suggest;
mod tables;
mod words;

pub use document::{read, read_text};
pub use duration::{between, parse_duration};
pub use key::{Allowed, Key, Section};
pub use log::LogLevel;
pub use problem::{ConfigError, Problem, Problems};
pub use reader::{At, Reader, Table, defaulted, whole};
pub use schema::{Misplaced, Schema};
pub use tables::{each, required, single, single_or_empty};
pub use words::{parse_any_interface, parse_interface, parse_name, parse_socket_path};
