//! State of a latency source beside its figures.

use wattline_governor::latency::LatencySource;
use wattline_units::Time;

/// A source that also says when it was heard last: a service without requests has no samples,
/// and is yet not silent.
pub(super) trait Heard: LatencySource + Send {
    /// When it said something that made sense; `None` if it never did.
    fn heard(&self) -> Option<Time>;

    /// Returns the problem of the last poll, if any.
    fn problem(&self) -> Option<String> {
        None
    }
}
