//! What sections of the configuration are read with, those of applications too.

pub use super::duration::{between, parse_duration};
pub use super::keys::{Allowed, Key, Section};
pub use super::parse::{document, read_log, read_metrics};
pub use super::reader::{At, Reader, Table, defaulted, whole};
pub use super::statics::{read_port_name, read_port_names};
pub use super::tables::{each, required, single, single_or_empty};
pub use super::words::{parse_interface, parse_name};
