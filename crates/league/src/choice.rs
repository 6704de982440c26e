//! Choice of the best setting of a rival.

/// Result of a setting on one of the tuning seeds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Trial {
    pub energy_joules: f64,
    pub late_fraction: f64,
    pub feasible: bool,
}

/// The setting that was chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Choice {
    /// Its number in the grid.
    pub setting: usize,
    /// True if the setting kept the budget with no packet lost on all tuning seeds.
    pub kept: bool,
}

/// Chooses the best of `settings` settings. Among settings that kept the budget on all seeds it is
/// the one with the least mean energy. If no setting did, it is the one whose worst share of late
/// packets is least. Ties go to the first.
///
/// The search needs few trials, yet gives the same result as trying all settings on all seeds. A
/// setting that missed the budget on one seed is out of the first group. If that group is empty,
/// the setting with the least worst share so far is tried next, since the share only grows with
/// further seeds; it has won once it was tried on all.
///
/// # Errors
/// The first error of `trial`. It is called with the indices of a setting and a seed, possibly more
/// than once for the same pair.
pub(crate) fn best<E>(
    settings: usize,
    seeds: usize,
    mut trial: impl FnMut(usize, usize) -> Result<Trial, E>,
) -> Result<Choice, E> {
    let mut least: Option<(f64, usize)> = None;
    // For each setting: its worst share so far, and the number of seeds tried.
    let mut tried = Vec::with_capacity(settings);
    for setting in 0..settings {
        let (mut worst, mut energy, mut seed, mut kept) = (0.0_f64, 0.0, 0, true);
        while kept && seed < seeds {
            let found = trial(setting, seed)?;
            worst = worst.max(found.late_fraction);
            energy += found.energy_joules;
            kept = found.feasible;
            seed += 1;
        }
        tried.push((worst, seed));
        if kept && least.is_none_or(|(joules, _)| energy < joules) {
            least = Some((energy, setting));
        }
    }
    if let Some((_, setting)) = least {
        return Ok(Choice { setting, kept: true });
    }
    loop {
        let numbered = tried.iter().copied().enumerate();
        // `min_by` returns the first of equal settings.
        let Some((setting, (worst, seed))) =
            numbered.min_by(|(_, (a, _)), (_, (b, _))| a.total_cmp(b))
        else {
            return Ok(Choice { setting: 0, kept: false });
        };
        if seed == seeds {
            return Ok(Choice { setting, kept: false });
        }
        let found = trial(setting, seed)?;
        tried[setting] = (worst.max(found.late_fraction), seed + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::convert::Infallible;

    /// The rule by its definition, with every setting tried on every seed.
    fn by_trying_all(trials: &[Vec<Trial>]) -> Choice {
        let energy = |of: &Vec<Trial>| of.iter().map(|trial| trial.energy_joules).sum::<f64>();
        let worst =
            |of: &Vec<Trial>| of.iter().map(|trial| trial.late_fraction).fold(0.0, f64::max);
        let numbered = || trials.iter().enumerate();
        let kept = numbered().filter(|(_, of)| of.iter().all(|trial| trial.feasible));
        match kept.min_by(|(_, a), (_, b)| energy(a).total_cmp(&energy(b))) {
            Some((setting, _)) => Choice { setting, kept: true },
            None => {
                let least = numbered().min_by(|(_, a), (_, b)| worst(a).total_cmp(&worst(b)));
                Choice { setting: least.unwrap().0, kept: false }
            }
        }
    }

    proptest! {
        /// Few distinct values, so that ties are frequent.
        #[test]
        fn choice_equals_that_of_trying_all(
            drawn in prop::collection::vec(prop::collection::vec((0u8..4, 0u8..6, 0u8..8), 3), 1..9),
        ) {
            let trial = |&(energy, late, lost): &(u8, u8, u8)| Trial {
                energy_joules: f64::from(energy),
                late_fraction: f64::from(late) * 0.004,
                feasible: lost > 0 && late < 3,
            };
            let trials: Vec<Vec<Trial>> =
                drawn.iter().map(|of| of.iter().map(trial).collect()).collect();
            let mut calls = 0;
            let found = best(trials.len(), 3, |setting, seed| {
                calls += 1;
                Ok::<_, Infallible>(trials[setting][seed])
            });
            prop_assert_eq!(found.unwrap(), by_trying_all(&trials));
            prop_assert!(calls <= trials.len() * 3);
        }
    }
}
