//! The parts of a machine in a form that is read quickly, to detect that the governor must restart.
//!
//! It need not restart when a governed CPU goes off line: the kernel keeps the frequency settings
//! of such a CPU but allows no access until it is back (`show` and `store` of
//! drivers/cpufreq/cpufreq.c: EBUSY), so they could not be restored either. The other CPUs stay
//! governed, and so is this one once it is back.

use crate::config::Config;
use std::collections::BTreeMap;
use wattline_linux::sysfs::Tree;

/// CPUs on line, and interfaces with hardware or named in the configuration, with their queues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fingerprint {
    online: Vec<u32>,
    interfaces: BTreeMap<String, usize>,
}

impl Fingerprint {
    pub fn read(tree: &Tree, config: &Config) -> Self {
        const NET: &str = "/sys/class/net";
        let online = tree.cpus("/sys/devices/system/cpu/online").unwrap_or_default();
        let wanted = |cpu: &u32| config.cpus.is_empty() || config.cpus.contains(cpu);
        let online = online.into_iter().filter(wanted).collect();
        let counts = |name: &String| {
            let named = config.interfaces.contains(name);
            let wanted = named || config.interfaces.is_empty();
            wanted && (named || tree.exists(format!("{NET}/{name}/device")))
        };
        let queues = |name: String| {
            let queues = tree.numbered(format!("{NET}/{name}/queues"), "rx-").len();
            (name, queues)
        };
        let interfaces = tree.entries(NET).into_iter().filter(counts).map(queues).collect();
        Self { online, interfaces }
    }

    /// Returns true if all of these CPUs are on line.
    pub fn has(&self, cpus: &[u32]) -> bool {
        cpus.iter().all(|cpu| self.online.contains(cpu))
    }

    /// Describes the CPUs and interfaces that came and went.
    pub fn changes_since(&self, before: &Self) -> Vec<String> {
        let come = self.online.iter().filter(|cpu| !before.online.contains(cpu));
        let mut changes: Vec<String> = come.map(|cpu| format!("CPU {cpu} has come")).collect();
        for (name, queues) in &self.interfaces {
            match before.interfaces.get(name) {
                None => changes.push(format!("{name} has come")),
                Some(old) if old != queues => {
                    changes.push(format!("{name}: {old} queues before, {queues} now"));
                }
                Some(_) => {}
            }
        }
        let gone = before.interfaces.keys().filter(|name| !self.interfaces.contains_key(*name));
        changes.extend(gone.map(|name| format!("{name} has gone")));
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattline_policies::POLICIES;

    #[test]
    fn fingerprint_follows_hardware_and_ignores_virtual_interfaces() {
        let root = tempfile::tempdir().unwrap();
        let tree = Tree::at(root.path());
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("sys/devices/system/cpu/online", "0-3");
        write("sys/class/net/eth0/device/vendor", "");
        write("sys/class/net/eth0/queues/rx-0/rps_cpus", "");
        let config = Config::built_in(POLICIES);
        let before = Fingerprint::read(&tree, &config);
        write("sys/class/net/veth7/mtu", "");
        assert_eq!(Fingerprint::read(&tree, &config), before);
        write("sys/class/net/eth0/queues/rx-1/rps_cpus", "");
        write("sys/class/net/eth1/device/vendor", "");
        write("sys/devices/system/cpu/online", "0,2-4");
        let now = Fingerprint::read(&tree, &config);
        let changes = now.changes_since(&before);
        assert_eq!(changes, ["CPU 4 has come", "eth0: 1 queues before, 2 now", "eth1 has come"]);
        assert_eq!(before.changes_since(&now)[2], "eth1 has gone");
        assert!(now.has(&[0, 4]) && !now.has(&[0, 1]));
    }
}
