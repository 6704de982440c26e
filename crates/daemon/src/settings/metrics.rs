//! The `[metrics]` section.

use super::key::{Key, Section};
use super::reader::{Reader, Table};
use super::tables::single;
use std::net::SocketAddr;

/// Name of the section at the top level.
pub const NAME: &str = "metrics";
/// The section.
pub const SECTION: Section = Section::Named("[metrics]");

/// Its keys, in the order of the reference.
#[rustfmt::skip]
pub const KEYS: &[Key] = &[
    Key::new(SECTION, "listen", None, "\"127.0.0.1:9417\"", "an address and TCP port such as \"127.0.0.1:9417\" or \"[::1]:9417\"",
        "Address at which GET /metrics is answered over HTTP, in the text format of Prometheus; none by default.\nAnyone who reaches it may read it."),
];

/// Reads the section. Returns the address at which metrics are served.
pub fn read(reader: &mut Reader, root: &Table) -> Option<SocketAddr> {
    let metrics = single(reader, root, SECTION, NAME)?;
    reader.refuse_unknown(&metrics);
    Some(reader.parsed(&metrics, "listen", |text| text.parse().ok())?.value)
}
