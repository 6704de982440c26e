//! The figures that a platform may show.

use super::effects::{self, Judge};
use wattline_policy::{Observation, Sees};

/// A figure.
pub(super) struct Figure {
    pub name: &'static str,
    pub promised: fn(&Sees) -> bool,
    pub shown: fn(&Observation<'_>) -> bool,
    /// By the whole run.
    pub judge: Judge,
    /// Whether it may stay empty although it is promised.
    pub conditional: bool,
}

/// Returns true if every core has this figure.
fn all_cores_have<T>(
    seen: &Observation<'_>,
    figure: fn(&wattline_policy::CoreView) -> Option<T>,
) -> bool {
    seen.cores.iter().all(|core| figure(core).is_some())
}

pub(super) const FIGURES: [Figure; 10] = [
    Figure {
        name: "latency",
        promised: |sees| sees.latency,
        shown: |seen| seen.latency.is_some(),
        judge: effects::unknown,
        conditional: false,
    },
    // A late one needs a slow server.
    Figure {
        name: "late packets",
        promised: |sees| sees.late,
        shown: |seen| seen.latency.is_some_and(|seen| seen.late > 0),
        judge: effects::unknown,
        conditional: true,
    },
    Figure {
        name: "watts",
        promised: |sees| sees.power,
        shown: |seen| seen.power.is_some(),
        judge: effects::unknown,
        conditional: false,
    },
    Figure {
        name: "entries",
        promised: |sees| sees.entries,
        shown: |seen| !seen.entries.is_empty(),
        judge: effects::entries,
        conditional: false,
    },
    // For clairvoyant policies, which the probe is not.
    Figure {
        name: "offered rate",
        promised: |sees| sees.offered,
        shown: |seen| seen.offered.is_some(),
        judge: effects::offered,
        conditional: true,
    },
    Figure {
        name: "frequency shown",
        promised: |sees| sees.frequency,
        shown: |seen| all_cores_have(seen, |core| core.frequency),
        judge: effects::frequency_shown,
        conditional: false,
    },
    Figure {
        name: "residency",
        promised: |sees| sees.residency,
        shown: |seen| all_cores_have(seen, |core| core.residency),
        judge: effects::residency,
        conditional: false,
    },
    Figure {
        name: "softirq",
        promised: |sees| sees.softirq,
        shown: |seen| all_cores_have(seen, |core| core.softirq),
        judge: effects::softirq,
        conditional: false,
    },
    Figure {
        name: "bytes",
        promised: |sees| sees.bytes,
        shown: |seen| seen.queues.iter().all(|queue| queue.bytes.is_some()),
        judge: effects::bytes,
        conditional: false,
    },
    // An old packet needs a queue that holds one.
    Figure {
        name: "oldest",
        promised: |sees| sees.oldest,
        shown: |seen| seen.queues.iter().any(|queue| queue.oldest.is_some()),
        judge: effects::oldest,
        conditional: true,
    },
];
