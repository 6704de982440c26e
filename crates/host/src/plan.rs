//! Every write that a governor would make on a machine, and why; nothing is written.

use super::writes::Kept;
use super::{Host, HostOptions, NoWorkers, Workers};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::PoisonError;
use wattline_governor::machine::{Machine, Taken, View};
use wattline_governor::step::{Step, between};
use wattline_knobs::power::Direction;
use wattline_knobs::registration::Registration;
use wattline_knobs::rivals::{self, Rival};
use wattline_knobs::{Access, Machine as Settings, Plan, Planned, Setting};
use wattline_linux::sysfs::Tree;
use wattline_policy::{
    BuildContext, Observation, OperatingPoint, Platform, PlatformError, Policy, PolicySpec,
    SpecError, Trigger, build,
};
use wattline_server::ServerModel;
use wattline_units::Time;

/// Writes of a governor to a machine.
#[derive(Debug, Clone, Serialize)]
pub struct PowerPlan {
    /// The policy.
    pub policy: String,
    /// Writes when the router starts, in order.
    pub at_start: Vec<Planned>,
    /// Writes that may follow, by setting.
    pub later: Vec<LaterWrite>,
    /// Most of these writes per second, in the long run.
    pub writes_per_second: Option<f64>,
    /// Values that save more than the policy asks for, and therefore stay.
    pub kept: Vec<Kept>,
    /// Knobs that cannot be set, with the reasons.
    pub missing: Vec<String>,
    /// Steps that would fail.
    pub problems: Vec<String>,
    /// Other programs that set the same knobs.
    pub rivals: Vec<Rival>,
}

/// A setting that a policy may change while it runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LaterWrite {
    /// Setting that would be written.
    pub setting: Setting,
    /// The values that it may get; for indirection tables, as many as there are numbers of cores.
    pub values: Vec<String>,
    /// Reason of the first write, with the rule that leads to it.
    pub why: String,
    /// Effect of each value on power, compared with the value before the first write.
    pub directions: Vec<Direction>,
    /// Cost of each write in writes of the budget per second.
    pub write_cost: u32,
    /// Time that the setting stays after each write, in seconds.
    pub dwell_seconds: f64,
}

