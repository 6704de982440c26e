//! Settings of the paper and rules of its baselines, checked by lists, identities and single steps.

use super::runs::{PROFILE_SEED, server};
use crate::claim;
use crate::error::ReproduceError;
use crate::figure::Figure;
use crate::inputs::Inputs;
use crate::paper::Paper;
use crate::planned;
use crate::printed::{numbers_of, printed};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt as _, SeedableRng as _};
use std::collections::BTreeSet;
use wattline_meters::{Difference, OutOfRange, WrappingCounter};
use wattline_policies::POLICIES;
use wattline_policy::moderation::{Interrupt, Rule, RuleKind};
use wattline_policy::{
    BuildContext, CoreView, FrequencyDomain, Observation, OperatingPoint, Platform, QueueView,
    Trigger, build,
};
use wattline_report::{Check, Grounds, Table};
use wattline_sim::requests::request_platform;
use wattline_traffic::requests::Workload;
use wattline_units::{Span, Time};

pub(super) fn figures(inputs: &Inputs) -> Result<Vec<Figure>, ReproduceError> {
    let plan = planned::made_for(Paper::Copi)?;
    let server = server(inputs)?;
    let lacks = || ReproduceError::Model("xeon-silver-4108 has no [nic.moderation]".into());
    let card = server.nic.moderation.ok_or_else(lacks)?;
    let micros = |span: Span| span.as_seconds() * 1e6;
    let asked = |itr: u32| Span::from_seconds(f64::from(itr) / 4e6);
    let period = |itr: u32| micros(card.nearest(asked(itr)));
    let itrs = ["CP-007", "CP-008", "CP-009", "CP-010", "CP-011"].map(register);
    let mut table = Table::new(["itr", "period_us", "interrupts_per_second"]);
    for itr in itrs {
        table.numbers([f64::from(itr), period(itr), 1e6 / period(itr)]);
    }
    let periods = itrs.map(period);
    let close = |ours: &[f64], theirs: &[f64]| {
        ours.len() == theirs.len() && ours.iter().zip(theirs).all(|(a, b)| (a - b).abs() < 1e-6)
    };
    let settings = (card.longest - card.shortest).times(card.step) + 1;
    let nominal = f64::from(itrs[4] - itrs[0] + 1);
    let mut states: Vec<f64> = server.processor.frequencies.iter().map(|f| f.gigahertz()).collect();
    states.reverse();
    let tenths: Vec<f64> = (0..11).map(|state| 1.8 - 0.1 * f64::from(state)).collect();
    let presets: Vec<f64> = Workload::ALL.iter().flat_map(|w| w.published_loads()).collect();
    let loads: Vec<f64> =
        ["CP-027", "CP-057"].iter().flat_map(|id| numbers_of(id)).map(|krps| 1e3 * krps).collect();
    let steps = governors(&request_platform(&server))?;
    let domains = domains(&server);
    let default = default_periods();
    let defaults = ["copi", "ondemand"].map(default_period);
    let left = |id: &str| 1.0 - printed(id) / 100.0;
    let sweep: Vec<u32> = (itrs[0]..=itrs[4]).step_by(printed("CP-033") as usize).collect();
    let kept: BTreeSet<u64> = sweep.iter().map(|itr| (1e3 * period(*itr)).round() as u64).collect();
    let combined = 100.0 * (1.0 - left("CP-043") * left("CP-044"));
    let checks: Vec<Check> =
        vec![
        plan.holds(
            "itr-periods",
            close(&periods, &itrs.map(|itr| f64::from(itr) / 4.0)),
            format!("{periods:.1?}"),
        )?,
        plan.check("itr-settings", &[settings as f64])?,
        plan.check("itr-quarter", &[micros(asked(itrs[0] + 4)) - micros(asked(itrs[0]))])?,
        plan.check("itr-nominal", &[nominal])?,
        plan.check("cases", &[states.len() as f64 * nominal])?.contradiction(format!(
            "11 x 4088 = 44,968 counts from 1; 24 to 4088 are 4065 values and 44,715 cases, and \
             the card knows {} of them",
            states.len() as u64 * settings
        )),
        plan.check("default-range", &default)?,
        plan.holds("states", close(&states, &tenths), format!("{states:.1?}"))?,
        plan.holds("governors", steps.0, steps.1)?,
        plan.holds("domains", domains == [[2, 2], [2, 7]], format!("{domains:?}"))?,
        plan.holds("presets", close(&presets, &loads), format!("{presets:?} requests per second"))?,
        plan.holds("periods", defaults == ["100ms", "10ms"], defaults.join(" and "))?,
        plan.check("combined", &[combined])?,
        plan.check("cores", &[server.processor.cores() as f64])?,
        plan.check("counted-energy", &[counted_energy()?])?,
        plan.check("periods-apart", &[kept.len() as f64 / sweep.len() as f64])?
            .note(format!("{} values, every {} from the first", sweep.len(), printed("CP-033"))),
        plan.check("states-remark", &[states.len() as f64])?,
    ];
    Ok(vec![Figure {
        id: "settings",
        title: "Settings of the card, the processor and the baselines".into(),
        about: "Lists, identities and the steps of the rules; nothing is simulated.".into(),
        table,
        plots: Vec::new(),
        checks: checks.into_iter().map(|check| check.on(Grounds::Program)).collect(),
    }])
}

