//! Description of a machine's hardware that is the same at every start: tables measured on one
//! machine must not be used on another.

use super::access::driver;
use super::idle::IdleStates;
use super::layout::Layout;
use super::moderation::Moderation;
use wattline_linux::sysfs::Tree;

/// Returns processor, idle states, and for each governed card driver, queues and means of
/// moderation. Names of interfaces are left out: they can change.
pub(super) fn find(
    tree: &Tree,
    layout: &Layout,
    idle: &IdleStates,
    moderation: &Moderation,
) -> Vec<String> {
    let mut parts = Vec::new();
    let cpuinfo = tree.text("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    parts.extend(model.map(|(_, name)| format!("processor {}", name.trim())));
    let names: Vec<&str> = idle.states.iter().map(|state| state.name.as_str()).collect();
    if !names.is_empty() {
        parts.push(format!("idle states {}", names.join(" ")));
    }
    for (port, at) in layout.ports.iter().enumerate() {
        let Some(interface) = &at.interface else { continue };
        let driver = driver(tree, interface).unwrap_or_else(|| "no driver of hardware".to_owned());
        let means = moderation.means(port);
        parts.push(format!("card of {driver}, {} queues, {means}", at.queues));
    }
    parts
}
