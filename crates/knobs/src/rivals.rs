//! Programs that set the same knobs on this machine, with remedies: those contenders of the knobs'
//! registrations that are present.

use crate::KNOBS;
use crate::access::{Access, Machine};
use crate::conflict::{Contender, Sign};
use serde::Serialize;
use wattline_linux::sysfs::Tree;

/// A program, or a driver's own logic, that conflicts with Wattline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Rival {
    /// Its name.
    pub name: String,
    /// The settings that it changes, in words.
    pub sets: String,
    /// The labels of the knobs that it sets, as in counters of writes.
    pub labels: Vec<&'static str>,
    /// The sign of its presence.
    pub seen: String,
    /// The command or change that stops it.
    pub remedy: String,
}

/// A contender with all settings that it changes.
struct Claim {
    contender: &'static Contender,
    sets: Vec<&'static str>,
    labels: Vec<&'static str>,
}

/// Returns all rivals present, in the order of the knobs; drivers' own logic on the named
/// interfaces.
pub fn find(tree: &Tree, interfaces: &[String]) -> Vec<Rival> {
    let claims = claims();
    let processes = processes(tree, &claims);
    let machine = Machine::new(tree);
    let mut rivals = Vec::new();
    for Claim { contender, sets, labels } in &claims {
        let Contender { name, sign, remedy } = contender;
        let mut rival = |name: String, seen: String, remedy: String| {
            rivals.push(Rival {
                name,
                sets: sets.join(", "),
                labels: labels.clone(),
                seen,
                remedy,
            });
        };
        match sign {
            Sign::Process(_) => {
                let process = processes.iter().find(|(owner, _)| owner == name);
                if let Some((_, pid)) = process {
                    rival(name.to_string(), format!("process {pid}"), remedy.to_string());
                }
            }
            Sign::Files(files) => {
                if let Some(file) = files.iter().find(|file| tree.exists(file)) {
                    rival(name.to_string(), file.to_string(), remedy.to_string());
                }
            }
            Sign::Scheduler => {
                if let Some((scheduler, seen)) = scheduler(tree) {
                    rival(format!("{name} {scheduler}"), seen, remedy.to_string());
                }
            }
            Sign::Cpuset => {
                for group in tree.entries(CGROUPS) {
                    let file = format!("{CGROUPS}/{group}/cpuset.cpus");
                    if tree.text(&file).is_ok_and(|cpus| !cpus.is_empty()) {
                        rival(format!("{name} of {group}"), file, remedy.to_string());
                    }
                }
            }
            Sign::Interface(setting) => {
                for interface in interfaces {
                    let setting = setting(interface);
                    if machine.read(&setting).is_ok_and(|value| value != "0") {
                        let remedy = remedy.replace("INTERFACE", interface);
                        rival(format!("{name} of {interface}"), setting.to_string(), remedy);
                    }
                }
            }
        }
    }
    rivals
}

/// Control groups of the whole machine.
const CGROUPS: &str = "/sys/fs/cgroup";

/// Returns name and sign of the scheduler loaded in place of the kernel's own.
fn scheduler(tree: &Tree) -> Option<(String, String)> {
    const STATE: &str = "/sys/kernel/sched_ext/state";
    if tree.text(STATE).is_ok_and(|state| state == "enabled") {
        let ops = tree.text("/sys/kernel/sched_ext/root/ops").unwrap_or_default();
        return Some((ops, STATE.to_owned()));
    }
    tree.numbered("/proc", "").into_iter().find_map(|(pid, _)| {
        let comm = tree.text(format!("/proc/{pid}/comm")).ok()?;
        comm.starts_with("scx_").then(|| (comm, format!("process {pid}")))
    })
}

/// Returns each contender once.
fn claims() -> Vec<Claim> {
    let mut claims: Vec<Claim> = Vec::new();
    for knob in KNOBS {
        for conflict in knob.conflicts {
            let known = claims.iter().position(|claim| claim.contender.name == conflict.with.name);
            let place = known.unwrap_or_else(|| {
                let contender = conflict.with;
                claims.push(Claim { contender, sets: Vec::new(), labels: Vec::new() });
                claims.len() - 1
            });
            let Claim { sets, labels, .. } = &mut claims[place];
            if !sets.contains(&conflict.sets) {
                sets.push(conflict.sets);
            }
            if !labels.contains(&knob.label) {
                labels.push(knob.label);
            }
        }
    }
    claims
}

