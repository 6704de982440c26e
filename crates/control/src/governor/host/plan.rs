//! Every write that a governor would make on a machine, and why; nothing is written.

use super::{Host, HostOptions, Unmanned};
use crate::config::{Config, PortKind, PowerPlatform};
use crate::governor::machine::{Machine, Taken, View};
use crate::governor::step::{Step, between};
use serde::Serialize;
use std::collections::BTreeMap;
use wattline_knobs::rivals::{self, Rival};
use wattline_knobs::{Machine as Settings, Plan, Planned, Setting};
use wattline_linux::privileges::Rights;
use wattline_linux::sysfs::Tree;
use wattline_policy::{
    BuildContext, Observation, OperatingPoint, PlatformError, PolicySpec, SpecError, Trigger, build,
};
use wattline_server::ServerFile;
use wattline_units::Time;

/// What a governor would do to a machine.
#[derive(Debug, Clone, Serialize)]
pub struct PowerPlan {
    /// The policy.
    pub policy: String,
    /// Writes when the router starts, in their order.
    pub at_start: Vec<Planned>,
    /// Writes that may follow, by setting.
    pub later: Vec<LaterWrite>,
    /// What cannot be set, and why.
    pub missing: Vec<String>,
    /// Steps that would fail.
    pub problems: Vec<String>,
    /// Who else sets the same knobs.
    pub rivals: Vec<Rival>,
}

/// A setting that a policy may change while it runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LaterWrite {
    /// What would be written.
    pub setting: Setting,
    /// The values that it may get; of redirect tables as many as there are numbers of cores.
    pub values: Vec<String>,
    /// What for, the first time.
    pub why: String,
}

/// There is no plan.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The policy's text makes no sense, or it cannot work on this machine.
    #[error("[power] policy: {0}")]
    Policy(#[from] SpecError),
    /// The server model cannot be used.
    #[error("[power] server: {0}")]
    Server(String),
    /// The machine is none that a policy can work on.
    #[error("[power] {0}")]
    Platform(#[from] PlatformError),
    /// Ports without an interface.
    #[error("{0}")]
    Interface(String),
}

/// The plan for a configuration on the machine of `tree`; `None` where the configuration has
/// no governor for it.
///
/// # Errors
/// [`PlanError`].
pub fn plan(config: &Config, tree: &Tree) -> Result<Option<PowerPlan>, PlanError> {
    match config.power.platform {
        PowerPlatform::None | PowerPlatform::Scale => return Ok(None),
        PowerPlatform::Host => {}
    }
    let spec = PolicySpec::parse(&config.power.policy)?;
    let counts = queues(config, tree)?;
    // A recording has no rights of its own: whoever runs the router there is root.
    let present = if tree.is_live() { Rights::present() } else { Rights::ALL };
    // As the router does that opens interfaces (crate::router).
    let opens_interfaces = config.ports.iter().any(|port| interface(port).is_some());
    let rights = if opens_interfaces { present.after_drop() } else { present };
    let count = |port: usize| counts.get(port).copied().unwrap_or(1);
    let options = HostOptions { meters: false, ..HostOptions::of(config, tree, rights, count) };
    let mut host = Host::new(options, Plan::new(Settings::new(tree)), Box::new(Unmanned))?;
    let platform = host.platform().clone();
    let file = ServerFile::load(&config.power.server)
        .map_err(|error| PlanError::Server(error.to_string()))?;
    let server = file.model().map_err(|error| PlanError::Server(error.to_string()))?;
    // Before the first packet, what one costs makes no difference to what is written.
    let seed = config.power.seed.into();
    let context = BuildContext { platform: &platform, server: Some(server), packet: None, seed };
    let mut policy = build(&spec, &context)?;
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
        offered: None,
    };
    policy.decide(Time::ZERO, &observation, &mut first);
    first.bound(&platform, &full);
    go(&mut host, &full, &first, &mut problems);
    let at_start = host.knobs().writes().to_vec();
    let mut from = first;
    // Twice: what the first is at when it begins is a value, too.
    let round = extremes(&full, &platform);
    for to in round.iter().chain(&round).cloned() {
        go(&mut host, &from, &to, &mut problems);
        from = to;
    }
    let later = group(&host.knobs().writes()[at_start.len()..]);
    let interfaces: Vec<String> = config.ports.iter().filter_map(interface).collect();
    problems.dedup();
    let missing = super::status_of(&host).missing;
    let rivals = rivals::find(tree, &interfaces);
    Ok(Some(PowerPlan { policy: spec.to_string(), at_start, later, missing, problems, rivals }))
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
fn extremes(full: &OperatingPoint, platform: &wattline_policy::Platform) -> Vec<OperatingPoint> {
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

fn group(writes: &[Planned]) -> Vec<LaterWrite> {
    let mut order: Vec<LaterWrite> = Vec::new();
    let mut places: BTreeMap<&Setting, usize> = BTreeMap::new();
    for write in writes {
        let place = *places.entry(&write.setting).or_insert_with(|| {
            let Planned { setting, why, .. } = write.clone();
            order.push(LaterWrite { setting, values: Vec::new(), why });
            order.len() - 1
        });
        let values = &mut order[place].values;
        if !values.contains(&write.value) {
            values.push(write.value.clone());
        }
    }
    order
}

fn interface(port: &crate::config::PortSettings) -> Option<String> {
    match &port.kind {
        PortKind::Interface(name) => Some(name.clone()),
        PortKind::Capture { .. } => None,
    }
}

/// The receive queues of each port, as sysfs has them; for a tree without them, its channels.
fn queues(config: &Config, tree: &Tree) -> Result<Vec<u32>, PlanError> {
    let mut counts = Vec::new();
    let mut missing = Vec::new();
    for port in &config.ports {
        let Some(name) = interface(port) else {
            counts.push(1);
            continue;
        };
        let found = tree.numbered(format!("/sys/class/net/{name}/queues"), "rx-").len();
        let channels = || tree.number::<u32>(format!("/ethtool/{name}/combined-channels")).ok();
        match u32::try_from(found).ok().filter(|count| *count > 0).or_else(channels) {
            Some(count) if count <= 4096 => counts.push(count),
            _ => missing.push(format!(
                "[[port]] {}: interface = \"{name}\": there is no such interface",
                port.name
            )),
        }
    }
    if missing.is_empty() { Ok(counts) } else { Err(PlanError::Interface(missing.join("\n"))) }
}
