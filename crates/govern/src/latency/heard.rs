//! What a source of latency says beside its figures.

use wattline_governor::latency::LatencySource;
use wattline_units::Time;

/// A source that also says when it was heard last: a service without requests has no samples,
/// and is yet not silent.
pub(super) trait Heard: LatencySource + Send {
    /// When it said something that made sense; `None` if it never did.
    fn heard(&self) -> Option<Time>;

    /// What went wrong when it was asked last.
    fn problem(&self) -> Option<String> {
        None
    }
}
