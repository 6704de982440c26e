//! Idle states: depth limit of each worker's CPU.

use super::layout::Layout;
use super::writes::Writes;
use wattline_governor::machine::Taken;
use wattline_knobs::latency::{self, ResumeLatency, limit_cpu};
use wattline_knobs::{Change, Knobs, cpuidle};
use wattline_linux::privileges::Rights;
use wattline_linux::sysfs::Tree;
use wattline_policy::{IdleState, MAX_IDLE_STATES};
use wattline_units::Span;

/// The idle states of the workers' CPUs.
pub(super) struct IdleStates {
    /// The states of all CPUs, by exit latency; a single placeholder if there is no choice.
    pub states: Vec<IdleState>,
    pub can_limit: bool,
    /// By number of the core; none for a core whose states cannot be limited.
    cores: Vec<Option<Core>>,
}

struct Core {
    cpu: u32,
    /// States that may be forbidden and allowed.
    states: Vec<cpuidle::State>,
    /// Wake-up latency of this CPU before the first write.
    found: ResumeLatency,
    limit_by: LimitBy,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum LimitBy {
    /// `cpuidle/stateN/disable`.
    Disable,
    /// `power/pm_qos_resume_latency_us`.
    ResumeLatency,
}

impl IdleStates {
    /// Finds the settable states; adds what is missing to `notes`. States that the operator has
    /// forbidden, one by one or by a wake-up latency, stay forbidden and are not offered, unless
    /// `beyond` allows leaving the operator's limits.
    pub fn find(
        tree: &Tree,
        layout: &Layout,
        (rights, beyond): (Rights, bool),
        notes: &mut Vec<String>,
    ) -> Self {
        let mut cores = Vec::new();
        for &cpu in &layout.cpus {
            let core = Core::find(tree, cpu, (rights, beyond), notes);
            if core.is_none() {
                notes.push(format!(
                    "idle states: CPU {cpu} has none that can be limited (enable C-states in the \
                     firmware)"
                ));
            }
            cores.push(core);
        }
        if layout.cpus.is_empty() {
            notes.push("idle states: workers are not pinned ([router] cpus)".into());
        }
        let mut states = offered(&cores);
        let can_limit = !states.is_empty();
        if states.is_empty() {
            states.push(IdleState {
                name: "idle".into(),
                exit_latency: Span::from_micros(1),
                exit_latency_measured: None,
            });
        }
        Self { states, can_limit, cores }
    }

    /// Limits a core to a state and shallower ones; the deepest allows every state of the core.
    pub fn limit<K: Knobs>(&self, core: usize, state: usize, writes: &mut Writes<K>) -> Taken {
        let Some((at, limit)) = self.cores.get(core).zip(self.states.get(state)) else {
            return Taken::Failed { why: format!("core {core} has no idle state {state}") };
        };
        match at {
            Some(at) => writes.make(&at.changes(limit, state + 1 == self.states.len())),
            None => Taken::Done,
        }
    }

    /// Returns the present limit of a core, read from its settings; `asked` if they match it,
    /// `None` if they match no limit that can be chosen.
    pub fn held(&self, core: usize, asked: usize, knobs: &impl Knobs) -> Option<usize> {
        let at = self.cores.get(core)?.as_ref()?;
        let deepest = self.states.len() - 1;
        let shows =
            |change: &Change| knobs.read(&change.setting).ok().as_ref() == Some(&change.value);
        let is_at = |state: &usize| {
            let limit = self.states.get(*state);
            limit.is_some_and(|limit| at.changes(limit, *state == deepest).iter().all(shows))
        };
        // CPUs have different tables, so several limits may be the same to this CPU.
        std::iter::once(asked).chain(0..=deepest).find(is_at)
    }
}

/// Returns the states of all cores, each once, by exit latency.
fn offered(cores: &[Option<Core>]) -> Vec<IdleState> {
    let mut states: Vec<IdleState> = Vec::new();
    for state in cores.iter().flatten().flat_map(|core| &core.states) {
        let same =
            |one: &IdleState| one.name == state.name && one.exit_latency == state.exit_latency;
        // POLL is no idle state: a CPU in it draws as much as a busy one.
        if !state.name.eq_ignore_ascii_case("POLL") && !states.iter().any(same) {
            states.push(IdleState {
                name: state.name.clone(),
                exit_latency: state.exit_latency,
                exit_latency_measured: None,
            });
        }
    }
    states.sort_by_key(|state| state.exit_latency);
    if states.len() > MAX_IDLE_STATES {
        let last = states.len() - 1;
        let kept = |place: usize| states[place * last / (MAX_IDLE_STATES - 1)].clone();
        return (0..MAX_IDLE_STATES).map(kept).collect();
    }
    states
}

impl Core {
    fn find(
        tree: &Tree,
        cpu: u32,
        (rights, beyond): (Rights, bool),
        notes: &mut Vec<String>,
    ) -> Option<Self> {
        let states = cpuidle::states(tree, cpu).unwrap_or_else(|why| {
            notes.push(format!("idle states: {why}"));
            Vec::new()
        });
        let directory = format!("/sys/devices/system/cpu/cpu{cpu}");
        let found = if beyond { None } else { latency::cpu_limit(tree, cpu) };
        let found = found.unwrap_or(ResumeLatency::Any);
        let allowed =
            |state: &cpuidle::State| beyond || !state.disabled && found.allows(state.exit_latency);
        let states: Vec<_> = states.into_iter().filter(allowed).collect();
        let may = |file: &str| super::access::may_write(tree, &format!("{directory}/{file}"));
        let file = |state: &cpuidle::State| format!("cpuidle/state{}/disable", state.number);
        let limit_by = match states.last()? {
            last if rights.administer && may(&file(last)) => LimitBy::Disable,
            _ if may("power/pm_qos_resume_latency_us") => LimitBy::ResumeLatency,
            _ => return None,
        };
        Some(Self { cpu, states, found, limit_by })
    }

    fn changes(&self, limit: &IdleState, deepest: bool) -> Vec<Change> {
        let latency = limit.exit_latency;
        match self.limit_by {
            LimitBy::Disable => {
                let own = self.states.iter().map(|state| state.exit_latency).max();
                let longest = own.filter(|_| deepest).unwrap_or(latency);
                cpuidle::limit(self.cpu, &self.states, longest)
            }
            LimitBy::ResumeLatency if deepest => vec![limit_cpu(self.cpu, self.found)],
            LimitBy::ResumeLatency => {
                let within = match self.found {
                    ResumeLatency::AtMost(found) => found.min(latency),
                    ResumeLatency::Any | ResumeLatency::None => latency,
                };
                vec![limit_cpu(self.cpu, ResumeLatency::AtMost(within))]
            }
        }
    }
}
