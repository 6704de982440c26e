//! What is asked of an operating point.

/// A core that no more than this is used keeps its queue bounded; the rest is for the table's
/// shares, which are not quite equal (128 entries over 9 cores: the fullest has 5 % more).
pub(super) const MOST_LOAD: f64 = 0.97;

/// What is asked of a point.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Asked {
    /// Packets per second to plan for, and to reckon energy with.
    pub need: f64,
    pub mean: f64,
    /// Variance of arrivals over their mean.
    pub dispersion: f64,
    /// Seconds that a packet may spend in queue and core.
    pub slack: f64,
    /// Ports, whose queues a core serves in turn.
    pub ports: usize,
    /// Fewest cores.
    pub floor: usize,
    /// Packets that all rings of a core hold, and packets per second that may come without a
    /// warning: a nap must not overfill the rings.
    pub ring: f64,
    pub surprise: f64,
    /// What has to be reckoned with before anything can be done about it.
    pub leap: Leap,
}

/// A leap that may come.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Leap {
    /// Packets per second that may come from one moment to the next.
    pub rate: f64,
    /// Packets that it may make late.
    pub late: f64,
    /// Seconds that a change of frequency takes.
    pub transition: f64,
    /// Packets that may come at once without being a leap.
    pub burst: f64,
}
