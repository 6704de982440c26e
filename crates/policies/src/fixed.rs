//! Operating points that never change, and the parameters that describe one.

use wattline_policy::{
    AskAgain, Kind, Observation, OperatingPoint, Parameter, Parameters, Platform, Policy, Wait,
};
use wattline_units::{Hertz, Span};

/// Number of active cores.
pub(super) const CORES: Parameter = Parameter {
    name: "cores",
    kind: Kind::Count { min: 0, max: wattline_policy::MAX_CORES as u64 },
    default: "0",
    meaning: "active cores; 0 for all",
    source: "PowerSave, section 3: all cores serve",
};
/// Frequency of the cores.
pub(super) const FREQUENCY: Parameter = Parameter {
    name: "frequency_ghz",
    kind: Kind::Number { min: 0.0, max: 20.0 },
    default: "0",
    meaning: "frequency in GHz, the nearest P-state is taken, and at most a tenth beyond them all is allowed; 0 for the fastest",
    source: "PowerSave, section 3: measured at the fastest",
};
/// Deepest nap of a core.
pub(super) const IDLE: Parameter = Parameter {
    name: "idle",
    kind: Kind::Word,
    default: "C1",
    meaning: "deepest idle state of an active core, by name, or `deepest`",
    source: "PowerSave, section 5.2: C1 is the sweet spot",
};
/// Moderation of interrupts.
pub(super) const MODERATION: Parameter = Parameter {
    name: "moderation",
    kind: Kind::Duration { min_micros: 0, max_micros: 1_000_000 },
    default: "0us",
    meaning: "shortest time between two interrupts of a queue",
    source: "ours: PowerSave does not print it; without moderation its figures are met",
};

/// Largest relative deviation beyond the platform's range: users write few digits.
const TOLERANCE: f64 = 0.1;

/// Reads an idle state by name.
pub(super) fn idle_state(parameters: &Parameters, platform: &Platform) -> Result<usize, String> {
    let name = parameters.word("idle");
    if name.eq_ignore_ascii_case("deepest") {
        return Ok(platform.deepest());
    }
    // A platform with another name for its lightest state (POLL, WFI) still has one.
    let lightest = (name == IDLE.default).then_some(0);
    platform.idle_state(name).or(lightest).ok_or_else(|| {
        let names: Vec<&str> = platform.idle_states.iter().map(|state| &*state.name).collect();
        format!("idle = \"{name}\": the platform has {} and deepest", names.join(", "))
    })
}

/// Reads the number of active cores.
pub(super) fn core_count(parameters: &Parameters, platform: &Platform) -> Result<usize, String> {
    match parameters.count("cores") as usize {
        0 => Ok(platform.cores),
        cores if cores <= platform.cores => Ok(cores),
        cores => Err(format!("cores = {cores}: the platform has {}", platform.cores)),
    }
}

/// Reads a frequency as an index. A platform with several frequencies refuses one that is far
/// outside their range.
pub(super) fn frequency(parameters: &Parameters, platform: &Platform) -> Result<usize, String> {
    let gigahertz = parameters.number("frequency_ghz");
    if gigahertz == 0.0 {
        return Ok(platform.fastest());
    }
    let of = |index: usize| platform.frequencies[index].0 * 1e-9;
    let (slowest, fastest) = (of(0), of(platform.fastest()));
    let near = slowest * (1.0 - TOLERANCE)..=fastest * (1.0 + TOLERANCE);
    if platform.frequencies.len() > 1 && !near.contains(&gigahertz) {
        return Err(format!(
            "frequency_ghz = {gigahertz}: the platform has {slowest:.2} to {fastest:.2}"
        ));
    }
    Ok(platform.closest(Hertz::from_gigahertz(gigahertz)))
}

/// Reads the moderation. Zero stands for the platform's shortest period; other values must be
/// within its range, and it must have the knob.
pub(super) fn moderation(parameters: &Parameters, platform: &Platform) -> Result<Span, String> {
    let period = parameters.span(MODERATION.name);
    let (shortest, longest) = platform.moderation;
    if period == Span::ZERO || platform.can.set_moderation && (shortest..=longest).contains(&period)
    {
        return Ok(period);
    }
    let micros = |span: Span| (span.as_seconds() * 1e9).round() / 1e3;
    let allowed = if platform.can.set_moderation {
        format!("the platform allows {} us to {} us, or 0us", micros(shortest), micros(longest))
    } else {
        "the period of interrupts cannot be set here; only 0us is allowed".to_owned()
    };
    Err(format!("moderation = {} us: {allowed}", micros(period)))
}

/// Sets an operating point at the start and never asks again.
#[derive(Debug, Clone)]
pub(super) struct Fixed {
    pub cores: usize,
    pub frequency: usize,
    pub idle: usize,
    pub wait: Wait,
    pub moderation: Span,
}

impl Fixed {
    /// Waits for interrupts with all cores at one frequency, every idle state allowed: Linux under
    /// a governor that holds the frequency.
    pub fn linux(frequency: usize, platform: &Platform) -> Self {
        Self {
            cores: platform.cores,
            frequency,
            idle: platform.deepest(),
            wait: Wait::Interrupt,
            moderation: Span::ZERO,
        }
    }

    pub fn apply(&self, platform: &Platform, point: &mut OperatingPoint) {
        point.set_active(self.cores, self.idle, platform.deepest());
        point.set_frequency(self.frequency);
        point.set_wait(self.wait);
        point.set_moderation(platform, self.moderation);
    }
}

impl Policy for Fixed {
    fn decide(&mut self, seen: &Observation<'_>, point: &mut OperatingPoint) -> AskAgain {
        self.apply(seen.platform, point);
        AskAgain::NEVER
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use wattline_units::Span;

    #[test]
    fn frequency_is_near_one_of_the_platform() {
        let mut bench = Bench::new();
        for (text, frequency) in [("0", 13), ("1.5", 0), ("2", 3), ("3.6", 13)] {
            bench.play(&format!("napi:frequency_ghz={text}"), None);
            assert_eq!(bench.rung().1, frequency, "{text}");
        }
        for text in ["0.8", "9"] {
            for policy in ["napi", "poll"] {
                let error = bench.refused(&format!("{policy}:frequency_ghz={text}"));
                let said = format!("frequency_ghz = {text}: the platform has 1.60 to 3.33");
                assert!(error.contains(&said), "{error}");
            }
        }
    }

    #[test]
    fn moderation_beyond_the_platform_is_refused() {
        let mut bench = Bench::new();
        bench.platform.can.set_moderation = true;
        bench.platform.moderation = (Span::from_micros(6), Span::from_micros(1022));
        assert!(bench.make("napi:moderation=84us", None).is_ok());
        assert!(bench.make("napi:moderation=0us", None).is_ok(), "the shortest period");
        for period in ["2us", "5ms"] {
            let error = bench.refused(&format!("napi:moderation={period}"));
            assert!(error.contains("the platform allows 6 us to 1022 us, or 0us"), "{error}");
        }
        bench.platform.can.set_moderation = false;
        let error = bench.refused("napi:moderation=84us");
        assert!(error.contains("moderation = 84 us: the period of interrupts cannot"), "{error}");
        assert!(bench.make("napi", None).is_ok());
    }
}
