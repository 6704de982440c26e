//! Idle states: how deep each worker's CPU may sleep.

use super::layout::Layout;
use super::writes::Writes;
use wattline_governor::machine::Taken;
use wattline_knobs::latency::{ResumeLatency, limit_cpu};
use wattline_knobs::{Change, Knobs, cpuidle};
use wattline_linux::privileges::Rights;
use wattline_linux::sysfs::Tree;
use wattline_policy::IdleState;
use wattline_units::Span;

/// The idle states of the workers' CPUs.
pub(super) struct IdleStates {
    /// What a policy may choose, the lightest first; one that stands for all where there is no
    /// choice.
    pub states: Vec<IdleState>,
    pub can_limit: bool,
    /// By number of the core.
    cores: Vec<Core>,
}

struct Core {
    cpu: u32,
    /// Those that may be forbidden and allowed.
    states: Vec<cpuidle::State>,
    how: How,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    /// `cpuidle/stateN/disable`.
    Disable,
    /// `power/pm_qos_resume_latency_us`.
    ResumeLatency,
}

impl IdleStates {
    /// Looks for what can be set; `notes` gets what is missing. States that the operator has
    /// forbidden are left so, and not offered.
    pub fn find(tree: &Tree, layout: &Layout, rights: Rights, notes: &mut Vec<String>) -> Self {
        let mut cores = Vec::new();
        for &cpu in &layout.cpus {
            let states = cpuidle::states(tree, cpu).unwrap_or_else(|why| {
                notes.push(format!("idle states: {why}"));
                Vec::new()
            });
            let states: Vec<_> = states.into_iter().filter(|state| !state.disabled).collect();
            let directory = format!("/sys/devices/system/cpu/cpu{cpu}");
            let may = |file: &str| super::access::may_write(tree, &format!("{directory}/{file}"));
            let file = |state: &cpuidle::State| format!("cpuidle/state{}/disable", state.number);
            let how = match states.last() {
                Some(last) if rights.administer && may(&file(last)) => How::Disable,
                Some(_) if may("power/pm_qos_resume_latency_us") => How::ResumeLatency,
                _ => {
                    notes.push(format!("idle states: CPU {cpu} has none that can be limited"));
                    continue;
                }
            };
            cores.push(Core { cpu, states, how });
        }
        if layout.cpus.is_empty() {
            notes.push("idle states: workers are not pinned ([router] cpus)".into());
        }
        let can_limit = !cores.is_empty() && cores.len() == layout.workers;
        let offered = |state: &cpuidle::State| IdleState {
            name: state.name.clone(),
            exit_latency: state.exit_latency,
            exit_latency_measured: None,
        };
        // POLL is no idle state: a CPU in it draws what a busy one does.
        let sleeps = |state: &&cpuidle::State| !state.name.eq_ignore_ascii_case("POLL");
        let first = cores.first().map(|core| core.states.iter().filter(sleeps).map(offered));
        let mut states: Vec<IdleState> = first.map(Iterator::collect).unwrap_or_default();
        let can_limit = can_limit && !states.is_empty();
        if states.is_empty() {
            states.push(IdleState {
                name: "idle".into(),
                exit_latency: Span::from_micros(1),
                exit_latency_measured: None,
            });
        }
        Self { states, can_limit, cores }
    }

    /// Lets a core sleep down to a state.
    pub fn limit<K: Knobs>(&self, core: usize, state: usize, writes: &mut Writes<K>) -> Taken {
        let (Some(at), Some(limit)) = (self.cores.get(core), self.states.get(state)) else {
            return Taken::Failed { why: format!("core {core} has no idle state {state}") };
        };
        writes.make(&at.changes(limit, state + 1 == self.states.len()))
    }

    /// The state that a core's limit is at, as its settings show it; `None` where they show none of
    /// those that can be chosen.
    pub fn held(&self, core: usize, knobs: &impl Knobs) -> Option<usize> {
        let at = self.cores.get(core)?;
        let deepest = self.states.len() - 1;
        let shows =
            |change: &Change| knobs.read(&change.setting).ok().as_ref() == Some(&change.value);
        let mut states = self.states.iter().enumerate();
        states.position(|(state, limit)| at.changes(limit, state == deepest).iter().all(shows))
    }
}

impl Core {
    fn changes(&self, limit: &IdleState, deepest: bool) -> Vec<Change> {
        let latency = limit.exit_latency;
        match self.how {
            How::Disable => cpuidle::limit(self.cpu, &self.states, latency),
            How::ResumeLatency if deepest => vec![limit_cpu(self.cpu, ResumeLatency::Any)],
            How::ResumeLatency => vec![limit_cpu(self.cpu, ResumeLatency::AtMost(latency))],
        }
    }
}
