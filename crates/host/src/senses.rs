//! Kernel counters of the workers' CPUs: time in idle states, time in soft interrupts, and the
//! present frequency.
//!
//! A separate thread reads them, on request only: a driver that hangs must not delay the governor,
//! and an unobserved machine must not be woken.

use super::layout::Layout;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use wattline_linux::sysfs::Tree;
use wattline_policy::{CoreView, IdleState, MAX_IDLE_STATES};
use wattline_units::{Hertz, Span, Time};

/// Period of reading; the kernel's own tick is 1 to 10 ms.
const PERIOD: Span = Span::from_millis(10);
/// Age after which figures are outdated.
const STALE: Span = Span::from_millis(3_000);
/// A tick of `/proc/stat` (`USER_HZ`, 100 on all architectures that Wattline runs on).
const TICK: Span = Span::from_millis(10);

/// Counters of one CPU since boot.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    residency: Option<[Span; MAX_IDLE_STATES]>,
    softirq: Option<Span>,
    frequency: Option<Hertz>,
}

/// Files of the counters.
#[derive(Debug, Clone)]
struct Files {
    tree: Tree,
    cpus: Vec<Cpu>,
}

#[derive(Debug, Clone)]
struct Cpu {
    number: u32,
    /// By the state's index in the platform's list.
    states: Vec<(usize, String)>,
}

/// Latest counters of the workers' CPUs.
pub(super) struct Senses {
    first: Vec<Counts>,
    latest: Arc<Mutex<(Vec<Counts>, Time)>>,
    ask: Option<SyncSender<Time>>,
    asked: Time,
}

impl Senses {
    /// Creates the senses of the workers' CPUs, with the idle states that a policy is shown.
    pub fn find(tree: &Tree, layout: &Layout, offered: &[IdleState]) -> Self {
        let cpu = |&number: &u32| Cpu { number, states: states(tree, number, offered) };
        let cpus = layout.cpus.iter().map(cpu).collect();
        let files = Files { tree: tree.clone(), cpus };
        let first = files.read();
        let latest = Arc::new(Mutex::new((first.clone(), Time::ZERO)));
        let mut senses = Self { first, latest, ask: None, asked: Time::ZERO };
        if senses.residency() || senses.softirq() || senses.frequency() {
            let (ask, asked) = sync_channel(1);
            let latest = Arc::clone(&senses.latest);
            let read = move || read_when_asked(&files, &asked, &latest);
            match std::thread::Builder::new().name("senses".into()).spawn(read) {
                Ok(_) => senses.ask = Some(ask),
                Err(error) => {
                    tracing::warn!(
                        "governor: cannot start the thread that reads CPU counters: {error}"
                    );
                    senses.first.clear();
                }
            }
        }
        senses
    }

    fn all(&self, has: fn(&Counts) -> bool) -> bool {
        !self.first.is_empty() && self.first.iter().all(has)
    }

    /// Returns true if the time in each idle state is known.
    pub fn residency(&self) -> bool {
        self.all(|counts| counts.residency.is_some())
    }

    /// Returns true if the time in soft interrupts is known.
    pub fn softirq(&self) -> bool {
        self.all(|counts| counts.softirq.is_some())
    }

    /// Returns true if the actual frequency is known.
    pub fn frequency(&self) -> bool {
        self.all(|counts| counts.frequency.is_some())
    }

    /// Puts the latest figures into the views of the cores, and requests a new reading if they are
    /// older than [`PERIOD`].
    pub fn show(&mut self, now: Time, views: &mut [CoreView]) {
        let Some(ask) = &self.ask else { return };
        if now.since(self.asked) >= PERIOD || self.asked == Time::ZERO {
            // A full channel: the reader is still busy, or hangs.
            match ask.try_send(now) {
                Ok(()) => self.asked = now,
                Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {}
            }
        }
        let latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        let (counts, at) = &*latest;
        let fresh = now.since(*at) < STALE;
        for ((view, counts), first) in views.iter_mut().zip(counts).zip(&self.first) {
            view.frequency = counts.frequency.filter(|_| fresh);
            let since = |now: Span, then: Span| now - then;
            view.softirq = counts.softirq.zip(first.softirq).map(|(n, f)| since(n, f));
            view.residency = counts.residency.zip(first.residency).map(|(now, first)| {
                let mut spent = [Span::ZERO; MAX_IDLE_STATES];
                let both = now.iter().zip(first);
                spent.iter_mut().zip(both).for_each(|(spent, (n, f))| *spent = since(*n, f));
                spent
            });
        }
    }
}

