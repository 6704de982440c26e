//! Energy with its parts, and the source of the figure.

use serde::Serialize;
use std::collections::BTreeMap;
use wattline_units::{Accuracy, Joules, Provenance, Source, Span};

/// Energy since a run began, or within an interval of it.
///
/// The remainder not covered by parts is the rest: parts + rest = whole.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Energy {
    /// The whole machine, as far as `source` sees it; `None` if unknown.
    #[serde(rename = "energy_joules")]
    pub whole: Option<Joules>,
    /// By component.
    #[serde(rename = "energy_by_component_joules")]
    pub parts: BTreeMap<&'static str, Joules>,
    /// Source of the figures.
    pub source: Source,
    /// Accuracy of the figures.
    pub accuracy: Accuracy,
    /// Metered time, if meters are read periodically; otherwise the energy covers the whole time.
    #[serde(skip)]
    pub metered: Option<Span>,
    /// Time since the first figure without any figure, because meters were rejected or did not
    /// answer: energy drawn then is not in `whole`.
    #[serde(skip)]
    pub unmetered: Span,
}

impl Default for Energy {
    /// Returns unavailable energy, which is not the same as zero.
    fn default() -> Self {
        let Provenance { source, accuracy } = Provenance::UNAVAILABLE;
        Self {
            whole: None,
            parts: BTreeMap::new(),
            source,
            accuracy,
            metered: None,
            unmetered: Span::ZERO,
        }
    }
}

impl Energy {
    /// Creates a known energy.
    pub fn new(
        whole: Joules,
        parts: impl IntoIterator<Item = (&'static str, Joules)>,
        provenance: Provenance,
    ) -> Self {
        let Provenance { source, accuracy } = provenance;
        let parts = parts.into_iter().collect();
        Self { whole: Some(whole), parts, source, accuracy, ..Self::default() }
    }

    /// Returns the energy that belongs to no part.
    pub fn rest(&self) -> Option<Joules> {
        let parts: Joules = self.parts.values().copied().sum();
        self.whole.map(|whole| whole - parts)
    }

    /// Returns the sum of this energy and that of a later run, with the later one's source. A part
    /// known to only one of them is taken from it.
    pub fn and(&self, later: &Self) -> Self {
        let sum = |one: Option<Joules>, other: Option<Joules>| match (one, other) {
            (Some(one), Some(other)) => Some(one + other),
            (one, other) => one.or(other),
        };
        let mut parts = self.parts.clone();
        for (name, joules) in &later.parts {
            let part = parts.entry(name).or_insert(Joules(0.0));
            *part += *joules;
        }
        let metered = match (self.metered, later.metered) {
            (Some(one), Some(other)) => Some(one + other),
            (one, other) => one.or(other),
        };
        let known = if later.whole.is_some() { later } else { self };
        Self {
            whole: sum(self.whole, later.whole),
            parts,
            source: known.source,
            accuracy: known.accuracy,
            metered,
            unmetered: self.unmetered + later.unmetered,
        }
    }

    /// Returns the energy drawn since an earlier moment of the same run. A part that was unknown
    /// then belongs to the rest, and the whole is unknown if it was unknown then.
    pub fn since(&self, earlier: &Self) -> Self {
        let whole = self.whole.zip(earlier.whole).map(|(now, then)| now - then);
        let part = |(name, now): (&&'static str, &Joules)| {
            earlier.parts.get(name).map(|then| (*name, *now - *then))
        };
        let parts = self.parts.iter().filter_map(part).collect();
        let metered = self.metered.map(|now| now - earlier.metered.unwrap_or(Span::ZERO));
        let unmetered = self.unmetered - earlier.unmetered;
        Self { whole, parts, source: self.source, accuracy: self.accuracy, metered, unmetered }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_and_rest_are_the_whole_before_and_after_a_difference() {
        let at = |whole, core, memory: Option<f64>| {
            let parts = [("cpu-cores", Some(core)), ("memory", memory)];
            let parts = parts.into_iter().filter_map(|(n, j)| Some((n, Joules(j?))));
            Energy::new(Joules(whole), parts, Provenance::EMULATED)
        };
        let (early, late) = (at(10.0, 4.0, None), at(30.0, 9.0, Some(7.0)));
        assert_eq!(late.rest(), Some(Joules(14.0)));
        let between = late.since(&early);
        assert_eq!(between.whole, Some(Joules(20.0)));
        assert_eq!(between.parts, BTreeMap::from([("cpu-cores", Joules(5.0))]));
        assert_eq!(between.rest(), Some(Joules(15.0)));
    }

    #[test]
    fn unavailable_is_not_zero() {
        let known = Energy::new(Joules(1.0), [], Provenance::EMULATED);
        let none = Energy::default();
        assert_eq!((none.whole, none.rest()), (None, None));
        assert_eq!(known.since(&none).whole, None);
        assert_eq!(none.source, Source::Unavailable);
    }
}
