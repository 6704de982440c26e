//! Interfaces whose card has no settable indirection table: the interrupts of their queues lead
//! packets to cores, or RPS does.

use super::layout::{Layout, Port};
use super::writes::{Writes, worse};
use wattline_governor::machine::Taken;
use wattline_knobs::steering::{self, Mask};
use wattline_knobs::{Change, Knobs, Setting, affinity};
use wattline_linux::ethtool;
use wattline_linux::sysfs::Tree;
use wattline_policy::CoreSet;

/// Reads the RPS masks of an interface; none without RPS.
///
/// # Errors
/// When an administrator has set one or leads flows to queues by rules, or flows follow their
/// applications: packets then go to other CPUs than hashing leads them to, and neither masks nor
/// tables nor interrupts are changed.
pub(super) fn unused_masks(
    tree: &Tree,
    knobs: &impl Knobs,
    interface: &str,
) -> Result<Vec<(Setting, String)>, String> {
    let rules = match tree.is_live() {
        true => ethtool::flow_rules(interface).unwrap_or(0),
        false => tree.number(format!("/ethtool/{interface}/flow-rules")).unwrap_or(0),
    };
    if rules > 0 {
        return Err(format!(
            "{interface} has {rules} rules that lead flows to queues or RSS contexts, which an \
             administrator has set; it is left alone (to see them: ethtool -n {interface})"
        ));
    }
    let mut masks = Vec::new();
    for setting in steering::settings(Mask::Receive, tree, interface) {
        let present = knobs.read(&setting).map_err(|why| why.to_string())?;
        if steering::cpus(&present).is_none_or(|cpus| !cpus.is_empty()) {
            return Err(format!(
                "{setting} is {present:?}, which an administrator has set; it is left alone"
            ));
        }
        let flows = setting.to_string().replace("rps_cpus", "rps_flow_cnt");
        if tree.number::<u64>(&flows).is_ok_and(|flows| flows > 0) {
            return Err(format!(
                "{flows} is not 0: flows follow their applications (RFS); it is left alone"
            ));
        }
        masks.push((setting, present));
    }
    Ok(masks)
}

/// Means of leading packets to cores.
pub(super) enum Means {
    /// RPS: the receive queues, and their masks as they were found.
    Masks(Vec<(Setting, String)>),
    /// The interrupts of each queue.
    Interrupts(Vec<Vec<u32>>),
}

impl Means {
    /// Finds the interrupts of a card with several queues.
    ///
    /// # Errors
    /// When they are unknown, or the kernel manages one.
    pub fn interrupts(tree: &Tree, interface: &str, port: &Port) -> Result<Self, String> {
        let queues = (0..port.queues).map(|queue| affinity::interrupts(tree, interface, queue));
        let queues: Vec<Vec<u32>> = queues.collect();
        if queues.len() < 2 || queues.iter().any(Vec::is_empty) {
            return Err(format!("{interface} has no interrupt for each of several queues"));
        }
        match queues.iter().flatten().find(|one| affinity::is_managed(tree, **one)) {
            Some(one) => Err(format!("the kernel manages interrupt {one} of {interface}")),
            None => Ok(Self::Interrupts(queues)),
        }
    }
}

/// An interface.
pub(super) struct Steered {
    pub interface: String,
    port: usize,
    pub means: Means,
    /// Cores that its packets go to; `None` while unchanged.
    pub active: Option<CoreSet>,
    /// True if the last change failed.
    pub failed: bool,
}

impl Steered {
    /// Creates it from an interface and the number of its port.
    ///
    /// # Errors
    /// When RPS is not available.
    pub fn new((port, interface): (usize, &str), means: Means) -> Result<Self, String> {
        if matches!(&means, Means::Masks(masks) if masks.is_empty()) {
            return Err(format!("{interface} has no RPS (CONFIG_RPS)"));
        }
        Ok(Self { interface: interface.to_owned(), port, means, active: None, failed: false })
    }

    /// Returns the settings that lead its packets.
    pub fn settings(&self) -> Vec<Setting> {
        match &self.means {
            Means::Masks(masks) => masks.iter().map(|(setting, _)| setting.clone()).collect(),
            Means::Interrupts(queues) => {
                queues.iter().flatten().copied().map(affinity::setting).collect()
            }
        }
    }

    /// Sends its packets to these cores; returns the number of queues whose flows may be overtaken.
    /// A queue whose interrupt moves is still polled by one CPU at a time.
    pub fn send_to<K: Knobs>(
        &mut self,
        active: CoreSet,
        layout: &Layout,
        writes: &mut Writes<K>,
    ) -> (Taken, u64) {
        let cpus = cpus(active, layout);
        let (interface, workers) = (&self.interface, layout.workers);
        let by =
            |means| format!("{interface} sends to {} of {workers} cores by {means}", active.len());
        let mut outcome = Taken::Done;
        let mut moved = 0;
        match &self.means {
            Means::Masks(masks) => {
                moved = masks.len() as u64;
                for (setting, found) in masks {
                    let taken = match steering::give(setting.clone(), found, &cpus, &by("RPS")) {
                        Some(change) => writes.make(&[change]),
                        None => {
                            Taken::Failed { why: format!("{setting} has no bit for CPUs {cpus:?}") }
                        }
                    };
                    outcome = worse(outcome, taken);
                }
            }
            Means::Interrupts(queues) => {
                for (queue, interrupts) in (0..).zip(queues) {
                    let Some(cpu) = home(active, layout, (self.port, queue)) else { continue };
                    let give = |one: &u32| affinity::give(*one, cpu, by("interrupts"));
                    let changes: Vec<Change> = interrupts.iter().map(give).collect();
                    outcome = worse(outcome, writes.make(&changes));
                }
            }
        }
        self.failed = matches!(outcome, Taken::Foreign { .. } | Taken::Failed { .. });
        if outcome != Taken::Done || self.active == Some(active) {
            moved = 0;
        }
        if self.failed {
            self.active = self.held(layout, &writes.knobs);
        } else if outcome == Taken::Done {
            self.active = Some(active);
        }
        (outcome, moved)
    }