/// Returns the files with a CPU's time in the idle states that a policy is shown.
fn states(tree: &Tree, cpu: u32, offered: &[IdleState]) -> Vec<(usize, String)> {
    let directory = format!("/sys/devices/system/cpu/cpu{cpu}/cpuidle");
    let found = tree.numbered(&directory, "state").into_iter();
    let found = found.filter_map(|(_, state)| {
        let name = tree.text(format!("{directory}/{state}/name")).ok()?;
        let micros = tree.number(format!("{directory}/{state}/latency")).ok();
        let latency = micros.map(Span::from_micros);
        // CPUs may have states with the same name and different latencies.
        let exact = |one: &IdleState| one.name == name && Some(one.exit_latency) == latency;
        let named = || offered.iter().position(|offered| offered.name == name);
        let index = offered.iter().position(exact).or_else(named)?;
        (index < MAX_IDLE_STATES).then(|| (index, format!("{directory}/{state}/time")))
    });
    found.collect()
}

impl Files {
    fn read(&self) -> Vec<Counts> {
        let stat = self.tree.text("/proc/stat").unwrap_or_default();
        self.cpus.iter().map(|cpu| self.read_cpu(cpu, &stat)).collect()
    }

    fn read_cpu(&self, cpu: &Cpu, stat: &str) -> Counts {
        let mut residency = (!cpu.states.is_empty()).then_some([Span::ZERO; MAX_IDLE_STATES]);
        for (index, file) in &cpu.states {
            let micros = self.tree.number::<u64>(file).ok();
            residency = residency.zip(micros).map(|(mut spent, micros)| {
                spent[*index] = Span::from_micros(micros);
                spent
            });
        }
        let file = format!("/sys/devices/system/cpu/cpu{}/cpufreq/scaling_cur_freq", cpu.number);
        let kilohertz = self.tree.number::<u64>(file).ok().filter(|kilohertz| *kilohertz > 0);
        let frequency = kilohertz.map(|kilohertz| Hertz(kilohertz as f64 * 1e3));
        Counts { residency, softirq: softirq(stat, cpu.number), frequency }
    }
}

/// Returns the seventh figure of a CPU's line (Documentation/filesystems/proc.rst).
fn softirq(stat: &str, cpu: u32) -> Option<Span> {
    let name = format!("cpu{cpu}");
    let line = stat.lines().find(|line| line.split_whitespace().next() == Some(&name))?;
    let ticks: u64 = line.split_whitespace().nth(7)?.parse().ok()?;
    Some(TICK * ticks)
}

/// Reads on each request until the requester is gone.
fn read_when_asked(files: &Files, asked: &Receiver<Time>, latest: &Mutex<(Vec<Counts>, Time)>) {
    while let Ok(now) = asked.recv() {
        let counts = files.read();
        *latest.lock().unwrap_or_else(PoisonError::into_inner) = (counts, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn softirq_column_is_found_and_never_guessed() {
        let stat =
            "cpu  1 2 3 4 5 6 7 8\ncpu1 1 2 3 4 5 6 70 8 9 10\ncpu11 0 0 0 0 0 0 9\ncpu2 1 2\n";
        assert_eq!(softirq(stat, 1), Some(Span::from_millis(700)));
        assert_eq!(softirq(stat, 11), Some(Span::from_millis(90)));
        assert_eq!((softirq(stat, 2), softirq(stat, 3)), (None, None));
    }
}
