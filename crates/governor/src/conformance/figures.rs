//! The figures that a platform may show.

use super::effects::{self, Judge};
use wattline_policy::{Observation, Sees};

/// A figure.
pub(super) struct Figure {
    pub name: &'static str,
    pub promised: fn(&Sees) -> bool,
    pub shown: fn(&Observation<'_>) -> bool,
    /// Judgement over the whole run.
    pub judge: Judge,
    /// True if it may stay empty although promised.
    pub conditional: bool,
}

const fn figure(
    name: &'static str,
    promised: fn(&Sees) -> bool,
    shown: fn(&Observation<'_>) -> bool,
    judge: Judge,
) -> Figure {
    Figure { name, promised, shown, judge, conditional: false }
}

impl Figure {
    /// Allows the figure to stay empty although promised.
    const fn conditional(self) -> Self {
        Self { conditional: true, ..self }
    }
}

/// Returns true if every core has this figure.
fn all_cores_have<T>(
    seen: &Observation<'_>,
    figure: fn(&wattline_policy::CoreView) -> Option<T>,
) -> bool {
    seen.cores.iter().all(|core| figure(core).is_some())
}

pub(super) const FIGURES: [Figure; 10] = [
    figure("latency", |sees| sees.latency, |seen| seen.latency.is_some(), effects::unknown),
    // Late packets need a slow server.
    figure(
        "late packets",
        |sees| sees.late,
        |seen| seen.latency.is_some_and(|seen| seen.late > 0),
        effects::unknown,
    )
    .conditional(),
    figure("watts", |sees| sees.power, |seen| seen.power.is_some(), effects::unknown),
    figure("entries", |sees| sees.entries, |seen| !seen.entries.is_empty(), effects::entries),
    // For clairvoyant policies; the probe is none.
    figure("offered rate", |sees| sees.offered, |seen| seen.offered.is_some(), effects::offered)
        .conditional(),
    figure(
        "frequency shown",
        |sees| sees.frequency,
        |seen| all_cores_have(seen, |core| core.frequency),
        effects::frequency_shown,
    ),
    figure(
        "residency",
        |sees| sees.residency,
        |seen| all_cores_have(seen, |core| core.residency),
        effects::residency,
    ),
    figure(
        "softirq",
        |sees| sees.softirq,
        |seen| all_cores_have(seen, |core| core.softirq),
        effects::softirq,
    ),
    figure(
        "bytes",
        |sees| sees.bytes,
        |seen| seen.queues.iter().all(|queue| queue.bytes.is_some()),
        effects::bytes,
    ),
    // The age needs a queue that holds a packet.
    figure(
        "oldest",
        |sees| sees.oldest,
        |seen| seen.queues.iter().any(|queue| queue.oldest.is_some()),
        effects::oldest,
    )
    .conditional(),
];
