//! Interrupt affinity: the CPUs that take the interrupts of a card's queues
//! (Documentation/core-api/irq/irq-affinity.rst).

use crate::change::Change;
use crate::conflict;
use crate::registration::Registration;
use crate::setting::Setting;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use wattline_linux::napi;
use wattline_linux::sysfs::Tree;

/// Direction of an interrupt's packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    /// Receive, or both directions.
    Receive,
    Transmit,
}

/// Returns the interrupts of a queue of an interface: the receive queue's, and the transmit queue's
/// of the same number if it has its own. The kernel's own answer if the driver links receive queues
/// to interrupts, otherwise the device's interrupts with matching names; none if several match.
pub fn interrupts(tree: &Tree, interface: &str, queue: u32) -> Vec<u32> {
    let named = named(tree, interface);
    let by_name = |direction: Direction| {
        let mut serving: Vec<&(u32, String)> = named
            .iter()
            .filter(|(_, name)| queue_of(name, interface) == Some((direction, queue)))
            .collect();
        if serving.len() > 1 {
            // One device with several interfaces.
            serving.retain(|(_, name)| name.contains(interface));
        }
        match serving[..] {
            [(number, _)] => Some(*number),
            _ => None,
        }
    };
    let linked = if tree.is_live() { napi::interrupt(interface, queue).ok() } else { None };
    let receive = linked.or_else(|| by_name(Direction::Receive));
    let transmit = by_name(Direction::Transmit).filter(|_| receive.is_some());
    receive.into_iter().chain(transmit).collect()
}

/// Returns the interrupts of an interface's device, each with its file below `msi_irqs`.
pub fn device_interrupts(tree: &Tree, interface: &str) -> Vec<(u32, PathBuf)> {
    let device = format!("/sys/class/net/{interface}/device");
    // A virtio device's interrupts belong to its bus.
    let directories = [format!("{device}/msi_irqs"), format!("{device}/../msi_irqs")];
    let mut files = directories.iter().map(|directory| {
        let numbers = tree.numbered(directory, "").into_iter();
        numbers.map(|(number, name)| (number, Path::new(directory).join(name))).collect::<Vec<_>>()
    });
    files.find(|files| !files.is_empty()).unwrap_or_default()
}

/// Returns the interrupts of an interface's device, with the names of their actions.
fn named(tree: &Tree, interface: &str) -> Vec<(u32, String)> {
    let actions = device_interrupts(tree, interface).into_iter().flat_map(|(number, _)| {
        // Directories next to the interrupt's attributes.
        let names = tree.entries(format!("/proc/irq/{number}"));
        names.into_iter().map(move |name| (number, name))
    });
    actions.collect()
}

/// Returns the queue that an interrupt serves according to its name. Names are the drivers' own:
/// `eth0-TxRx-3` (igb, ixgbe), `i40e-eth0-TxRx-3`, `eth0-Tx-Rx-3` (ena), `eth0-rx-3`,
/// `virtio0-input.3`, `mlx5_comp3@pci:0000:5e:00.0`.
fn queue_of(name: &str, interface: &str) -> Option<(Direction, u32)> {
    // The interface's name carries no information, whatever it contains.
    let name = name.split('@').next()?.replace(interface, "");
    let kind = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let number = name.get(kind.len()..)?.parse().ok()?;
    let kind = kind.to_ascii_lowercase();
    let is = |words: &[&str]| words.iter().any(|word| kind.contains(word));
    if is(&["rx", "input", "comp"]) {
        Some((Direction::Receive, number))
    } else if is(&["tx", "output"]) {
        Some((Direction::Transmit, number))
    } else {
        None
    }
}

/// Returns true if the kernel manages an interrupt's affinity: no program can set it then.
pub fn is_managed(tree: &Tree, interrupt: u32) -> bool {
    const WRITABLE: u32 = 0o200;
    let file = std::fs::metadata(tree.path(setting(interrupt).path()));
    file.is_ok_and(|file| file.permissions().mode() & WRITABLE == 0)
}

/// Returns the setting of an interrupt's affinity.
pub fn setting(interrupt: u32) -> Setting {
    Setting::Affinity { interrupt }
}

/// Returns the write that gives an interrupt to one CPU.
pub fn give(interrupt: u32, cpu: u32, why: impl Into<String>) -> Change {
    Change { setting: setting(interrupt), value: cpu.to_string(), why: why.into() }
}

/// The CPUs of an interrupt.
pub const KNOB: Registration = Registration {
    name: "interrupt affinity",
    label: "affinity",
    files: "`/proc/irq/N/smp_affinity_list`",
    values: "a list of CPUs",
    notes: "the interrupts of a queue: as netdev netlink says (Linux 6.8), else by their names \
            among the device's `msi_irqs`",
    conflicts: &[conflict::IRQBALANCE.sets("interrupt affinity, every 10 s")],
    owns: |setting| matches!(setting, Setting::Affinity { .. }),
    ..Registration::NOTHING
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_drivers_identify_their_queues() {
        let (receive, transmit) =
            (|queue| Some((Direction::Receive, queue)), |queue| Some((Direction::Transmit, queue)));
        for (name, queue) in [
            ("eth0-TxRx-3", receive(3)),
            ("i40e-eth0-TxRx-12", receive(12)),
            ("eth0-Tx-Rx-0", receive(0)),
            ("eth0-rx-7", receive(7)),
            ("virtio0-input.1", receive(1)),
            ("mlx5_comp3@pci:0000:5e:00.0", receive(3)),
            ("eth0-tx-1", transmit(1)),
            ("virtio0-output.1", transmit(1)),
            ("eth0", None),
            ("virtio0-config", None),
            ("mlx5_async0@pci:0000:5e:00.0", None),
            ("smp_affinity", None),
            ("eth0-TxRx-99999999999", None),
            ("", None),
        ] {
            assert_eq!(queue_of(name, "eth0"), queue, "{name}");
        }
        assert_eq!(queue_of("rx1", "rx1"), None, "an interface's name is no queue");
    }

    #[test]
    fn interrupts_are_found_by_their_names_or_not_at_all() {
        let root = tempfile::tempdir().unwrap();
        let tree = Tree::at(root.path());
        let add = |number: u32, name: &str| {
            let device = tree.path(format!("/sys/class/net/eth0/device/msi_irqs/{number}"));
            std::fs::create_dir_all(device.parent().unwrap()).unwrap();
            std::fs::write(device, "msix\n").unwrap();
            std::fs::create_dir_all(tree.path(format!("/proc/irq/{number}/{name}"))).unwrap();
        };
        assert!(interrupts(&tree, "eth0", 0).is_empty());
        // As with igb and few queues: a separate interrupt for each direction.
        for (number, name) in
            [(24, "eth0"), (25, "eth0-rx-0"), (26, "eth0-rx-1"), (27, "eth0-tx-0")]
        {
            add(number, name);
        }
        let found: Vec<_> = (0..3).map(|queue| interrupts(&tree, "eth0", queue)).collect();
        assert_eq!(found, [vec![25, 27], vec![26], vec![]]);
        // The name of another device does not match; two matches are ambiguous.
        add(28, "other-TxRx-0");
        assert_eq!(interrupts(&tree, "eth0", 0), [25, 27]);
        add(29, "eth0-TxRx-0");
        assert!(interrupts(&tree, "eth0", 0).is_empty());
    }
}
