//! Work of the CPUs, from `/proc/stat` and `/proc/net/softnet_stat`
//! (Documentation/filesystems/proc.rst; net/core/net-procfs.c, `softnet_seq_show`).

use super::text::Text;
use crate::workers::Work;
use wattline_linux::sysfs::Tree;
use wattline_units::{Span, Time};

/// Tick of `/proc/stat`: `USER_HZ` is 100 on every architecture that Wattline runs on.
const TICK: Span = Span::from_millis(10);
/// Longest time that ticks may be late: a counter that jumps never makes a CPU idle for longer.
const LATE: Span = Span::from_millis(100);
/// The column of `softnet_stat` with the CPU number.
const CPU_COLUMN: usize = 12;

/// Counters of some CPUs since the first look.
pub(crate) struct Cpus {
    stat: Text,
    softnet: Text,
    /// By core: its CPU, the last counters, and their sums.
    cores: Vec<Core>,
    looked: Option<Time>,
}

#[derive(Default)]
struct Core {
    cpu: u32,
    idle: Ticks,
    softirq_ticks: Ticks,
    softirq: Span,
    packets: Option<u32>,
    work: Work,
}

/// A counter of ticks. A tick may be longer than the time between two looks, so its remainder
/// counts at the next looks.
#[derive(Default)]
struct Ticks {
    last: Option<u64>,
    rest: Span,
}

impl Ticks {
    /// Returns the part of `passed` that new ticks cover. The counter may go back.
    fn covered(&mut self, now: u64, passed: Span) -> Span {
        let new = self.last.map_or(0, |last| now.saturating_sub(last));
        self.last = Some(now);
        let span = self.rest + TICK * new;
        let covered = span.min(passed);
        self.rest = (span - covered).min(LATE);
        covered
    }
}

impl Cpus {
    pub fn new(tree: &Tree, cpus: &[u32]) -> Self {
        let cores = cpus.iter().map(|&cpu| Core { cpu, ..Core::default() });
        Self {
            stat: Text::new(tree, "/proc/stat"),
            softnet: Text::new(tree, "/proc/net/softnet_stat"),
            cores: cores.collect(),
            looked: None,
        }
    }

    pub fn work(&self, core: usize) -> Work {
        self.cores.get(core).map(|core| core.work).unwrap_or_default()
    }

    /// Returns the time of a core in soft interrupts, `ksoftirqd` included, as far as ticks sampled
    /// it.
    pub fn softirq(&self, core: usize) -> Span {
        self.cores.get(core).map(|core| core.softirq).unwrap_or_default()
    }

    /// Adds the counts since the last look; the first call starts counting. Returns the time since
    /// then, or none within a tick, when nothing new would be found.
    pub fn look(&mut self, now: Time) -> Option<Span> {
        let passed = self.looked.map(|looked| now.since(looked));
        if passed.is_some_and(|passed| passed < TICK) {
            return None;
        }
        self.looked = Some(now);
        let passed = passed.unwrap_or(Span::ZERO);
        self.busy(passed);
        Some(passed)
    }

    /// Counts all time as busy that is not known to be idle: idle time is exact, but busy ticks get
    /// lost if a hypervisor takes the processor away or no tick comes.
    fn busy(&mut self, passed: Span) {
        let cores = &mut self.cores;
        let mut known = false;
        for line in self.stat.read().lines() {
            let Some(rest) = line.strip_prefix("cpu") else { break };
            known = true;
            let mut words = rest.split_ascii_whitespace();
            // The line of the sum has no number.
            let named = !rest.starts_with(' ');
            let Some(cpu) = words.next().and_then(|word| word.parse().ok()).filter(|_| named)
            else {
                continue;
            };
            let Some(core) = core_of(cores, cpu) else { continue };
            // user nice system idle iowait irq softirq
            let mut ticks = words.skip(3).map(|word| word.parse::<u64>().unwrap_or(0));
            let idle = ticks.next().unwrap_or(0).saturating_add(ticks.next().unwrap_or(0));
            if let Some(softirq) = ticks.nth(1) {
                core.softirq += core.softirq_ticks.covered(softirq, passed);
            }
            // Both counters may go back: iowait a little (see proc.rst), idle to zero when a CPU
            // comes back on line (Linux before 6.9).
            core.work.useful += passed - core.idle.covered(idle, passed);
        }
        if !known {
            // The times are unknown, which is no reason to slow down.
            cores.iter_mut().for_each(|core| core.work.useful += passed);
        }
    }

    /// Counts the packets that each core's CPU has taken.
    pub fn count_packets(&mut self) {
        let number = |word: &str| u32::from_str_radix(word, 16).ok();
        for line in self.softnet.read().lines() {
            let mut words = line.split_ascii_whitespace();
            let Some(packets) = words.next().and_then(number) else { continue };
            let Some(cpu) = words.nth(CPU_COLUMN - 1).and_then(number) else { continue };
            let Some(core) = core_of(&mut self.cores, cpu) else { continue };
            let new = core.packets.map_or(0, |last| packets.wrapping_sub(last));
            core.packets = Some(packets);
            core.work.packets += u64::from(new);
        }
    }
}

fn core_of(cores: &mut [Core], cpu: u32) -> Option<&mut Core> {
    // On most machines core n is CPU n.
    let straight = cores.get(cpu as usize).is_some_and(|core| core.cpu == cpu);
    if straight {
        return cores.get_mut(cpu as usize);
    }
    cores.iter_mut().find(|core| core.cpu == cpu)
}
