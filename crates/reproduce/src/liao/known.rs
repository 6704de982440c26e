//! Inputs that several figures share.

use crate::error::ReproduceError;
use wattline_server::ComponentFile;
use wattline_study::receive::InvalidPath;

/// Packets per simulator run, without the packets that warm its caches.
pub(super) const PACKETS: u64 = 60_000;

pub(super) const ASSUMED: &str = "rests on 5 busy queues and on data waiting in the sockets, which no \
                       source gives (figures `readings` and `rings` show other values)";

pub(super) const LEVEL_1: &str = "rests on the level-1 prefetcher, which is on after reset but may be \
                       switched off by firmware (figure `readings`)";

pub(super) fn host() -> Result<ComponentFile, ReproduceError> {
    Ok(ComponentFile::load("liao-2011-host")?)
}

pub(super) fn lacks(what: &str) -> ReproduceError {
    ReproduceError::Model(format!(
        "crates/server/servers/components/liao-2011-host.toml lacks {what}"
    ))
}

pub(super) fn failed(error: InvalidPath) -> ReproduceError {
    ReproduceError::Model(format!("receive path: {error}"))
}