/// Reason for the absence of a plan.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The policy's text is invalid, or it cannot work on this machine.
    #[error(transparent)]
    Policy(#[from] SpecError),
    /// No policy can work on this machine.
    #[error(transparent)]
    Platform(#[from] PlatformError),
}

/// Returns the plan of a policy, with the server model and seed that it uses, on the machine
/// described by `options`.
///
/// # Errors
/// [`PlanError`].
pub fn plan(
    spec: &PolicySpec,
    server: &ServerModel,
    seed: u64,
    options: HostOptions,
) -> Result<PowerPlan, PlanError> {
    let make = |platform: &Platform| {
        // The cost of a packet does not affect the writes.
        let context = BuildContext { platform, server: Some(server), packet: None, seed };
        build(spec, &context)
    };
    let course = |platform: &Platform, full: &OperatingPoint| {
        Course::any(&format!("as {} decides", spec.policy.name), platform, full)
    };
    plan_with(spec.to_string(), make, course, (options, Box::new(NoWorkers)))
}

/// Operating points that a policy may request, and its pace.
pub struct Course {
    /// The points, each with the rule that leads to it.
    pub points: Vec<(String, OperatingPoint)>,
    /// Changes of one setting per second at most; `None` to go by the policy's own times.
    pub changes_per_second: Option<f64>,
}

impl Course {
    /// Returns the course of a policy that may request any point, by one rule.
    pub fn any(rule: &str, platform: &Platform, full: &OperatingPoint) -> Self {
        let points = extremes(full, platform).into_iter().map(|point| (rule.to_owned(), point));
        Self { points: points.collect(), changes_per_second: None }
    }
}

/// Returns the plan of a policy with this name, made by `make`, on its course; `workers` show the
/// machine.
///
/// # Errors
/// [`PlanError`].
pub fn plan_with(
    name: String,
    make: impl FnOnce(&Platform) -> Result<Box<dyn Policy>, SpecError>,
    course: impl FnOnce(&Platform, &OperatingPoint) -> Course,
    (options, workers): (HostOptions, Box<dyn Workers>),
) -> Result<PowerPlan, PlanError> {
    let tree = options.tree.clone();
    let ports = options.layout.ports.iter();
    let interfaces: Vec<String> = ports.filter_map(|port| port.interface.clone()).collect();
    let options = HostOptions { meters: false, ..options };
    let mut host = Host::new(options, Plan::new(Settings::new(&tree)), workers)?;
    let platform = host.platform().clone();
    let mut policy = make(&platform)?;
    let mut problems = Vec::new();
    let full = host.present();
    let mut first = full.clone();
    let view = View::new(&platform);
    let observation =
        Observation::new(Time::ZERO, &platform, Trigger::Start, &view.queues, &view.cores);
    let ask = policy.decide(&observation, &mut first);
    first.bound(&platform, &full);
    go(&mut host, &full, &first, &mut problems);
    let at_start = host.knobs().writes().to_vec();
    let mut from = first;
    let course = course(&platform, &full);
    let mut rules = Vec::new();
    // Twice: the first point's setting at its start is a value, too.
    for (rule, to) in course.points.iter().chain(&course.points) {
        go(&mut host, &from, to, &mut problems);
        rules.resize(host.knobs().writes().len() - at_start.len(), rule.as_str());
        from = to.clone();
    }
    let writes = &host.knobs().writes()[at_start.len()..];
    let later = group(&tree, writes.iter().zip(rules));
    let budget = host.pace().budget.map_or(f64::INFINITY, |budget| budget.writes_per_second);
    let timed = ask.watched().is_empty() && ask.after_empty_polls.is_none();
    let own = (Time::ZERO < ask.at && timed).then(|| match ask.at {
        Time::NEVER => 0.0,
        at => 1.0 / at.since(Time::ZERO).as_seconds(),
    });
    let cost: u32 = later.iter().map(|write| write.write_cost).sum();
    let most = course.changes_per_second.or(own).map(|changes| changes * f64::from(cost));
    let most = most.map_or(budget, |most| most.min(budget));
    let writes_per_second = most.is_finite().then_some(most);
    let kept = host.kept().cloned().collect();
    problems.dedup();
    let missing = host.status.lock().unwrap_or_else(PoisonError::into_inner).missing.clone();
    let rivals = rivals::find(&tree, &interfaces);
    let policy = name;
    Ok(PowerPlan { policy, at_start, later, writes_per_second, kept, missing, problems, rivals })
}

/// Takes the steps between two operating points.
fn go(
    host: &mut impl Machine,
    from: &OperatingPoint,
    to: &OperatingPoint,
    problems: &mut Vec<String>,
) {
    let mut steps: Vec<Step> = Vec::new();
    between(&host.platform().clone(), from, to, &mut steps);
    for step in &steps {
        if let Taken::Failed { why } = host.take(step) {
            problems.push(format!("{step:?}: {why}"));
        }
    }
}

/// Returns operating points that together use every value that a policy can choose: each number of
/// cores, each frequency, each idle state, the longest moderation and none.
fn extremes(full: &OperatingPoint, platform: &Platform) -> Vec<OperatingPoint> {
    let mut points = Vec::new();
    let turns = platform.cores.max(platform.frequencies.len()).max(platform.idle_states.len());
    for turn in 0..turns {
        let mut point = full.clone();
        let state = turn % platform.idle_states.len();
        point.set_active(platform.cores - turn % platform.cores, state, platform.deepest());
        point.set_frequency(turn % platform.frequencies.len());
        let longest = turn % 2 == 0;
        let (short, long) = platform.moderation;
        point.moderation.fill(if longest { long } else { short });
        points.push(point);
    }
    points.push(full.clone());
    points
}

fn group<'a>(tree: &Tree, writes: impl Iterator<Item = (&'a Planned, &'a str)>) -> Vec<LaterWrite> {
    let read = |one: &Setting| Settings::new(tree).read(one).ok();
    let mut order: Vec<LaterWrite> = Vec::new();
    let mut places: BTreeMap<&Setting, (usize, &str)> = BTreeMap::new();
    for (write, rule) in writes {
        let (place, found) = *places.entry(&write.setting).or_insert_with(|| {
            let Planned { setting, why, .. } = write.clone();
            let why = format!("{why}: {rule}");
            // Every planned setting belongs to a knob.
            let knob = wattline_knobs::owner(&setting).unwrap_or(&Registration::NOTHING);
            let (write_cost, dwell) = (knob.write_cost, (knob.dwell.on)(tree));
            let dwell_seconds = dwell.as_seconds();
            let (values, directions) = (Vec::new(), Vec::new());
            order.push(LaterWrite { setting, values, why, directions, write_cost, dwell_seconds });
            (order.len() - 1, write.present.as_str())
        });
        let LaterWrite { values, directions, .. } = &mut order[place];
        if !values.contains(&write.value) {
            let change = (found, write.value.as_str());
            directions.push(Direction::between(&write.setting, change, read));
            values.push(write.value.clone());
        }
    }
    order
}
