//! RPS: CPUs to which the kernel spreads the packets of an interface, where its card cannot.

use super::layout::Layout;
use super::writes::{Writes, worse};
use wattline_governor::machine::Taken;
use wattline_knobs::steering::{self, Mask};
use wattline_knobs::{Knobs, Setting};
use wattline_linux::sysfs::Tree;
use wattline_policy::CoreSet;

/// Reads the RPS masks of an interface; none without RPS.
///
/// # Errors
/// When an administrator has set one, or flows follow their applications: then packets go to other
/// CPUs than those of the queues, and neither mask nor indirection table is changed.
pub(super) fn unused_masks(
    tree: &Tree,
    knobs: &impl Knobs,
    interface: &str,
) -> Result<Vec<(Setting, String)>, String> {
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

/// An interface.
pub(super) struct Steered {
    pub interface: String,
    /// The receive queues, and their masks as they were found.
    masks: Vec<(Setting, String)>,
    /// Cores that its packets go to; `None` as long as RPS is off.
    pub active: Option<CoreSet>,
    /// Whether the last change could not be made.
    pub failed: bool,
}

impl Steered {
    /// Takes the masks of an interface.
    ///
    /// # Errors
    /// When RPS is not available.
    pub fn new(interface: &str, masks: Vec<(Setting, String)>) -> Result<Self, String> {
        if masks.is_empty() {
            return Err(format!("{interface} has no RPS (CONFIG_RPS)"));
        }
        Ok(Self { interface: interface.to_owned(), masks, active: None, failed: false })
    }

    /// Sends its packets to these cores; returns the number of queues whose flows move, too.
    pub fn send_to<K: Knobs>(
        &mut self,
        active: CoreSet,
        layout: &Layout,
        writes: &mut Writes<K>,
    ) -> (Taken, u64) {
        let cpus: Vec<u32> =
            active.iter().filter_map(|core| layout.cpus.get(core)).copied().collect();
        let why = format!(
            "{} sends to {} of {} cores by RPS",
            self.interface,
            active.len(),
            layout.workers
        );
        let mut outcome = Taken::Done;
        for (setting, found) in &self.masks {
            let taken = match steering::give(setting.clone(), found, &cpus, &why) {
                Some(change) => writes.make(&[change]),
                None => Taken::Failed { why: format!("{setting} has no bit for CPUs {cpus:?}") },
            };
            outcome = worse(outcome, taken);
        }
        self.failed = matches!(outcome, Taken::Foreign { .. } | Taken::Failed { .. });
        let moved = if outcome == Taken::Done && self.active != Some(active) {
            self.active = Some(active);
            self.masks.len() as u64
        } else {
            0
        };
        if self.failed {
            self.active = self.held(layout, &writes.knobs);
        }
        (outcome, moved)
    }

    /// Returns the cores that any queue sends to.
    fn held(&self, layout: &Layout, knobs: &impl Knobs) -> Option<CoreSet> {
        let masks = self.masks.iter().filter_map(|(setting, _)| knobs.read(setting).ok());
        let cpus: Vec<u32> = masks.filter_map(|mask| steering::cpus(&mask)).flatten().collect();
        let cores = (0..layout.workers).filter(|core| cpus.contains(&layout.cpus[*core]));
        Some(cores.collect::<CoreSet>()).filter(|cores| !cores.is_empty())
    }
}
