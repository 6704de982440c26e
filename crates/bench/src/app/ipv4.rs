//! `ipv4`: plain forwarding, which the other applications are held against.

use super::application::Application;
use super::args::Args;
use crate::memory_router::Error;

/// Nothing on the packets' way.
pub(super) fn make(_: &Args) -> Result<Vec<Box<dyn Application>>, Error> {
    Ok(Vec::new())
}
