//! The `[bolla]` section of a server file.

use super::{BollaModel, Chi, FrequencyPoint, PRINTED_COEFFICIENTS};
use crate::input::Section;
use wattline_units::{Hertz, PacketsPerSecond, Watts};

/// Form of χ requested by a file.
#[derive(Clone, Copy)]
enum Form {
    Polynomial,
    Corrected,
}

impl BollaModel {
    /// Reads `[bolla]`; its lists are parallel to `processor.frequencies_ghz`.
    pub(crate) fn read(
        section: &Section<'_, '_>,
        name: &str,
        frequencies: Option<&[Hertz]>,
        cores: Option<usize>,
    ) -> Option<Self> {
        let base = section.number_or("base_watts", 0.0, 0.0..=100_000.0);
        let idle = section.numbers("idle_watts", 0.0..=10_000.0);
        let active = section.numbers("active_watts", 0.001..=10_000.0);
        let max_rate = section.numbers("max_rate_pps", 1.0..=1e11);
        let gamma = section.numbers("gamma", 0.01..=1024.0);
        let form = section.choice_or_first(
            "form",
            &[("plain", Form::Polynomial), ("corrected", Form::Corrected)],
        );
        let coefficients = if section.has("chi_coefficients") {
            section.numbers("chi_coefficients", -1e6..=1e6)
        } else {
            Some(PRINTED_COEFFICIENTS.to_vec())
        };
        if let Some(frequencies) = frequencies {
            let lists =
                [("idle_watts", &idle), ("active_watts", &active), ("max_rate_pps", &max_rate)];
            for (key, list) in lists {
                if let Some(list) = list
                    && list.len() != frequencies.len()
                {
                    let (has, needs) = (list.len(), frequencies.len());
                    let why =
                        format!("has {has} values, but processor.frequencies_ghz has {needs}");
                    section.contradiction(key, why);
                    return None;
                }
            }
        }
        if let (Some(idle), Some(active)) = (&idle, &active)
            && let Some((idle, active)) =
                idle.iter().zip(active).find(|(idle, active)| idle >= active)
        {
            let why = format!("a core draws {active} W when active, not more than idle, {idle} W");
            section.contradiction("active_watts", why);
        }
        if let Some(gamma) = &gamma {
            check_gamma(section, gamma, cores);
        }
        if let Some(coefficients) = &coefficients
            && coefficients.first().is_none_or(|constant| *constant != 0.0)
        {
            let why = "the first coefficient must be 0: no throughput, no power above idle";
            section.contradiction("chi_coefficients", why.into());
        }
        let (idle, active, max_rate) = (idle?, active?, max_rate?);
        let points = frequencies?.iter().enumerate().map(|(index, frequency)| FrequencyPoint {
            frequency: *frequency,
            idle: Watts(idle[index]),
            active: Watts(active[index]),
            max_rate: PacketsPerSecond(max_rate[index]),
        });
        let polynomial = Chi::polynomial(coefficients?);
        Some(Self {
            name: name.to_string(),
            base: Watts(base?),
            frequencies: points.collect(),
            gamma: gamma?,
            chi: match form? {
                Form::Polynomial => polynomial,
                Form::Corrected => polynomial.corrected(),
            },
        })
    }
}

/// Checks that gamma(1) = 1 and that each further core adds between zero and one core. Measured
/// values scatter, so a small excess is allowed.
fn check_gamma(section: &Section<'_, '_>, gamma: &[f64], cores: Option<usize>) {
    const SCATTER: f64 = 1.05;
    if gamma.first().is_none_or(|first| (first - 1.0).abs() > 1e-9) {
        section.contradiction("gamma", "the first value is gamma(1) and must be 1".into());
    }
    for (index, value) in gamma.iter().enumerate() {
        let most = (index + 1) as f64 * SCATTER;
        if *value < 1.0 / SCATTER || *value > most {
            let why = format!("gamma({}) = {value}, but must be 1 to {}", index + 1, index + 1);
            section.contradiction("gamma", why);
        }
    }
    if let Some(cores) = cores
        && gamma.len() > cores
    {
        let why = format!("has {} values, but the processor has {cores} cores", gamma.len());
        section.contradiction("gamma", why);
    }
}
