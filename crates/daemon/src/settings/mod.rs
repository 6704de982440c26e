//! Reader of Wattline's configuration files.
//!
//! A daemon lists its keys ([`Key`]) and their sections ([`Schema`]). The checks, defaults,
//! messages and the reference derive from this list. [`read`] and [`Reader`] take typed values from
//! the text and note every mistake, with its line, its value, the allowed values and a remedy
//! ([`Problems`]).
//!
//! - `key`: a key, its place and allowed values
//! - `schema`: the possible contents of a file; `suggest`: guesses for mistyped names
//! - `reader`: typed values from a table; `tables`: the tables of a document; `document`: a whole
//!   text or file
//! - `duration`, `words`: values written as strings
//! - `log`, `metrics`: the sections that all daemons have
//! - `problem`: problems of a configuration
//! - `reference`: the list of keys as a configuration file and as a page
//! - `running`: the part of a configuration that is in force

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
