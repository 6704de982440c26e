//! Pinning of threads to CPUs.

use crate::config::Config;
use rustix::io::{Errno, Result};
use rustix::thread::{CpuSet, sched_setaffinity};
use std::path::Path;
use wattline_linux::sysfs::Tree;

/// Returns the problems with the CPUs of workers on this machine, all at once.
pub(super) fn unusable(config: &Config) -> Option<String> {
    let cpus = &config.router.cpus;
    let tried = std::thread::scope(|scope| scope.spawn(|| refused(cpus, move_to)).join());
    let refused = tried.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    if refused.is_empty() {
        return None;
    }
    let tree = Tree::live();
    // If the kernel does not report it, pinning fails later.
    let online = tree.cpus("/sys/devices/system/cpu/online").ok()?;
    complaint(cpus, &refused, &online, cpuset(&tree))
}

/// Returns the CPUs of a list on which no thread of this process may run. Each is tried: the kernel
/// refuses CPUs that are offline or outside of the cgroup's cpuset. The affinity that this process
/// was started with is no limit, and commonly excludes the very CPUs of the workers. Other CPUs are
/// not tried: a thread there might wait for a real-time thread that spins.
fn refused(cpus: &[u16], try_one: impl Fn(u16) -> Result<()>) -> Vec<u16> {
    // Only EINVAL means that (sched_setaffinity(2)); pinning reports other errors.
    cpus.iter().copied().filter(|cpu| try_one(*cpu) == Err(Errno::INVAL)).collect()
}

/// Returns the CPUs of this process's cgroup, or of its closest ancestor that has a cpuset; `None`
/// without cgroups of version 2.
fn cpuset(tree: &Tree) -> Option<Vec<u32>> {
    const ROOT: &str = "/sys/fs/cgroup";
    let groups = tree.text("/proc/self/cgroup").ok()?;
    // `..` leads out of the cgroup namespace, where nothing can be read.
    let group = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let group = Path::new(ROOT).join(Some(group).filter(|group| !group.contains(".."))?);
    let levels = group.ancestors().take_while(|level| level.starts_with(ROOT));
    levels.into_iter().find_map(|level| tree.cpus(level.join("cpuset.cpus.effective")).ok())
}

/// Describes the problems, if any. `refused` are the CPUs that this process may not run on,
/// `cpuset` those of its cgroup.
fn complaint(
    cpus: &[u16],
    refused: &[u16],
    online: &[u32],
    cpuset: Option<Vec<u32>>,
) -> Option<String> {
    let is_online = |cpu: &u16| online.contains(&u32::from(*cpu));
    let (forbidden, absent): (Vec<u16>, Vec<u16>) = refused.iter().partition(|cpu| is_online(cpu));
    let mut wrong = Vec::new();
    if !absent.is_empty() {
        wrong.push(format!(
            "there is no {} on-line; this machine has online: {}",
            named(&absent),
            ranges(online)
        ));
    }
    if !forbidden.is_empty() {
        let rest = cpuset.map_or(String::new(), |mut usable| {
            usable.retain(|cpu| !forbidden.iter().any(|it| u32::from(*it) == *cpu));
            format!("; it may run on: {}", ranges(&usable))
        });
        wrong.push(format!(
            "the cpuset of its cgroup (AllowedCPUs= of a unit) keeps this process from {}{rest}",
            named(&forbidden)
        ));
    }
    (!wrong.is_empty()).then(|| {
        let list = cpus.iter().map(u16::to_string).collect::<Vec<_>>().join(", ");
        format!("[router] cpus = [{list}]: {}; name others, or leave cpus out", wrong.join("; "))
    })
}

fn named(cpus: &[u16]) -> String {
    cpus.iter().map(|cpu| format!("CPU {cpu}")).collect::<Vec<_>>().join(" and ")
}

/// Formats CPUs as the kernel does: `0-3,8`.
fn ranges(cpus: &[u32]) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for cpu in cpus {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == *cpu => *last = *cpu,
            _ => runs.push((*cpu, *cpu)),
        }
    }
    let text = |(first, last): (u32, u32)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    runs.into_iter().map(text).collect::<Vec<_>>().join(",")
}

