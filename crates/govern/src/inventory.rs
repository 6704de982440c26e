//! Inventory of this machine: CPUs, interfaces, queues and the cores of their interrupts. Parts
//! left out are listed with the reason.

use crate::config::Config;
use wattline_host::{Layout, Port};
use wattline_knobs::affinity;
use wattline_linux::sysfs::{Tree, cpu_list};
use wattline_policy::MAX_CORES;

pub use wattline_status::LeftOut;

const NET: &str = "/sys/class/net";
/// More queues than any card has.
const MOST_QUEUES: usize = 4096;

/// CPUs, interfaces and queues to be governed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inventory {
    /// CPUs as cores of a policy; interfaces as ports.
    pub layout: Layout,
    /// Parts left out, with the reasons.
    pub left_out: Vec<LeftOut>,
    /// Configured names that do not exist on the machine, with the existing ones.
    pub unknown_names: Vec<String>,
}

impl Inventory {
    /// Surveys the machine, within the configuration.
    pub fn find(tree: &Tree, config: &Config) -> Self {
        let mut left_out = Vec::new();
        let cpus = cpus(tree, config, &mut left_out);
        let interfaces = interfaces(tree, config, &mut left_out);
        let ports = interfaces.into_iter().map(|interface| port(tree, interface, &cpus));
        let ports = ports.collect();
        let unknown_names = unknown_names(tree, config);
        Self { layout: Layout { workers: cpus.len(), cpus, ports }, left_out, unknown_names }
    }

    /// Returns the reason if nothing can be governed: all configured CPUs are off line or absent.
    pub fn refusal(&self) -> Option<String> {
        self.layout.cpus.is_empty().then(|| self.unknown_names.join("; "))
    }

    /// Returns the names of the interfaces.
    pub fn interfaces(&self) -> Vec<String> {
        self.layout.ports.iter().filter_map(|port| port.interface.clone()).collect()
    }
}

/// Lists configured names that do not exist on the machine.
fn unknown_names(tree: &Tree, config: &Config) -> Vec<String> {
    let mut notes = Vec::new();
    let online = online(tree);
    let absent = config.cpus.iter().filter(|cpu| !online.contains(cpu)).map(u32::to_string);
    let absent: Vec<String> = absent.collect();
    if !absent.is_empty() {
        let there: Vec<String> = online.iter().map(u32::to_string).collect();
        notes.push(format!(
            "[govern] cpus: there is no CPU {}, or it is off line; on line are {}",
            absent.join(", "),
            there.join(", ")
        ));
    }
    let there = known(tree);
    let absent = config.interfaces.iter().filter(|name| !there.contains(name));
    let absent: Vec<&str> = absent.map(String::as_str).collect();
    if !absent.is_empty() {
        let there: Vec<&str> =
            there.iter().map(String::as_str).filter(|name| *name != "lo").collect();
        let there = if there.is_empty() { "no other".to_owned() } else { there.join(", ") };
        notes.push(format!(
            "[govern] interfaces: there is no interface {}; there are {there}",
            absent.join(", ")
        ));
    }
    notes
}

fn online(tree: &Tree) -> Vec<u32> {
    tree.cpus("/sys/devices/system/cpu/online").unwrap_or_else(|_| vec![0])
}

/// Returns the existing interfaces.
fn known(tree: &Tree) -> Vec<String> {
    let recorded = recorded(tree);
    let mut all = tree.entries(NET);
    all.extend(recorded.iter().filter(|name| !tree.exists(format!("{NET}/{name}"))).cloned());
    // Not a device: for example the file `bonding_masters`.
    all.retain(|name| tree.is_directory(format!("{NET}/{name}")) || recorded.contains(name));
    all
}

/// Returns the cards of hand-made trees, which have a card's settings without the card.
fn recorded(tree: &Tree) -> Vec<String> {
    if tree.is_live() { Vec::new() } else { tree.entries("/ethtool") }
}