/// Returns the names of running contenders, with their processes.
fn processes(tree: &Tree, claims: &[Claim]) -> Vec<(&'static str, u32)> {
    let programs = claims.iter().filter_map(|claim| match claim.contender.sign {
        Sign::Process(process) => Some((claim.contender.name, process)),
        _ => None,
    });
    let programs: Vec<(&str, &str)> = programs.collect();
    let running = tree.numbered("/proc", "").into_iter();
    running.filter_map(|(pid, _)| Some((owner_of(tree, pid, &programs)?, pid))).collect()
}

/// Returns the name of the program that a process belongs to, given names and process names.
fn owner_of<'a>(tree: &Tree, pid: u32, programs: &[(&'a str, &str)]) -> Option<&'a str> {
    // A process that ends meanwhile is no longer a rival.
    let comm = tree.text(format!("/proc/{pid}/comm")).ok()?;
    let by_name = programs.iter().find(|(_, process)| {
        // The kernel keeps 15 bytes of a name.
        comm == process.get(..15).unwrap_or(process)
    });
    let found = by_name.or_else(|| {
        if !comm.starts_with("python") {
            return None;
        }
        let line = tree.text(format!("/proc/{pid}/cmdline")).ok()?;
        // Interpreter and script; later words are arguments.
        let mut words = line.split('\0').take(4).filter_map(|word| word.rsplit('/').next());
        words.find_map(|word| programs.iter().find(|(_, process)| word == *process))
    });
    found.map(|(name, _)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn machine(files: &[(&str, &str)]) -> (tempfile::TempDir, Tree) {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let tree = Tree::at(root.path());
        (root, tree)
    }

    #[test]
    fn rival_is_listed_once_with_everything_that_it_sets() {
        let (_root, tree) = machine(&[
            ("proc/41/comm", "tuned\n"),
            ("proc/42/comm", "tuned\n"),
            ("proc/43/comm", "python3\n"),
            ("proc/43/cmdline", "/usr/bin/python3\0/opt/bin/auto-cpufreq\0--daemon\0"),
            ("proc/44/comm", "irqbalance\n"),
            ("proc/45/comm", "tunedx\n"),
            ("run/tlp/last_pwr", "0\n"),
        ]);
        let rivals = find(&tree, &[]);
        let names: Vec<&str> = rivals.iter().map(|rival| rival.name.as_str()).collect();
        assert_eq!(names, ["TuneD", "auto-cpufreq", "TLP", "irqbalance"]);
        let tuned = &rivals[0];
        assert_eq!(tuned.sets, "governor, limits, preference, bias, turbo, idle latency");
        assert_eq!(tuned.labels, ["frequency", "idle"]);
        assert_eq!(tuned.seen, "process 41");
        assert_eq!(rivals[3].labels, ["affinity"]);
    }

    #[test]
    fn holders_of_knobs_are_found_without_a_known_name() {
        let (_root, tree) = machine(&[
            ("sys/kernel/sched_ext/state", "enabled\n"),
            ("sys/kernel/sched_ext/root/ops", "novel\n"),
            ("sys/fs/cgroup/system.slice/cpuset.cpus", "0-3\n"),
            ("sys/fs/cgroup/user.slice/cpuset.cpus", "\n"),
        ]);
        let names: Vec<String> = find(&tree, &[]).into_iter().map(|rival| rival.name).collect();
        assert_eq!(names, ["sched_ext novel", "cpuset of system.slice"]);
        for name in ["intel_lpmd", "watt", "system76-power", "scx_lavd"] {
            let (_root, tree) = machine(&[("proc/7/comm", &format!("{name}\n"))]);
            let found = find(&tree, &[]);
            assert!(found.len() == 1 && found[0].name.contains(name), "{name}: {found:?}");
        }
    }

    #[test]
    fn remedies_for_interface_signs_name_the_interface() {
        let claims = claims();
        for claim in &claims {
            let Contender { name, sign, remedy } = claim.contender;
            let of_interface = matches!(sign, Sign::Interface(_));
            assert_eq!(remedy.contains("INTERFACE"), of_interface, "{name}");
            assert!(!claim.sets.is_empty() && !claim.labels.is_empty(), "{name}");
        }
        assert!(claims.len() >= 8, "{}", claims.len());
    }
}
