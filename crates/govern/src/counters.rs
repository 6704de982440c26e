//! Kernel counters of interfaces and CPUs for statistics and metrics: totals since boot, read on
//! request.

use std::collections::BTreeMap;
use wattline_linux::sysfs::Tree;
use wattline_status::{InterfaceStats, ProcessStats};

/// Reads an interface's counters.
pub(crate) fn interface(tree: &Tree, name: &str) -> InterfaceStats {
    let folder = format!("/sys/class/net/{name}");
    let count = |file: &str| tree.number(format!("{folder}/statistics/{file}")).unwrap_or(0);
    let state = tree.text(format!("{folder}/operstate"));
    InterfaceStats {
        name: name.to_owned(),
        state: state.unwrap_or_else(|_| "gone".to_owned()),
        received_packets: count("rx_packets"),
        received_bytes: count("rx_bytes"),
        transmitted_packets: count("tx_packets"),
        transmitted_bytes: count("tx_bytes"),
        missed_packets: count("rx_missed_errors"),
    }
}

/// A CPU's interrupts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Interrupts {
    /// Interrupts of devices.
    pub hard: u64,
    /// Soft interrupts for received packets.
    pub receive: u64,
    /// Soft interrupts for sent packets.
    pub transmit: u64,
}

/// Returns interrupts by CPU (Documentation/filesystems/proc.rst, `/proc/interrupts` and
/// `/proc/softirqs`).
pub(crate) fn interrupts(tree: &Tree) -> BTreeMap<u32, Interrupts> {
    let mut all: BTreeMap<u32, Interrupts> = BTreeMap::new();
    let mut each = |file: &str, add: &dyn Fn(&mut Interrupts, &str, u64)| {
        let text = tree.text(file).unwrap_or_default();
        let mut lines = text.lines();
        let head = lines.next().unwrap_or_default().split_ascii_whitespace();
        let cpus: Vec<u32> =
            head.filter_map(|name| name.strip_prefix("CPU")?.parse().ok()).collect();
        for line in lines {
            let Some((name, counts)) = line.split_once(':') else { continue };
            let counts = counts.split_ascii_whitespace().map_while(|word| word.parse().ok());
            for (cpu, count) in cpus.iter().zip(counts) {
                add(all.entry(*cpu).or_default(), name.trim(), count);
            }
        }
    };
    // Interrupts with a name instead of a number (timers, calls between CPUs) belong to no device.
    each("/proc/interrupts", &|of, name, count| {
        if name.bytes().all(|byte| byte.is_ascii_digit()) {
            of.hard += count;
        }
    });
    each("/proc/softirqs", &|of, name, count| match name {
        "NET_RX" => of.receive += count,
        "NET_TX" => of.transmit += count,
        _ => {}
    });
    all
}

/// Reads the CPU time of this process's threads, in nanoseconds (clock_gettime(2)): a governor
/// takes less in seconds than a tick of `/proc/self/stat`. The rest is from `/proc/self/status`.
pub(crate) fn process() -> ProcessStats {
    use rustix::time::{ClockId, clock_gettime};
    let tree = Tree::live();
    let taken = clock_gettime(ClockId::ProcessCPUTime);
    let status = tree.text("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kibibytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    ProcessStats {
        cpu_seconds: taken.tv_sec as f64 + taken.tv_nsec as f64 * 1e-9,
        resident_bytes: kibibytes.unwrap_or(0).saturating_mul(1024),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interrupts_are_summed_by_cpu() {
        let root = tempfile::tempdir().unwrap();
        let proc = root.path().join("proc");
        std::fs::create_dir_all(&proc).unwrap();
        let hard = "       CPU0  CPU2\n 24:  1  10  IO-APIC 5-edge x\n 25: 2 20 PCI y\nLOC: 9 9 Local\nERR: 5\n";
        std::fs::write(proc.join("interrupts"), hard).unwrap();
        let soft = "  CPU0 CPU2\n HI: 7 7\n NET_TX: 3 4\n NET_RX: 5 6\n";
        std::fs::write(proc.join("softirqs"), soft).unwrap();
        let found = interrupts(&Tree::at(root.path()));
        let expected = [
            (0, Interrupts { hard: 3, receive: 5, transmit: 3 }),
            (2, Interrupts { hard: 30, receive: 6, transmit: 4 }),
        ];
        assert_eq!(found, BTreeMap::from(expected));
        assert_eq!(interrupts(&Tree::at("/nowhere")), BTreeMap::new());
    }

    #[test]
    fn vanished_interface_is_reported_and_this_process_takes_memory() {
        let gone = interface(&Tree::at("/nowhere"), "eth0");
        assert_eq!((&*gone.state, gone.received_packets), ("gone", 0));
        let first = process();
        assert!(first.resident_bytes > 100_000 && first.cpu_seconds > 0.0);
        // Finer than a tick.
        let last = wattline_needs::until("its clock runs", || {
            Some(process()).filter(|last| last.cpu_seconds > first.cpu_seconds)
        });
        assert!(last.cpu_seconds - first.cpu_seconds < 0.01, "{first:?} {last:?}");
    }
}
