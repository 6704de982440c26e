//! Every write that a governor would make on a machine, and why; nothing is written.

use super::{Host, HostOptions, NoWorkers};
use serde::Serialize;
use std::collections::BTreeMap;
use wattline_governor::machine::{Machine, Taken, View};
use wattline_governor::step::{Step, between};
use wattline_knobs::registration::Registration;
use wattline_knobs::rivals::{self, Rival};
use wattline_knobs::{Machine as Settings, Plan, Planned, Setting};
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
    /// Writes when the router starts, in their order.
    pub at_start: Vec<Planned>,
    /// Writes that may follow, by setting.
    pub later: Vec<LaterWrite>,
    /// As many of these are made a second in the long run, less where one costs more than one;
    /// `None` where nothing holds them back.
    pub writes_per_second: Option<f64>,
    /// Knobs that cannot be set, and why.
    pub missing: Vec<String>,
    /// Steps that would fail.
    pub problems: Vec<String>,
    /// Who else sets the same knobs.
    pub rivals: Vec<Rival>,
}

/// A setting that a policy may change while it runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LaterWrite {
    /// Setting that would be written.
    pub setting: Setting,
    /// The values that it may get; of indirection tables as many as there are numbers of cores.
    pub values: Vec<String>,
    /// Reason of the first write.
    pub why: String,
    /// Cost of each write in writes of the budget per second.
    pub write_cost: u32,
    /// Time that the setting stays after each write, in seconds.
    pub dwell_seconds: f64,
}

/// There is no plan.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The policy's text makes no sense, or it cannot work on this machine.
    #[error(transparent)]
    Policy(#[from] SpecError),
    /// The machine is none that a policy can work on.
    #[error(transparent)]
    Platform(#[from] PlatformError),
}

/// The plan of a policy, with the server model and the seed that it reckons with, on the machine
/// that `options` say.
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
        // Before the first packet, what one costs makes no difference to what is written.
        let context = BuildContext { platform, server: Some(server), packet: None, seed };
        build(spec, &context)
    };
    plan_with(spec.to_string(), make, |_, _| {}, options)
}

/// The plan of a policy that is called so and that `make` makes. `bound` makes of any operating
/// point one that the policy could ask for.
///
/// # Errors
/// [`PlanError`].
pub fn plan_with(
    name: String,
    make: impl FnOnce(&Platform) -> Result<Box<dyn Policy>, SpecError>,
    bound: impl Fn(&Platform, &mut OperatingPoint),
    options: HostOptions,
) -> Result<PowerPlan, PlanError> {
    let tree = options.tree.clone();
    let ports = options.layout.ports.iter();
    let interfaces: Vec<String> = ports.filter_map(|port| port.interface.clone()).collect();
    let options = HostOptions { meters: false, ..options };
    let mut host = Host::new(options, Plan::new(Settings::new(&tree)), Box::new(NoWorkers))?;
    let platform = host.platform().clone();
    let mut policy = make(&platform)?;
    let mut problems = Vec::new();
    let full = host.present();
    let mut first = full.clone();
    let view = View::of(&platform);
    let observation = Observation {
        platform: &platform,
        trigger: Trigger::Start,
        queues: &view.queues,
        cores: &view.cores,
        latency: None,
        power: None,
        entries: &[],
        offered: None,
    };
    policy.decide(Time::ZERO, &observation, &mut first);
    first.bound(&platform, &full);
    go(&mut host, &full, &first, &mut problems);
    let at_start = host.knobs().writes().to_vec();
    let mut from = first;
    let mut round = extremes(&full, &platform);
    round.iter_mut().for_each(|point| bound(&platform, point));
    // Twice: what the first is at when it begins is a value, too.
    for to in round.iter().chain(&round).cloned() {
        go(&mut host, &from, &to, &mut problems);
        from = to;
    }
    let later = group(&tree, &host.knobs().writes()[at_start.len()..]);
    let writes_per_second = host.pace().budget.map(|budget| budget.writes_per_second);
    problems.dedup();
    let missing = super::status_of(&host).missing;
    let rivals = rivals::find(&tree, &interfaces);
    Ok(PowerPlan { policy: name, at_start, later, writes_per_second, missing, problems, rivals })
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

/// Operating points that between them use every value that a policy can choose: each number of
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

fn group(tree: &Tree, writes: &[Planned]) -> Vec<LaterWrite> {
    let mut order: Vec<LaterWrite> = Vec::new();
    let mut places: BTreeMap<&Setting, usize> = BTreeMap::new();
    for write in writes {
        let place = *places.entry(&write.setting).or_insert_with(|| {
            let Planned { setting, why, .. } = write.clone();
            // Every setting that is planned belongs to a knob.
            let knob = wattline_knobs::owner(&setting).unwrap_or(&Registration::NOTHING);
            let (write_cost, dwell) = (knob.write_cost, (knob.dwell.on)(tree));
            let dwell_seconds = dwell.as_seconds();
            order.push(LaterWrite { setting, values: Vec::new(), why, write_cost, dwell_seconds });
            order.len() - 1
        });
        let values = &mut order[place].values;
        if !values.contains(&write.value) {
            values.push(write.value.clone());
        }
    }
    order
}
