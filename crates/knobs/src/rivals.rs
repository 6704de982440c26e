//! Other programs that set the same knobs, and what to do about them.

use crate::access::{Access, Machine};
use crate::moderation;
use serde::Serialize;
use wattline_linux::ethtool::Coalesce;
use wattline_linux::sysfs::Tree;

/// A program, or a driver's own logic, that would fight with us.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Rival {
    /// Its name.
    pub name: String,
    /// What it sets.
    pub sets: &'static str,
    /// How it was noticed.
    pub seen: String,
    /// What to do.
    pub remedy: String,
}

struct Known {
    name: &'static str,
    /// The name of its process as `/proc/PID/comm` shows it (at most 15 bytes), or, for one in
    /// an interpreter, the last part of a word of its command line.
    process: &'static str,
    unit: &'static str,
    sets: &'static str,
}

const KNOWN: [Known; 6] = [
    Known {
        name: "TuneD",
        process: "tuned",
        unit: "tuned",
        sets: "governor, preference, limits, idle latency",
    },
    Known {
        name: "power-profiles-daemon",
        process: "power-profiles-daemon",
        unit: "power-profiles-daemon",
        sets: "energy performance preference",
    },
    Known {
        name: "auto-cpufreq",
        process: "auto-cpufreq",
        unit: "auto-cpufreq",
        sets: "governor, preference, turbo",
    },
    Known {
        name: "irqbalance",
        process: "irqbalance",
        unit: "irqbalance",
        sets: "interrupt affinity, every 10 s",
    },
    Known { name: "thermald", process: "thermald", unit: "thermald", sets: "frequency limits" },
    Known { name: "cpupower", process: "cpupower", unit: "cpupower", sets: "governor, limits" },
];

/// All rivals that are there: running programs, TLP (which leaves no process behind), and
/// adaptive interrupt moderation on the interfaces named.
pub fn find(tree: &Tree, interfaces: &[String]) -> Vec<Rival> {
    let mut rivals: Vec<Rival> = Vec::new();
    for (pid, _) in tree.numbered("/proc", "") {
        let Some(known) = whose(tree, pid) else { continue };
        if rivals.iter().any(|rival| rival.name == known.name) {
            continue;
        }
        rivals.push(Rival {
            name: known.name.to_string(),
            sets: known.sets,
            seen: format!("process {pid}"),
            remedy: format!("systemctl disable --now {}", known.unit),
        });
    }
    if tree.exists("/run/tlp/last_pwr") || tree.exists("/run/tlp/lock_tlp") {
        rivals.push(Rival {
            name: "TLP".into(),
            sets: "governor, limits, preference, at boot and when the supply changes",
            seen: "/run/tlp".into(),
            remedy: "systemctl disable --now tlp, and tlp-stat -s to check".into(),
        });
    }
    let machine = Machine::new(tree);
    for interface in interfaces {
        let adaptive = moderation::setting(interface, Coalesce::AdaptiveRx);
        if machine.read(&adaptive).is_ok_and(|value| value != "0") {
            rivals.push(Rival {
                name: format!("adaptive moderation of {interface}"),
                sets: "receive interrupt moderation",
                seen: adaptive.to_string(),
                remedy: format!("ethtool -C {interface} adaptive-rx off"),
            });
        }
    }
    rivals
}

fn whose(tree: &Tree, pid: u32) -> Option<&'static Known> {
    // A process that ends meanwhile is no rival any more.
    let comm = tree.text(format!("/proc/{pid}/comm")).ok()?;
    let by_name = KNOWN.iter().find(|known| {
        // The kernel keeps 15 bytes of a name.
        comm == known.process.get(..15).unwrap_or(known.process)
    });
    by_name.or_else(|| {
        if !comm.starts_with("python") {
            return None;
        }
        let line = tree.text(format!("/proc/{pid}/cmdline")).ok()?;
        // Interpreter and script; later words are arguments.
        let mut words = line.split('\0').take(4).filter_map(|word| word.rsplit('/').next());
        words.find_map(|word| KNOWN.iter().find(|known| word == known.process))
    })
}