    /// Returns the cores that any queue sends to.
    fn held(&self, layout: &Layout, knobs: &impl Knobs) -> Option<CoreSet> {
        let cpus: Vec<u32> = match &self.means {
            Means::Masks(masks) => {
                let masks = masks.iter().filter_map(|(setting, _)| knobs.read(setting).ok());
                masks.filter_map(|mask| steering::cpus(&mask)).flatten().collect()
            }
            Means::Interrupts(queues) => {
                let interrupts = queues.iter().flatten().copied().map(affinity::setting);
                let lists = interrupts.filter_map(|setting| knobs.read(&setting).ok());
                lists.filter_map(|list| wattline_linux::sysfs::cpu_list(&list)).flatten().collect()
            }
        };
        let cores = (0..layout.workers).filter(|core| cpus.contains(&layout.cpus[*core]));
        Some(cores.collect::<CoreSet>()).filter(|cores| !cores.is_empty())
    }
}

/// Returns the CPUs of these cores.
fn cpus(cores: CoreSet, layout: &Layout) -> Vec<u32> {
    cores.iter().filter_map(|core| layout.cpus.get(core)).copied().collect()
}

/// Returns the CPU of a queue's interrupts while these cores are active: the CPU of the queue's own
/// core if it is active.
fn home(active: CoreSet, layout: &Layout, (port, queue): (usize, u32)) -> Option<u32> {
    let own = layout.worker(port, queue);
    if active.contains(own) {
        return layout.cpus.get(own).copied();
    }
    let cpus = cpus(active, layout);
    cpus.get(queue as usize % cpus.len().max(1)).copied()
}

/// Transmit queues of a card, whose completions arrive at the CPU of their interrupt (XPS).
pub(super) struct Transmit {
    pub interface: String,
    port: usize,
    /// By queue, as found.
    masks: Vec<(Setting, String)>,
    /// CPUs that send.
    online: Vec<u32>,
}

impl Transmit {
    /// Finds the transmit queues of a card whose receive queues have interrupts; `None` without a
    /// choice.
    ///
    /// # Errors
    /// When its driver or an administrator has set masks.
    pub fn find(
        tree: &Tree,
        knobs: &impl Knobs,
        (number, interface): (usize, &str),
        port: &Port,
    ) -> Result<Option<Self>, String> {
        let mut masks = Vec::new();
        for setting in steering::settings(Mask::Transmit, tree, interface) {
            let Ok(present) = knobs.read(&setting) else { return Ok(None) };
            if steering::cpus(&present).is_none_or(|cpus| !cpus.is_empty()) {
                return Err(format!(
                    "{setting} is {present:?}, by its driver or an administrator; XPS is left alone"
                ));
            }
            masks.push((setting, present));
        }
        let known = |queue| !affinity::interrupts(tree, interface, queue).is_empty();
        let online = tree.cpus("/sys/devices/system/cpu/online").unwrap_or_default();
        let all = masks.len() > 1 && (0..port.queues).all(known) && !online.is_empty();
        let interface = interface.to_owned();
        Ok(all.then_some(Self { interface, port: number, masks, online }))
    }

    /// Returns the settings of the masks.
    pub fn settings(&self) -> Vec<Setting> {
        self.masks.iter().map(|(setting, _)| setting.clone()).collect()
    }

    /// Lets CPUs send by the queues whose completions arrive at active cores: active ones by their
    /// own queue, all others by any of them.
    pub fn follow<K: Knobs>(
        &self,
        active: CoreSet,
        layout: &Layout,
        writes: &mut Writes<K>,
    ) -> Taken {
        let queues = layout.ports.get(self.port).map_or(0, |port| port.queues);
        let completes = |queue: u32| {
            let core = layout.worker(self.port, queue);
            let active = queue < queues && active.contains(core);
            layout.cpus.get(core).copied().filter(|_| active)
        };
        let own: Vec<Option<u32>> = (0..self.masks.len() as u32).map(completes).collect();
        let why =
            format!("{} completes on {} of {} cores", self.interface, active.len(), layout.workers);
        let mut outcome = Taken::Done;
        for ((setting, found), cpu) in self.masks.iter().zip(&own) {
            let other = |one: &u32| Some(*one) == *cpu || !own.contains(&Some(*one));
            // If no CPU uses a queue, the kernel chooses among all.
            let cpus: Vec<u32> = match cpu {
                Some(_) => self.online.iter().copied().filter(other).collect(),
                None => Vec::new(),
            };
            let change = steering::give(setting.clone(), found, &cpus, &why);
            outcome = worse(outcome, change.map_or(Taken::Done, |it| writes.make(&[it])));
        }
        outcome
    }
}