/// Pins the calling thread, which works for a worker, to a CPU. Logs a failure.
pub(super) fn pin(worker: usize, cpu: u16) {
    if let Err(error) = move_to(cpu) {
        tracing::warn!("cannot pin worker {worker} to CPU {cpu}: {error}");
    }
}

fn move_to(cpu: u16) -> Result<()> {
    if usize::from(cpu) >= CpuSet::MAX_CPU {
        return Err(Errno::INVAL);
    }
    let mut cpus = CpuSet::new();
    cpus.set(usize::from(cpu));
    sched_setaffinity(None, &cpus)
}

/// Runs a function on the CPU of a worker, if it has one, and returns its result.
///
/// The kernel takes memory from the NUMA node of the CPU that first touches it, unless a policy
/// says otherwise (Documentation/admin-guide/mm/numa_memory_policy.rst, "System Default Policy").
/// Packet memory is populated when it is mapped, so memory that is mapped here lies on the worker's
/// node.
pub(super) fn on_cpu_of<R: Send>(
    worker: usize,
    cpu: Option<u16>,
    work: impl FnOnce() -> R + Send,
) -> R {
    let Some(cpu) = cpu else { return work() };
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            pin(worker, cpu);
            work()
        });
        match thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::thread::{sched_getaffinity, sched_getcpu};

    #[test]
    fn all_unusable_cpus_are_reported_at_once_with_the_usable_ones() {
        let online = [0, 1, 2, 3, 8];
        assert_eq!(complaint(&[3, 8], &[], &online, None), None);
        let reported = |cpuset| complaint(&[1, 5, 9, 2], &[5, 9, 2], &online, cpuset).unwrap();
        let with_cpuset = reported(Some(vec![0, 1, 2, 8]));
        for part in [
            "[router] cpus = [1, 5, 9, 2]: ",
            "no CPU 5 and CPU 9 on-line; this machine has online: 0-3,8",
            "keeps this process from CPU 2;",
            "it may run on: 0-1,8; name others",
        ] {
            assert!(with_cpuset.contains(part), "{part} in: {with_cpuset}");
        }
        let without = reported(None);
        assert!(without.contains("keeps this process from CPU 2; name others"), "{without}");
    }

    /// EPERM, for example from a filter of system calls, has nothing to do with CPUs.
    #[test]
    fn only_the_cpus_of_the_list_are_tried_and_only_einval_refuses_one() {
        let answers = |cpu| match cpu {
            0 => Ok(()),
            3 => Err(Errno::PERM),
            7 => Err(Errno::INVAL),
            other => panic!("CPU {other} is not in the list"),
        };
        assert_eq!(refused(&[3, 7, 0], answers), [7]);
        assert!(refused(&[], answers).is_empty());
        assert_eq!(refused(&[u16::MAX], move_to), [u16::MAX]);
    }

    #[test]
    fn cpuset_of_the_closest_cgroup_that_has_one_counts() {
        let folder = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let tree = Tree::at(folder.path());
        assert_eq!(cpuset(&tree), None);
        put("proc/self/cgroup", "0::/system.slice/wattline.service\n");
        assert_eq!(cpuset(&tree), None);
        put("sys/fs/cgroup/cpuset.cpus.effective", "0-7\n");
        assert_eq!(cpuset(&tree).unwrap().len(), 8);
        put("sys/fs/cgroup/system.slice/cpuset.cpus.effective", "2-3,6\n");
        assert_eq!(cpuset(&tree).unwrap(), [2, 3, 6]);
        put("proc/self/cgroup", "0::/../../other\n");
        assert_eq!(cpuset(&tree), None);
    }

    #[test]
    fn work_for_a_worker_runs_on_its_cpu_and_leaves_the_caller() {
        let before = sched_getaffinity(None).unwrap();
        let allowed: Vec<u16> = (0..1024).filter(|cpu| before.is_set(usize::from(*cpu))).collect();
        for cpu in &allowed {
            assert_eq!(on_cpu_of(0, Some(*cpu), sched_getcpu), usize::from(*cpu));
        }
        assert_eq!(sched_getaffinity(None).unwrap(), before);
        assert_eq!(on_cpu_of(0, None, || sched_getaffinity(None).unwrap()), before);
    }

    /// Operators commonly exclude the workers' CPUs from a service's affinity.
    #[test]
    fn initial_affinity_does_not_forbid_a_cpu() {
        let online = Tree::live().cpus("/sys/devices/system/cpu/online").unwrap();
        let online: Vec<u16> = online.iter().filter_map(|cpu| u16::try_from(*cpu).ok()).collect();
        let try_all = || refused(&online, move_to);
        let refused = std::thread::scope(|scope| scope.spawn(try_all).join()).unwrap();
        let first = online.iter().find(|cpu| !refused.contains(cpu)).unwrap();
        assert_eq!(on_cpu_of(0, Some(*first), try_all), refused);
    }

    /// Returns the nodes of a mapping's pages, by the kernel's account of this process.
    #[test]
    fn memory_that_is_populated_there_lies_on_the_node_of_the_cpu() {
        const BYTES: usize = 8 << 20;
        let node_of = |cpu: u16| {
            let folder = std::fs::read_dir(format!("/sys/devices/system/cpu/cpu{cpu}")).ok()?;
            let names = folder.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
            names.filter_map(|name| name.strip_prefix("node")?.parse::<u32>().ok()).next()
        };
        let allowed = sched_getaffinity(None).unwrap();
        for cpu in (0..1024).filter(|cpu| allowed.is_set(usize::from(*cpu))) {
            let memory = on_cpu_of(0, Some(cpu), || vec![1_u8; BYTES]);
            let (Some(node), Ok(maps)) =
                (node_of(cpu), std::fs::read_to_string("/proc/self/numa_maps"))
            else {
                wattline_needs::machine("this kernel does not report the node of memory");
                return;
            };
            let Some(pages) = pages_on(&maps, memory.as_ptr().addr(), node) else { continue };
            assert!(pages.0 * 10 >= pages.1 * 9, "CPU {cpu}, node {node}: {pages:?}");
        }
    }

    /// Pages on a node and on all, of the mapping with the highest start below an address: lines are
    /// `START policy … N0=PAGES N1=PAGES …` (proc(5)).
    fn pages_on(maps: &str, address: usize, node: u32) -> Option<(u64, u64)> {
        let line = maps
            .lines()
            .filter_map(|line| {
                let (start, rest) = line.split_once(' ')?;
                Some((usize::from_str_radix(start, 16).ok()?, rest))
            })
            .filter(|(start, _)| *start <= address)
            .max_by_key(|(start, _)| *start)?
            .1;
        let counts: Vec<(u32, u64)> = line
            .split(' ')
            .filter_map(|word| {
                let (node, pages) = word.strip_prefix('N')?.split_once('=')?;
                Some((node.parse().ok()?, pages.parse().ok()?))
            })
            .collect();
        let on = counts.iter().filter(|(of, _)| *of == node).map(|(_, pages)| pages).sum();
        Some((on, counts.iter().map(|(_, pages)| pages).sum()))
    }

    /// Lines of a machine with two nodes.
    #[test]
    fn numa_maps_of_a_machine_with_two_nodes_are_read() {
        let maps = "7f0000000000 default file=/lib N1=9\n\
                    7f1000000000 default anon=2048 dirty=2048 active=0 N0=48 N1=2000 kernelpagesize_kB=4\n\
                    7f2000000000 default anon=1 N0=1\n";
        assert_eq!(pages_on(maps, 0x7f10_0000_1000, 1), Some((2000, 2048)));
        assert_eq!(pages_on(maps, 0x7f10_0000_1000, 0), Some((48, 2048)));
        assert_eq!(pages_on(maps, 0x1000, 0), None);
    }
}
