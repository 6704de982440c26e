//! Threads on one CPU.

use crate::config::Config;
use rustix::thread::{CpuSet, sched_setaffinity};
use wattline_linux::sysfs::Tree;

/// What is wrong with the CPUs of workers on this machine, all at once.
pub(super) fn unusable(config: &Config) -> Option<String> {
    let cpus = &config.router.cpus;
    // Where the kernel does not say, pinning itself tells later.
    let online = Tree::live().cpus("/sys/devices/system/cpu/online").ok()?;
    complaint(cpus, &online, &usable(&online))
}

/// Those on which a worker can be pinned. They are tried: the kernel refuses what the cpuset of the
/// cgroup does not hold, whereas the affinity that this process was started with is no limit, and
/// commonly leaves out the very CPUs that workers are to have.
fn usable(online: &[u32]) -> Vec<u32> {
    let is_usable = |cpu: &u32| {
        let mut one = CpuSet::new();
        if *cpu as usize >= CpuSet::MAX_CPU {
            return false;
        }
        one.set(*cpu as usize);
        sched_setaffinity(None, &one).is_ok()
    };
    let try_all = || online.iter().copied().filter(is_usable).collect();
    std::thread::scope(|scope| match scope.spawn(try_all).join() {
        Ok(usable) => usable,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}

/// `usable` are those of the `online` ones that this process may run on.
fn complaint(cpus: &[u16], online: &[u32], usable: &[u32]) -> Option<String> {
    let is_in = |list: &[u32], cpu: u16| list.contains(&u32::from(cpu));
    let (there, absent): (Vec<u16>, Vec<u16>) = cpus.iter().partition(|cpu| is_in(online, **cpu));
    let forbidden: Vec<u16> = there.into_iter().filter(|cpu| !is_in(usable, *cpu)).collect();
    let mut wrong = Vec::new();
    if !absent.is_empty() {
        wrong.push(format!(
            "there is no {} on-line; this machine has online: {}",
            named(&absent),
            ranges(online)
        ));
    }
    if !forbidden.is_empty() {
        wrong.push(format!(
            "the cpuset of its cgroup (AllowedCPUs= of a unit) keeps this process from {}; it may run \
             on: {}",
            named(&forbidden),
            ranges(usable)
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

/// As the kernel writes them: `0-3,8`.
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

/// Keeps the calling thread, which works for a worker, on a CPU; says so where that fails.
pub(super) fn pin(worker: usize, cpu: u16) {
    let mut cpus = CpuSet::new();
    cpus.set(usize::from(cpu));
    if let Err(error) = sched_setaffinity(None, &cpus) {
        tracing::warn!("cannot pin worker {worker} to CPU {cpu}: {error}");
    }
}

/// Does something on the CPU of a worker, if it has one, and returns when it is done.
///
/// The kernel takes memory from the NUMA node of the CPU that first touches it, unless a policy says
/// otherwise (Documentation/admin-guide/mm/numa_memory_policy.rst, "System Default Policy"). Packet
/// memory is populated when it is mapped, so what is opened here lies on the worker's node.
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
    fn all_cpus_that_cannot_be_used_are_told_at_once_with_those_that_can() {
        let online = [0, 1, 2, 3, 8];
        assert_eq!(complaint(&[3, 8], &online, &online), None);
        let told = complaint(&[1, 5, 9, 2], &online, &[0, 1, 8]).unwrap();
        for part in [
            "[router] cpus = [1, 5, 9, 2]: ",
            "no CPU 5 and CPU 9 on-line; this machine has online: 0-3,8",
            "keeps this process from CPU 2;",
            "it may run on: 0-1,8",
        ] {
            assert!(told.contains(part), "{part} in: {told}");
        }
    }

    #[test]
    fn what_is_done_for_a_worker_is_done_on_its_cpu_and_the_caller_stays_where_it_was() {
        let before = sched_getaffinity(None).unwrap();
        let allowed: Vec<u16> = (0..1024).filter(|cpu| before.is_set(usize::from(*cpu))).collect();
        for cpu in &allowed {
            assert_eq!(on_cpu_of(0, Some(*cpu), sched_getcpu), usize::from(*cpu));
        }
        assert_eq!(sched_getaffinity(None).unwrap(), before);
        assert_eq!(on_cpu_of(0, None, || sched_getaffinity(None).unwrap()), before);
    }

    /// Operators keep a service off the CPUs that its workers then take for themselves.
    #[test]
    fn the_affinity_of_the_start_does_not_forbid_a_cpu() {
        let online = Tree::live().cpus("/sys/devices/system/cpu/online").unwrap();
        let all = usable(&online);
        let cpu = u16::try_from(all[0]).unwrap();
        assert_eq!(on_cpu_of(0, Some(cpu), || usable(&online)), all);
    }

    /// Where the pages of a mapping lie, by the kernel's account of this process.
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
                wattline_needs::machine("this kernel does not tell on which node memory lies");
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

    /// As a machine with two nodes tells it.
    #[test]
    fn the_account_of_a_machine_with_two_nodes_is_read() {
        let maps = "7f0000000000 default file=/lib N1=9\n\
                    7f1000000000 default anon=2048 dirty=2048 active=0 N0=48 N1=2000 kernelpagesize_kB=4\n\
                    7f2000000000 default anon=1 N0=1\n";
        assert_eq!(pages_on(maps, 0x7f10_0000_1000, 1), Some((2000, 2048)));
        assert_eq!(pages_on(maps, 0x7f10_0000_1000, 0), Some((48, 2048)));
        assert_eq!(pages_on(maps, 0x1000, 0), None);
    }
}
