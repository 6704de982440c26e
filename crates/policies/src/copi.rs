//! Co-PI: V/F state and interrupt rate together, from tables of a profile.

#[cfg(test)]
mod brute_force;
mod correction;
mod decide;
mod of_tables;
mod options;
#[cfg(test)]
mod tests;

pub use options::Options;

use super::fixed::{Fixed, IDLE, idle_state};
use decide::Engine;
use of_tables::{forced, notes, unfit};
use std::sync::Arc;
use wattline_policy::moderation::RuleKind;
use wattline_policy::tables::read_tables;
use wattline_policy::{
    AskAgain, BuildContext, Kind, Looks, Observation, OperatingPoint, Parameter, Parameters,
    Platform, Policy, PolicyInfo, Trigger,
};
use wattline_server::tables::ProfileTables;
use wattline_units::Span;

/// See the module.
pub static INFO: PolicyInfo = PolicyInfo {
    name: "copi",
    summary: "Takes for each core the V/F state and interrupt rate of least power whose tail latency is within the target, from tables of a profile",
    source: "Co-PI, sections IV and V.A",
    parameters: &[
        Parameter {
            name: "tables",
            kind: Kind::Word,
            default: "none",
            meaning: "file of a profile of this machine and workload; with `none` all cores stay at the highest V/F state",
            source: "Co-PI, section IV.B: filled by offline profiling",
        },
        Parameter {
            name: "force",
            kind: Kind::Word,
            default: "no",
            meaning: "`yes` takes tables of another machine, too: the figures of a profiled frequency go to the lowest one that is not slower",
            source: "ours",
        },
        Parameter {
            name: "target",
            kind: Kind::Duration { min_micros: 0, max_micros: 60_000_000 },
            default: "0us",
            meaning: "tail latency target; 0 for that of the highest V/F state with the driver's moderation, from the tables",
            source: "Co-PI, section IV.A",
        },
        Parameter {
            name: "period",
            kind: Kind::Duration { min_micros: 1_000, max_micros: 60_000_000 },
            default: "100ms",
            meaning: "time between two decisions",
            source: "Co-PI, section V.A",
        },
        Parameter {
            name: "slack",
            kind: Kind::Number { min: 0.0, max: 100.0 },
            default: "0",
            meaning: "per cent by which the target of the tables may be exceeded",
            source: "ours: the paper takes points of \"the same\" latency and does not say how near",
        },
        Parameter {
            name: "hysteresis",
            kind: Kind::Number { min: 0.0, max: 100.0 },
            default: "1",
            meaning: "minimum saving in per cent for leaving a feasible point",
            source: "ours: a change takes time, and neighbours differ by less than a profile's noise",
        },
        Parameter {
            name: "correction",
            kind: Kind::Number { min: 0.0, max: 1.0 },
            default: "0.5",
            meaning: "share of the gap between measured and tabled latency that a decision takes over where the target was missed; 0 trusts the tables",
            source: "ours: the paper has no feedback",
        },
        IDLE_STATE,
    ],
    make,
};

/// Deepest idle state; all are allowed by default, as in Linux.
const IDLE_STATE: Parameter =
    Parameter { default: "deepest", source: "Co-PI leaves idle states to the kernel", ..IDLE };

fn make(parameters: &Parameters, context: &BuildContext<'_>) -> Result<Box<dyn Policy>, String> {
    let target = parameters.span("target");
    let options = Options {
        target: (target != Span::ZERO).then_some(target),
        period: parameters.span("period"),
        slack: parameters.number("slack") / 100.0,
        hysteresis: parameters.number("hysteresis") / 100.0,
        correction: parameters.number("correction"),
    };
    let tables = match parameters.word("tables") {
        "none" => None,
        path => Some(Arc::new(read_tables(path)?)),
    };
    let tables = match (parameters.word("force"), tables) {
        ("no", tables) => tables,
        ("yes", tables) => tables.map(|tables| forced(tables, context.platform)),
        (other, _) => return Err(format!("force: {other} is neither yes nor no")),
    };
    let idle = idle_state(parameters, context.platform)?;
    make_with(tables, options, idle, context.platform)
}

/// Creates Co-PI from the caller's tables, with all idle states allowed.
///
/// # Errors
/// Fails if the tables belong to another machine.
pub fn with_tables(
    tables: Arc<ProfileTables>,
    options: Options,
    platform: &Platform,
) -> Result<Box<dyn Policy>, String> {
    make_with(Some(tables), options, platform.deepest(), platform)
}

fn make_with(
    tables: Option<Arc<ProfileTables>>,
    options: Options,
    idle: usize,
    platform: &Platform,
) -> Result<Box<dyn Policy>, String> {
    if let Some(why) = tables.as_ref().and_then(|tables| unfit(tables, &options, platform)) {
        return Err(why);
    }
    let start = Fixed { idle, ..Fixed::linux(platform.fastest(), platform) };
    let notes = tables.as_ref().map(|tables| notes(tables)).unwrap_or_default();
    let engine = tables.map(|tables| Engine::new(tables, options, platform));
    let driver = platform.can.driver_rules.then_some(RuleKind::Ixgbe);
    Ok(Box::new(Copi { start, period: options.period, engine, notes, driver }))
}

struct Copi {
    start: Fixed,
    period: Span,
    engine: Option<Engine>,
    /// Remarks on the tables.
    notes: Vec<String>,
    /// Driver rule for the queues of a core without a feasible point.
    driver: Option<RuleKind>,
}

impl Policy for Copi {
    fn looks_at(&self) -> Looks {
        Looks::WHOLE.and_latency()
    }

    fn decide(&mut self, seen: &Observation<'_>, point: &mut OperatingPoint) -> AskAgain {
        if seen.trigger == Trigger::Start {
            self.start.apply(seen.platform, point);
            point.leave_moderation(seen.platform);
        }
        let Some(engine) = &mut self.engine else { return AskAgain::NEVER };
        if seen.trigger == Trigger::Start {
            engine.begin(seen);
        } else {
            engine.decide(seen, point);
        }
        AskAgain::at(seen.now + self.period)
    }

    fn driver_rule(&self, queue: usize) -> Option<RuleKind> {
        let chosen = self.engine.as_ref().is_some_and(|engine| engine.has_chosen(queue));
        if chosen { None } else { self.driver }
    }

    fn remark(&self) -> Option<String> {
        match &self.engine {
            None => Some(
                "copi has no tables: all cores stay at the highest V/F state with the driver's \
                 moderation (tables=FILE)"
                    .to_owned(),
            ),
            Some(engine) => {
                let remarks: Vec<String> =
                    self.notes.iter().cloned().chain(engine.remark()).collect();
                (!remarks.is_empty()).then(|| remarks.join("; "))
            }
        }
    }
}
