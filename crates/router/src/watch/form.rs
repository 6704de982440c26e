//! Form in which records are sent.

use super::rounds::Seen;
use std::io;
use wattline_daemon::stream::Outlet;

/// See the module.
pub(super) trait Form: Send {
    /// Sends the head.
    fn begin(&mut self, out: &mut Outlet<'_>) -> io::Result<()>;
    /// Sends the records of a worker's iteration. Returns the number of packets that are complete
    /// now.
    fn round(&mut self, round: &Seen, out: &mut Outlet<'_>) -> io::Result<u64>;
    /// Sends the remaining records. Returns the number of packets.
    fn end(&mut self, matched: u64, missed: u64, out: &mut Outlet<'_>) -> io::Result<u64>;
}