fn cpus(tree: &Tree, config: &Config, left_out: &mut Vec<LeftOut>) -> Vec<u32> {
    let mut leave = |cpus: &[u32], why: &str| {
        if !cpus.is_empty() {
            let names: Vec<String> = cpus.iter().map(u32::to_string).collect();
            let what = format!("CPU {}", names.join(", "));
            left_out.push(LeftOut { what, why: why.to_owned() });
        }
    };
    let online = online(tree);
    let wanted = |cpu: &u32| config.cpus.is_empty() || config.cpus.contains(cpu);
    let (mut taken, others): (Vec<u32>, Vec<u32>) = online.iter().partition(|cpu| wanted(cpu));
    leave(&others, "not among [govern] cpus");
    let off: Vec<u32> = config.cpus.iter().copied().filter(|cpu| !online.contains(cpu)).collect();
    leave(&off, "off line, or there is none");
    if config.cpus.is_empty() {
        let present = tree.cpus("/sys/devices/system/cpu/present").unwrap_or_default();
        let off: Vec<u32> = present.into_iter().filter(|cpu| !online.contains(cpu)).collect();
        leave(&off, "off line");
    }
    if taken.len() > MAX_CORES {
        let surplus = taken.split_off(MAX_CORES);
        leave(&surplus, "a policy handles 4096 CPUs: choose them by [govern] cpus");
    }
    taken
}

fn interfaces(tree: &Tree, config: &Config, left_out: &mut Vec<LeftOut>) -> Vec<String> {
    let mut leave = |what: &str, why: &str| {
        left_out.push(LeftOut { what: what.to_owned(), why: why.to_owned() });
    };
    let (there, recorded) = (known(tree), recorded(tree));
    let mut taken = Vec::new();
    for name in there.iter().cloned() {
        let link = format!("{NET}/{name}");
        let hardware = tree.exists(format!("{link}/device")) || recorded.contains(&name);
        if !config.interfaces.is_empty() && !config.interfaces.contains(&name) {
            leave(&name, "not among [govern] interfaces");
        } else if name == "lo" {
            leave(&name, "the loopback: no interrupts, no knobs");
        } else if !hardware && config.interfaces.is_empty() {
            leave(&name, "virtual: no interrupts of its own, no knobs");
        } else {
            taken.push(name);
        }
    }
    for name in config.interfaces.iter().filter(|name| !there.contains(name)) {
        leave(name, "named by [govern] interfaces, but there is none of this name");
    }
    taken
}

fn port(tree: &Tree, interface: String, cpus: &[u32]) -> Port {
    let queues = tree.numbered(format!("{NET}/{interface}/queues"), "rx-").len();
    let channels =
        || tree.number::<usize>(format!("/ethtool/{interface}/combined-channels")).unwrap_or(1);
    let count = if queues > 0 { queues } else { channels() }.clamp(1, MOST_QUEUES);
    let core = |queue: usize| {
        let home = home(tree, &interface, queue as u32);
        let core = home.and_then(|cpu| cpus.iter().position(|own| *own == cpu));
        core.unwrap_or(queue % cpus.len().max(1))
    };
    let cores = (0..count).map(core).collect();
    Port { interface: Some(interface), queues: count as u32, cores }
}

