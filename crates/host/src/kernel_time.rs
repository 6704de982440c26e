//! Time that the kernel spends on packets on the workers' CPUs: soft interrupts, the `ksoftirqd`
//! threads that take over under heavy load, and the polling threads of NAPI instances if an
//! interface is set to `threaded` (Documentation/networking/napi.rst).

use std::collections::BTreeMap;
use wattline_linux::sysfs::Tree;

pub use wattline_status::KernelShare;

/// Looks between two searches for threads: those of NAPI instances come and go.
const SEARCH: u32 = 16;

/// Time of one CPU since boot, in ticks of `/proc/stat`.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct CpuTime {
    softirq: f64,
    /// All time, including idle time.
    total: f64,
}

/// Time of threads on one CPU between two looks, in ticks.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct ThreadTime {
    ksoftirqd: f64,
    napi: f64,
}

/// Kernel times between consecutive looks.
#[derive(Debug, Default)]
pub struct KernelTimes {
    looks: u32,
    /// The threads, and their ticks since their start.
    threads: BTreeMap<u32, Option<f64>>,
    last: BTreeMap<u32, CpuTime>,
}

impl KernelTimes {
    /// Returns the shares of these CPUs since the last look; none at the first look, and none for a
    /// CPU that has gone.
    pub fn look(&mut self, tree: &Tree, cpus: &[u32]) -> Vec<KernelShare> {
        if self.looks.is_multiple_of(SEARCH) {
            let all = threads(tree).into_iter();
            self.threads =
                all.map(|thread| (thread, self.threads.get(&thread).copied().flatten())).collect();
        }
        self.looks = self.looks.wrapping_add(1);
        let threads = self.thread_times(tree);
        let now = times(tree);
        let shares = cpus.iter().enumerate().filter_map(|(worker, cpu)| {
            let (new, old) = (now.get(cpu)?, self.last.get(cpu)?);
            let total = new.total - old.total;
            let share = |part: f64| (part / total).clamp(0.0, 1.0);
            let threads = threads.get(cpu).copied().unwrap_or_default();
            (total > 0.0).then(|| KernelShare {
                worker,
                cpu: *cpu,
                softirq_share: share(new.softirq - old.softirq),
                ksoftirqd_share: share(threads.ksoftirqd),
                napi_share: share(threads.napi),
            })
        });
        let shares = shares.collect();
        self.last = now;
        shares
    }

    /// Returns the time of the threads since the last look, by the CPU that each ran on last.
    fn thread_times(&mut self, tree: &Tree) -> BTreeMap<u32, ThreadTime> {
        let mut times = BTreeMap::<u32, ThreadTime>::new();
        for (thread, last) in &mut self.threads {
            let Some((name, cpu, ticks)) = thread_ticks(tree, *thread) else { continue };
            let took = last.replace(ticks).map_or(0.0, |last| (ticks - last).max(0.0));
            let of_cpu = times.entry(cpu).or_default();
            // The number may belong to another program by now.
            if name.starts_with(KSOFTIRQD) {
                of_cpu.ksoftirqd += took;
            } else if name.starts_with(NAPI) {
                of_cpu.napi += took;
            }
        }
        times
    }
}

/// Returns the times of all CPUs (Documentation/filesystems/proc.rst, `/proc/stat`).
fn times(tree: &Tree) -> BTreeMap<u32, CpuTime> {
    let text = tree.text("/proc/stat").unwrap_or_default();
    let of_line = |line: &str| {
        let mut words = line.split_whitespace();
        let cpu = words.next()?.strip_prefix("cpu")?.parse().ok()?;
        // user nice system idle iowait irq softirq steal; guest time is in user already.
        let ticks: Vec<f64> = words.take(8).filter_map(|word| word.parse().ok()).collect();
        Some((cpu, CpuTime { softirq: *ticks.get(6)?, total: ticks.iter().sum() }))
    };
    text.lines().filter_map(of_line).collect()
}

/// Returns name, last CPU, and ticks in user and kernel mode of a process: fields 2, 39, 14 and 15
/// of its `stat`.
fn thread_ticks(tree: &Tree, process: u32) -> Option<(String, u32, f64)> {
    let text = tree.text(format!("/proc/{process}/stat")).ok()?;
    // The name in brackets may hold anything; field 3 follows the last one.
    let (name, rest) = text.rsplit_once(')')?;
    let (_, name) = name.split_once('(')?;
    let words: Vec<&str> = rest.split_whitespace().collect();
    let ticks = |field: usize| words.get(field - 3)?.parse::<f64>().ok();
    Some((name.to_owned(), words.get(36)?.parse().ok()?, ticks(14)? + ticks(15)?))
}

const KSOFTIRQD: &str = "ksoftirqd/";
const NAPI: &str = "napi/";

fn threads(tree: &Tree) -> Vec<u32> {
    let all = tree.numbered("/proc", "").into_iter();
    all.filter_map(|(process, _)| {
        let name = tree.text(format!("/proc/{process}/comm")).ok()?;
        (name.starts_with(KSOFTIRQD) || name.starts_with(NAPI)).then_some(process)
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(tree: &Tree, softirq: u64, thread: u64) {
        let text = format!(
            "cpu 0 0 0 0\ncpu0 100 0 50 1000 0 0 7 0 0 0\ncpu3 {} 0 0 0 0 0 {softirq} 0 0 0\nintr 5\n",
            1000 - softirq
        );
        std::fs::write(tree.path("/proc/stat"), text).unwrap();
        for (process, name, ticks) in
            [(29, "ksoftirqd/3", thread), (31, "napi/eth0-8193", thread / 3)]
        {
            let text = format!(
                "{process} ({name}) S 2 0 0 0 -1 69238848 0 0 0 0 0 {ticks} 0 0 20 0 1 0 {}3",
                "0 ".repeat(17)
            );
            std::fs::write(tree.path(format!("/proc/{process}/stat")), text).unwrap();
        }
    }

    #[test]
    fn shares_are_of_the_time_between_two_looks() {
        let root = tempfile::tempdir().unwrap();
        let tree = Tree::at(root.path());
        for (process, name) in [(29, "ksoftirqd/3"), (31, "napi/eth0-8193"), (33, "sh")] {
            let folder = tree.path(format!("/proc/{process}"));
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("comm"), format!("{name}\n")).unwrap();
        }
        stat(&tree, 0, 0);
        let mut times = KernelTimes::default();
        assert_eq!(times.look(&tree, &[3]), []);
        let text = "cpu3 1100 0 0 50 0 0 50 0 0 0\n";
        stat(&tree, 0, 30);
        std::fs::write(tree.path("/proc/stat"), text).unwrap();
        let [share] = times.look(&tree, &[3])[..] else { panic!("no share") };
        assert_eq!((share.worker, share.cpu), (0, 3));
        assert_eq!((share.softirq_share, share.ksoftirqd_share), (0.25, 0.15));
        // Ticks of ksoftirqd are already counted as soft interrupts.
        assert!((share.napi_share - 0.05).abs() < 1e-9 && (share.work() - 0.3).abs() < 1e-9);
        // A CPU that has gone has no share.
        std::fs::write(tree.path("/proc/stat"), "cpu0 1 1 1 1 1 1 1 1\n").unwrap();
        assert_eq!(times.look(&tree, &[3]), []);
    }
}