/// Returns the register value named in the quantity of a claim.
pub(super) fn register(id: &str) -> u32 {
    let named = claim::find(id).ok().flatten();
    let digits = named.and_then(|row| row.quantity.strip_prefix("ITR ").map(str::to_owned));
    digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

/// Returns the energy shown by a wrapping counter relative to the energy drawn, in three hours at
/// 20 to 85 W.
fn counted_energy() -> Result<f64, ReproduceError> {
    // The range of Intel's package counter in microjoules; 200 W exceed the package's power.
    const HIGHEST: u64 = 262_143_328_850;
    const MOST: u64 = 200_000_000;
    let failed = |error: OutOfRange| ReproduceError::Model(error.to_string());
    let mut random = Xoshiro256PlusPlus::seed_from_u64(PROFILE_SEED);
    let second = Span::from_millis(1_000);
    let (mut register, mut drawn, mut counted) = (HIGHEST - 1_000, 0, 0);
    let mut counter = WrappingCounter::new(HIGHEST, MOST, register).map_err(failed)?;
    for _ in 0..3 * 3_600 {
        let energy = random.random_range(20_000_000..85_000_000);
        drawn += energy;
        register = (register + energy) % (HIGHEST + 1);
        if let Difference::Exact(steps) = counter.advance(register, second).map_err(failed)? {
            counted += steps;
        }
    }
    Ok(counted as f64 / drawn as f64)
}

/// Returns the shortest and longest period that the driver's rule chooses, in microseconds.
fn default_periods() -> [f64; 2] {
    let mut range = [f64::INFINITY, 0.0f64];
    for packets in 1..=512 {
        for bytes in [60, 128, 576, 1514] {
            let mut rule = Rule::new(RuleKind::Ixgbe);
            // The rule settles after at most 37 steps of 2 us.
            for _ in 0..40 {
                let seen = Interrupt {
                    received: packets,
                    received_bytes: packets * bytes,
                    sent: packets,
                    sent_bytes: packets * bytes,
                    ..Interrupt::default()
                };
                let micros = rule.interrupt(&seen).as_seconds() * 1e6;
                range = [range[0].min(micros), range[1].max(micros)];
            }
        }
    }
    range.map(|micros| (micros * 1e6).round() / 1e6)
}

fn default_period(policy: &str) -> &'static str {
    let parameters =
        wattline_policies::POLICIES.find(policy).map_or(&[][..], |info| info.parameters);
    let named = |name: &str| parameters.iter().find(|parameter| parameter.name == name);
    named("period").or(named("sampling_rate")).map_or("", |parameter| parameter.default)
}

/// Checks that the governors behave as the text says: ondemand at loads of 0, 50 and 100 %;
/// conservative two steps down from P0 and two steps up from P10.
fn governors(platform: &Platform) -> Result<(bool, String), ReproduceError> {
    let fastest = platform.fastest();
    let step = |name: &str, loads: &[f64]| -> Result<Vec<usize>, ReproduceError> {
        let context = BuildContext { platform, server: None, packet: None, seed: 0 };
        let mut policy = build(&POLICIES.parse(name)?, &context)?;
        let mut point = OperatingPoint::full(platform);
        let mut cores = vec![CoreView::default(); platform.cores];
        let queues = vec![QueueView::default(); platform.queues.len()];
        let mut ask = |now, trigger, cores: &[CoreView], point: &mut OperatingPoint| {
            let seen = Observation::new(now, platform, trigger, &queues, cores);
            policy.decide(&seen, point);
            fastest - point.cores[0].frequency
        };
        let mut now = Time::ZERO;
        ask(now, Trigger::Start, &cores, &mut point);
        let mut states = Vec::new();
        for load in loads {
            let period = Span::from_millis(10);
            now += period;
            for core in &mut cores {
                let useful = Span::from_seconds(period.as_seconds() * load);
                core.useful += useful;
                core.asleep += period - useful;
            }
            states.push(ask(now, Trigger::Timer, &cores, &mut point));
        }
        Ok(states)
    };
    let ondemand = step("ondemand", &[0.0, 0.5, 1.0])?;
    // Idling moves it down from P0 to the lowest state, then load moves it up. A step of 5 % of 1.8
    // GHz would be just below one state.
    let loads: Vec<f64> = [[0.0; 12].as_slice(), &[1.0; 2]].concat();
    let all = step("conservative:freq_step=5.6", &loads)?;
    let conservative = [&all[..2], &all[12..]].concat();
    let holds = ondemand == [10, 5, 0] && conservative == [1, 2, 9, 8];
    let shown = format!("ondemand P{ondemand:?}; conservative from P0 and P10 P{conservative:?}");
    Ok((holds, shown))
}

/// Returns the effective states if two cores request P2 and P7: with a chip-wide domain, then per
/// core.
fn domains(server: &wattline_server::RequestServer) -> [[usize; 2]; 2] {
    let mut platform = request_platform(server);
    let fastest = platform.fastest();
    [FrequencyDomain::Chip, FrequencyDomain::Core].map(|domain| {
        platform.domain = domain;
        let mut point = OperatingPoint::full(&platform);
        point.set_frequency(0);
        point.cores[0].frequency = fastest - 2;
        point.cores[1].frequency = fastest - 7;
        let mut states = point.frequencies(&platform).map(|index| fastest - index);
        [states.next().unwrap_or(0), states.next().unwrap_or(0)]
    })
}
