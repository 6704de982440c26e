//! Co-PI: V/F state and interrupt rate together, from tables of a profile.

#[cfg(test)]
mod brute_force;
mod correction;
mod decide;
mod options;
#[cfg(test)]
mod tests;

pub use options::Options;

use super::fixed::{Fixed, IDLE, idle_state};
use crate::moderation::RuleKind;
use crate::{
    AskAgain, BuildContext, Kind, Looks, Observation, OperatingPoint, Parameter, Parameters,
    Platform, Policy, PolicyInfo, Trigger,
};
use decide::Engine;
use std::sync::Arc;
use wattline_server::tables::{EnergyOrder, Fingerprint, NOT_MEASURED, ProfileTables};
use wattline_units::{Span, Time};

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
            meaning: "tail latency to stay within; 0 for that of the highest V/F state with the driver's moderation, from the tables",
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
            meaning: "a feasible point is left only for one that saves more than so many per cent",
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

/// All idle states, as Linux allows them.
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
        path => Some(Arc::new(load(path)?)),
    };
    let tables = match (parameters.word("force"), tables) {
        ("no", tables) => tables,
        ("yes", tables) => tables.map(|tables| forced(tables, context.platform)),
        (other, _) => return Err(format!("force: {other} is neither yes nor no")),
    };
    let idle = idle_state(parameters, context.platform)?;
    make_with(tables, options, idle, context.platform)
}

/// The percentile by which tables are corrected ([`crate::LatencyView::p95`]).
const MEASURED: f64 = 95.0;
/// Two million points, and as many lines again of notes.
const MOST_BYTES: u64 = 256 << 20;

/// The tables of a file; one that has no end, or does not begin, is refused before it is read.
fn load(path: &str) -> Result<ProfileTables, String> {
    if let Ok(file) = std::fs::metadata(path) {
        if !file.is_file() {
            return Err(format!("tables: {path} is no regular file"));
        }
        if file.len() > MOST_BYTES {
            let most = MOST_BYTES >> 20;
            return Err(format!("tables: {path} has {} bytes; {most} MiB are allowed", file.len()));
        }
    }
    // Says itself why a file cannot be read.
    ProfileTables::load(path).map_err(|error| {
        let hint = match path.rsplit_once('+') {
            Some((file, _)) if std::path::Path::new(file).exists() => {
                "; a moderation belongs to the name of the policy: copi+84us:tables=FILE"
            }
            _ => "",
        };
        format!("{error}{hint}")
    })
}

/// The tables as they are, or carried over from another machine.
fn forced(tables: Arc<ProfileTables>, platform: &Platform) -> Arc<ProfileTables> {
    let machine = fingerprint(platform);
    if tables.conditions.machine.differs_from(&machine).is_none() {
        return tables;
    }
    // What cannot be carried over is refused as before.
    tables.carried_to(machine).map_or(tables, Arc::new)
}

/// Co-PI with tables that the caller has, all idle states allowed.
///
/// # Errors
/// When the tables are of another machine.
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
    if let Some(tables) = &tables {
        let of_tables = &tables.conditions.machine;
        if let Some(differs) = of_tables.differs_from(&fingerprint(platform)) {
            return Err(format!(
                "tables: made on another machine ({}): {differs}; profile this one, or \
                 take them with force=yes",
                tables.conditions.server
            ));
        }
        if tables.energy_order().is_none() {
            return Err(format!(
                "tables: watts are known of some points and not of others ({}): nothing says which \
                 point takes less; profile again, with a meter that answers throughout (`wattline \
                 meter list`) or with --without-power",
                tables.conditions.server
            ));
        }
    }
    let percentile = tables.as_ref().map_or(MEASURED, |tables| tables.conditions.percentile);
    if (percentile - MEASURED).abs() > 1e-6 && options.correction > 0.0 {
        return Err(format!(
            "tables: their latencies are percentile {percentile}, and what is measured under copi, by \
             which it corrects them, is percentile {MEASURED}; profile that one, or trust the tables by \
             correction=0, with a target of their percentile"
        ));
    }
    if let Some(why) = tables.as_ref().and_then(|tables| unturned(tables, platform)) {
        return Err(why);
    }
    let start = Fixed { idle, ..Fixed::linux_on(INFO.name, platform.fastest(), platform) };
    let notes = tables.as_ref().map(|tables| notes(tables)).unwrap_or_default();
    let engine = tables.map(|tables| Engine::new(tables, options, platform));
    let driver = platform.can.driver_rules.then_some(RuleKind::Ixgbe);
    Ok(Box::new(Copi { start, period: options.period, engine, notes, driver }))
}