/// Returns the CPU that takes a queue's interrupts; the first if several may.
fn home(tree: &Tree, interface: &str, queue: u32) -> Option<u32> {
    let interrupt = *affinity::interrupts(tree, interface, queue).first()?;
    let list = |name: &str| {
        let text = tree.text(format!("/proc/irq/{interrupt}/{name}")).ok()?;
        cpu_list(&text)?.first().copied()
    };
    list("effective_affinity_list").or_else(|| list("smp_affinity_list"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattline_policies::POLICIES;

    struct Machine(tempfile::TempDir);

    impl Machine {
        fn new() -> Self {
            let machine = Self(tempfile::tempdir().unwrap());
            machine.write("sys/devices/system/cpu/online", "0-2");
            machine.write("sys/devices/system/cpu/present", "0-3");
            machine
        }
        fn write(&self, path: &str, text: &str) {
            let path = self.0.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, format!("{text}\n")).unwrap();
        }
        fn find(&self, config: &str) -> Inventory {
            let config = Config::parse(config, "test", POLICIES).unwrap();
            Inventory::find(&Tree::at(self.0.path()), &config)
        }
    }

    fn left_out(inventory: &Inventory) -> Vec<String> {
        inventory.left_out.iter().map(|one| format!("{}: {}", one.what, one.why)).collect()
    }

    #[test]
    fn all_cpus_and_cards_are_taken_and_others_are_named() {
        let machine = Machine::new();
        for name in ["lo", "veth1", "eth0"] {
            machine.write(&format!("sys/class/net/{name}/queues/rx-0/rps_cpus"), "0");
        }
        machine.write("sys/class/net/bonding_masters", "");
        machine.write("sys/class/net/eth0/queues/rx-1/rps_cpus", "0");
        for (interrupt, queue, cpu) in [(24, 0, "2"), (25, 1, "0-1")] {
            machine.write(&format!("sys/class/net/eth0/device/msi_irqs/{interrupt}"), "msix");
            machine.write(&format!("proc/irq/{interrupt}/eth0-TxRx-{queue}/x"), "");
            machine.write(&format!("proc/irq/{interrupt}/effective_affinity_list"), cpu);
        }
        let found = machine.find("");
        assert_eq!(found.layout.cpus, [0, 1, 2]);
        let [port] = &found.layout.ports[..] else { panic!("{found:?}") };
        assert_eq!((port.interface.as_deref(), port.queues), (Some("eth0"), 2));
        assert_eq!(port.cores, [2, 0]);
        let left = left_out(&found);
        assert_eq!(left.len(), 3, "{left:?}");
        for part in ["CPU 3: off line", "lo: the loopback", "veth1: virtual"] {
            assert!(left.iter().any(|line| line.starts_with(part)), "{part}: {left:?}");
        }
    }

    #[test]
    fn configuration_chooses_and_unknown_names_are_reported() {
        let machine = Machine::new();
        machine.write("sys/class/net/eth0/device/vendor", "");
        machine.write("sys/class/net/eth1/device/vendor", "");
        machine.write("sys/class/net/tap0/mtu", "");
        machine.write("sys/class/net/lo/mtu", "");
        let found = machine
            .find("[govern]\ncpus = [1, 7]\ninterfaces = [\"eth1\", \"tap0\", \"eth9\", \"lo\"]\n");
        assert_eq!(found.layout.cpus, [1]);
        assert_eq!(found.interfaces(), ["eth1", "tap0"]);
        let left = left_out(&found);
        for part in ["CPU 0, 2: not among", "CPU 7: off line", "eth0: not among", "eth9: named"] {
            assert!(left.iter().any(|line| line.starts_with(part)), "{part}: {left:?}");
        }
        assert_eq!(
            found.unknown_names,
            [
                "[govern] cpus: there is no CPU 7, or it is off line; on line are 0, 1, 2",
                "[govern] interfaces: there is no interface eth9; there are eth0, eth1, tap0",
            ]
        );
        assert_eq!(found.refusal(), None);
        let refused = machine.find("[govern]\ncpus = [7]\n").refusal().unwrap();
        assert!(refused.contains("there is no CPU 7"), "{refused}");
        let loopback: Vec<_> = left.iter().filter(|line| line.starts_with("lo:")).collect();
        assert_eq!(loopback, ["lo: the loopback: no interrupts, no knobs"], "there is one");
    }

    #[test]
    fn unknown_machine_still_has_a_cpu() {
        let machine = Machine(tempfile::tempdir().unwrap());
        let found = machine.find("");
        assert_eq!((found.layout.workers, found.layout.ports.len()), (1, 0));
    }
}
