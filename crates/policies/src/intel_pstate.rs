//! Linux's intel_pstate in the mode in which the kernel, not the processor, chooses the frequency.

use super::fixed::Fixed;
use super::sampled::{LoadRule, Sampled};
use wattline_policy::{
    BuildContext, Kind, OperatingPoint, Parameter, Parameters, Platform, Policy, PolicyInfo,
};
use wattline_units::Hertz;

const KERNEL: &str = "Linux, drivers/cpufreq/intel_pstate.c";

/// See the module.
pub static INFO: PolicyInfo = PolicyInfo {
    name: "intel-pstate",
    summary: "Linux's intel_pstate without hardware P-states: a quarter more than the busy share needs, and half of the way down at most",
    source: "Linux, drivers/cpufreq/intel_pstate.c (get_target_pstate, governor `powersave`) and Documentation/admin-guide/pm/intel_pstate.rst",
    parameters: &[
        Parameter {
            name: "interval",
            kind: Kind::Duration { min_micros: 1_000, max_micros: 10_000_000 },
            default: "10ms",
            meaning: "time between two decisions",
            source: KERNEL,
        },
        Parameter {
            name: "epp",
            kind: Kind::Word,
            default: "none",
            meaning: "`none`: with an energy preference (EPP) the processor decides by an unpublished rule, so every other word is refused",
            source: "Intel 64 and IA-32 manual, volume 3, hardware-controlled performance states",
        },
    ],
    make,
};

struct IntelPstate;

fn make(parameters: &Parameters, context: &BuildContext<'_>) -> Result<Box<dyn Policy>, String> {
    let epp = parameters.word("epp");
    if epp != "none" {
        return Err(format!(
            "epp = \"{epp}\": the processor's own rule is not known; allowed: none (policy \
             hardware-pstates plays an assumed one)"
        ));
    }
    let platform = context.platform;
    let linux = Fixed::linux(platform.fastest(), platform);
    Ok(Box::new(Sampled::new(linux, parameters.span("interval"), platform, IntelPstate)))
}

/// Returns the wanted frequency: 1.25 times the fastest by the busy share; if the core ran faster
/// than that, the mean of both.
fn target(fastest: f64, slowest: f64, ran: f64, busy: f64) -> f64 {
    let wanted = (1.25 * fastest * busy).max(slowest);
    if ran > wanted { wanted + 0.5 * (ran - wanted) } else { wanted }
}

impl LoadRule for IntelPstate {
    const USEFUL_ONLY: bool = false;

    fn decide(&mut self, platform: &Platform, load: &[f64], point: &mut OperatingPoint) -> u64 {
        let of = |index: usize| platform.frequencies.get(index).map_or(0.0, |hertz| hertz.0);
        let (slowest, fastest) = (of(0), of(platform.fastest()));
        for (setting, &busy) in point.cores.iter_mut().zip(load) {
            let wanted = target(fastest, slowest, of(setting.frequency), busy);
            setting.frequency = platform.at_most(Hertz(wanted + 1.0));
        }
        1
    }
}

#[cfg(test)]
mod tests {
    use super::target;
    use crate::testing::Bench;
    use wattline_units::Span;

    #[test]
    fn target_is_a_quarter_above_the_load_and_falls_by_halves() {
        assert_eq!(target(4.0, 1.0, 1.0, 0.5), 2.5);
        assert_eq!(target(4.0, 1.0, 4.0, 0.5), 3.25, "half of the way from 4 to 2.5");
        assert_eq!(target(4.0, 1.0, 1.0, 0.0), 1.0, "never below the slowest");
        assert!(target(4.0, 1.0, 1.0, 0.9) > 4.0, "the platform bounds it");
    }

    #[test]
    fn an_idle_core_comes_down_in_steps_and_a_busy_one_goes_up_at_once() {
        let mut bench = Bench::playing("intel-pstate");
        let mut rungs = vec![bench.rung().1];
        for _ in 0..6 {
            bench.pass(Span::from_millis(10), &[0.0], 0);
            rungs.push(bench.rung().1);
        }
        assert!(rungs.windows(2).all(|pair| pair[1] <= pair[0]) && rungs[1] == 6, "{rungs:?}");
        assert_eq!(rungs[6], 0, "{rungs:?}");
        bench.pass(Span::from_millis(10), &[0.95], 0);
        assert_eq!(bench.rung().1, 13);
    }

    #[test]
    fn a_preference_is_refused() {
        let error = Bench::new().refused("intel-pstate:epp=balance_power");
        assert!(error.contains("not known"), "{error}");
    }
}