/// Why tables over a knob that the policy cannot turn here say nothing of what will hold: of several
/// states or periods it would choose one that nobody sets.
fn unturned(tables: &ProfileTables, platform: &Platform) -> Option<String> {
    let (loads, states, periods) =
        (0..tables.loads().len(), tables.frequencies().len(), tables.periods().len());
    let known = |state: usize, period: usize| {
        loads.clone().any(|load| tables.point(load, state, period).is_some())
    };
    let with_period = (0..periods).filter(|period| (0..states).any(|state| known(state, *period)));
    let with_state = (0..states).filter(|state| (0..periods).any(|period| known(*state, period)));
    let listed = |values: &[String]| values.join(", ");
    let micros = with_period.map(|at| format!("{}", tables.periods()[at].as_seconds() * 1e6));
    let micros: Vec<String> = micros.collect();
    if !platform.can.set_moderation && micros.len() > 1 {
        return Some(format!(
            "tables: they have {} moderation periods ({} us), and copi cannot set the period here, \
             so nothing says which of them will hold; let it (under `wattline govern` by knobs with \
             \"moderation\" and moderation = \"policy\", without +PERIOD behind the policy, with cards \
             that can be moderated), or profile the server with the moderation that it will have",
            micros.len(),
            listed(&micros)
        ));
    }
    let gigahertz = with_state.map(|at| format!("{}", tables.frequencies()[at].gigahertz()));
    let gigahertz: Vec<String> = gigahertz.collect();
    if !platform.can.set_frequency && gigahertz.len() > 1 {
        return Some(format!(
            "tables: they have {} V/F states ({} GHz), and copi cannot set the frequency here, so \
             nothing says which of them will hold; let it (under `wattline govern` by knobs with \
             \"frequency\", on CPUs whose frequency can be set), or profile the server without it",
            gigahertz.len(),
            listed(&gigahertz)
        ));
    }
    None
}

/// What a user should know of the tables: what points are compared by where nobody measured watts
/// here, and that a search picked the points.
fn notes(tables: &ProfileTables) -> Vec<String> {
    let told = tables.conditions.energy.as_deref();
    let told = match tables.energy_order() {
        Some(EnergyOrder::StateThenPeriod) => Some(told.unwrap_or(NOT_MEASURED)),
        _ => told,
    };
    let energy = told.map(|told| format!("copi: energy of the tables: {told}"));
    let (loads, states, periods) =
        (tables.loads().len(), tables.frequencies().len(), tables.periods().len());
    let all = loads * states * periods;
    let known = (0..all).filter(|at| {
        let (load, state) = (at / (states * periods), at / periods % states);
        tables.point(load, state, at % periods).is_some()
    });
    let known = known.count();
    let sparse = (known * 2 < all).then(|| {
        format!(
            "copi: the tables have {known} of {all} points: those of a sparse profile serve the target that \
             it searched for, and under another one more energy is used than would have to be"
        )
    });
    energy.into_iter().chain(sparse).collect()
}

/// What tables must be of to fit a platform.
pub fn fingerprint(platform: &Platform) -> Fingerprint {
    let micros = |span: Span| span.as_seconds() * 1e6;
    Fingerprint {
        cores: platform.cores,
        frequencies_ghz: platform.frequencies.iter().map(|f| f.gigahertz()).collect(),
        moderation_us: [micros(platform.moderation.0), micros(platform.moderation.1)],
        hardware: platform.hardware.clone(),
    }
}

struct Copi {
    start: Fixed,
    period: Span,
    engine: Option<Engine>,
    /// What to know of the tables.
    notes: Vec<String>,
    /// What moderates the queues of a core without a feasible point.
    driver: Option<RuleKind>,
}

impl Policy for Copi {
    fn name(&self) -> &'static str {
        INFO.name
    }

    fn looks_at(&self) -> Looks {
        Looks::WHOLE.and_latency()
    }

    fn decide(
        &mut self,
        now: Time,
        seen: &Observation<'_>,
        point: &mut OperatingPoint,
    ) -> AskAgain {
        if seen.trigger == Trigger::Start {
            self.start.apply(seen.platform, point);
            point.leave_moderation(seen.platform);
        }
        let Some(engine) = &mut self.engine else { return AskAgain::NEVER };
        if seen.trigger == Trigger::Start {
            engine.begin(now, seen);
        } else {
            engine.decide(now, seen, point);
        }
        AskAgain::at(now + self.period)
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
                let told: Vec<String> = self.notes.iter().cloned().chain(engine.remark()).collect();
                (!told.is_empty()).then(|| told.join("; "))
            }
        }
    }
}
