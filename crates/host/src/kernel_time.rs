//! The time that the kernel spends on the workers' CPUs for their packets: softirq, and the
//! threads `ksoftirqd` that take over when there is much of it.

use std::collections::BTreeMap;
use wattline_linux::sysfs::Tree;

pub use wattline_status::KernelShare;

/// Time of one CPU since boot, in ticks of `/proc/stat`.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct KernelTime {
    softirq: f64,
    ksoftirqd: f64,
    /// Altogether, idle time included.
    total: f64,
}

/// Looks again and again.
#[derive(Debug, Default)]
pub struct KernelTimes {
    /// The ksoftirqd of each CPU, by its process.
    threads: BTreeMap<u32, u32>,
    last: BTreeMap<u32, KernelTime>,
}

impl KernelTimes {
    /// The shares of these CPUs since the last look; none at the first, and none of a CPU that
    /// has gone.
    pub fn look(&mut self, tree: &Tree, cpus: &[u32]) -> Vec<KernelShare> {
        if self.threads.is_empty() {
            self.threads = threads(tree);
        }
        let now = times(tree, &self.threads);
        let shares = cpus.iter().enumerate().filter_map(|(worker, cpu)| {
            let (new, old) = (now.get(cpu)?, self.last.get(cpu)?);
            let total = new.total - old.total;
            let share = |part: f64| (part / total).clamp(0.0, 1.0);
            (total > 0.0).then(|| KernelShare {
                worker,
                cpu: *cpu,
                softirq_share: share(new.softirq - old.softirq),
                ksoftirqd_share: share(new.ksoftirqd - old.ksoftirqd),
            })
        });
        let shares = shares.collect();
        self.last = now;
        shares
    }
}

/// All CPUs' times (Documentation/filesystems/proc.rst, `/proc/stat`).
fn times(tree: &Tree, threads: &BTreeMap<u32, u32>) -> BTreeMap<u32, KernelTime> {
    let text = tree.text("/proc/stat").unwrap_or_default();
    let mut times = BTreeMap::new();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let cpu = words.next().and_then(|word| word.strip_prefix("cpu")?.parse().ok());
        let Some(cpu) = cpu else { continue };
        // user nice system idle iowait irq softirq steal; guest time is in user already.
        let ticks: Vec<f64> = words.take(8).filter_map(|word| word.parse().ok()).collect();
        let Some(softirq) = ticks.get(6) else { continue };
        let thread = threads.get(&cpu).and_then(|process| thread_ticks(tree, *process));
        times.insert(
            cpu,
            KernelTime {
                softirq: *softirq,
                ksoftirqd: thread.unwrap_or(0.0),
                total: ticks.iter().sum(),
            },
        );
    }
    times
}

/// Ticks of a process in user and kernel mode: fields 14 and 15 of its `stat`.
fn thread_ticks(tree: &Tree, process: u32) -> Option<f64> {
    let text = tree.text(format!("/proc/{process}/stat")).ok()?;
    // The name in brackets may hold anything; field 3 follows the last one.
    let (_, rest) = text.rsplit_once(')')?;
    let mut words = rest.split_whitespace().skip(11);
    let mut number = || words.next()?.parse::<f64>().ok();
    Some(number()? + number()?)
}

fn threads(tree: &Tree) -> BTreeMap<u32, u32> {
    let all = tree.numbered("/proc", "").into_iter();
    all.filter_map(|(process, _)| {
        let name = tree.text(format!("/proc/{process}/comm")).ok()?;
        Some((name.strip_prefix("ksoftirqd/")?.parse().ok()?, process))
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
        let text = format!("29 (ksoftirqd/3) x) S 2 0 0 0 -1 69238848 0 0 0 0 0 {thread} 0 0 20 0");
        std::fs::write(tree.path("/proc/29/stat"), text).unwrap();
    }

    #[test]
    fn shares_are_of_the_time_between_two_looks() {
        let root = tempfile::tempdir().unwrap();
        let tree = Tree::at(root.path());
        std::fs::create_dir_all(tree.path("/proc/29")).unwrap();
        std::fs::write(tree.path("/proc/29/comm"), "ksoftirqd/3\n").unwrap();
        stat(&tree, 0, 0);
        let mut times = KernelTimes::default();
        assert_eq!(times.look(&tree, &[3]), []);
        let text = "cpu3 1100 0 0 50 0 0 50 0 0 0\n";
        stat(&tree, 0, 30);
        std::fs::write(tree.path("/proc/stat"), text).unwrap();
        let [share] = times.look(&tree, &[3])[..] else { panic!("no share") };
        assert_eq!((share.worker, share.cpu), (0, 3));
        assert_eq!((share.softirq_share, share.ksoftirqd_share), (0.25, 0.15));
        // A CPU that has gone has none.
        std::fs::write(tree.path("/proc/stat"), "cpu0 1 1 1 1 1 1 1 1\n").unwrap();
        assert_eq!(times.look(&tree, &[3]), []);
    }
}
