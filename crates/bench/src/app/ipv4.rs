//! `ipv4`: plain forwarding, the baseline of the other applications.

use super::application::Application;
use super::args::Args;
use crate::memory_router::Error;

/// Makes no application: plain forwarding is always measured.
pub(super) fn make(_: &Args) -> Result<Vec<Box<dyn Application>>, Error> {
    Ok(Vec::new())
}
