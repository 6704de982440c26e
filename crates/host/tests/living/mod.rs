//! A recorded machine that lives: its files show at each look the values of a machine that obeys
//! the knobs, and its workers wait as commanded. The platform's writes are thus judged by their
//! effects.

use crate::common::CPUS;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use wattline_host::{Streak, Work, Workers};
use wattline_linux::sysfs::Tree;
use wattline_policy::{QueueEstimator, QueueView, Streaks, Wait, Waits};
use wattline_units::{Span, Time};

const WORKERS: usize = 2;
/// Packets per second, each of this many bytes.
const RATE: f64 = 200_000.0;
const BYTES: u64 = 64;
/// The work for a packet at the fastest frequency.
const SERVICE: Span = Span::from_nanos(1_000);

/// Commands to a worker, and its work.
#[derive(Clone, Copy)]
struct Worker {
    wait: Wait,
    parked: bool,
    work: Work,
    queue: QueueView,
    /// Fractions of a packet and of a sleep that are not whole yet.
    packets: f64,
    sleeps: f64,
    softirq: f64,
    idle: [f64; 3],
}

/// The machine, two workers and a card.
pub struct Living {
    tree: Tree,
    /// True if the card follows its table.
    obeys: bool,
    looked: Time,
    workers: [Worker; WORKERS],
    /// Most packets that its workers take at once.
    batch: Arc<AtomicU32>,
    /// By worker, with the arrivals that its estimator has counted.
    estimators: Vec<(Option<Streaks>, QueueEstimator, u64)>,
}

impl Living {
    /// Creates a machine with these files, which lack the values that change by themselves.
    pub fn new(tree: &Tree, obeys: bool) -> Self {
        let worker = Worker {
            wait: Wait::Interrupt,
            parked: false,
            work: Work::default(),
            queue: QueueView { bytes: Some(0), ..QueueView::default() },
            packets: 0.0,
            sleeps: 0.0,
            softirq: 0.0,
            idle: [0.0; 3],
        };
        let mut living = Self {
            tree: tree.clone(),
            obeys,
            looked: Time::ZERO,
            workers: [worker; WORKERS],
            batch: Arc::default(),
            estimators: (0..WORKERS).map(|_| (None, QueueEstimator::new(1), 0)).collect(),
        };
        living.show();
        living
    }

    /// Returns the shared count of packets that its workers take at once, for a witness.
    pub fn batch(&self) -> Arc<AtomicU32> {
        Arc::clone(&self.batch)
    }

    /// Returns the packets that a CPU has taken so far, as its XDP programs count them.
    pub fn packets(&self, cpu: usize) -> u64 {
        self.workers[cpu].work.packets
    }

    fn number(&self, path: &str) -> f64 {
        self.tree.text(path).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0.0)
    }

    /// Writes atomically: a reader must not find half of it.
    fn write(&self, path: &str, value: &str) {
        let path = self.tree.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let new = path.with_extension("new");
        fs::write(&new, format!("{value}\n")).unwrap();
        fs::rename(new, path).unwrap();
    }

    /// Returns the frequency chosen by the governors `userspace` and `performance`.
    fn kilohertz(&self, cpu: usize) -> f64 {
        let policy = format!("{CPUS}/cpufreq/policy{cpu}");
        let highest = self.number(&format!("{policy}/scaling_max_freq"));
        let userspace = self.tree.text(format!("{policy}/scaling_governor"));
        let wanted = self.number(&format!("{policy}/scaling_setspeed"));
        let chosen = userspace.is_ok_and(|governor| governor.trim() == "userspace");
        if chosen && wanted > 0.0 { wanted.min(highest) } else { highest }
    }

    /// Returns the deepest idle state that the CPU may enter.
    fn state(&self, cpu: usize) -> usize {
        let enabled =
            |state: &usize| self.number(&format!("{CPUS}/cpu{cpu}/cpuidle/state{state}/disable"));
        (0..3).rev().find(|state| enabled(state) == 0.0).unwrap_or(0)
    }

    /// Returns each worker's share of the table's entries.
    fn shares(&self) -> [f64; WORKERS] {
        if !self.obeys {
            return [0.5; WORKERS];
        }
        let table = self.tree.text("/ethtool/eth9/redirect-table").unwrap();
        let queues: Vec<usize> = table.split(',').map(|queue| queue.parse().unwrap()).collect();
        let of = |worker| queues.iter().filter(|queue| *queue % WORKERS == worker).count() as f64;
        [0, 1].map(|worker| of(worker) / queues.len() as f64)
    }

    fn pass(&mut self, passed: f64) {
        let (shares, micros) = (self.shares(), self.number("/ethtool/eth9/rx-usecs"));
        for (cpu, share) in shares.into_iter().enumerate() {
            let (kilohertz, state) = (self.kilohertz(cpu), self.state(cpu));
            let worker = &mut self.workers[cpu];
            worker.packets += share * RATE * passed;
            let packets = worker.packets.floor();
            worker.packets -= packets;
            worker.queue.arrivals += packets as u64;
            worker.queue.fill = packets as u32;
            worker.queue.bytes = worker.queue.bytes.map(|bytes| bytes + packets as u64 * BYTES);
            worker.work.packets += packets as u64;
            let useful = packets * SERVICE.as_seconds() * 3_300_000.0 / kilohertz;
            worker.work.useful += Span::from_seconds(useful);
            worker.softirq += useful;
            let rest = (passed - useful).max(0.0);
            let between = match worker.wait {
                Wait::Interrupt if packets > 0.0 => Some((passed / packets).max(micros * 1e-6)),
                _ if worker.parked => Some(passed.max(1e-6)),
                Wait::Interrupt => Some(passed.max(1e-6)),
                Wait::Sleep(span) => Some(span.as_seconds()),
                Wait::Poll | Wait::Pause => None,
            };
            let Some(between) = between else {
                worker.work.empty += Span::from_seconds(rest);
                continue;
            };
            worker.sleeps += rest / between;
            worker.work.sleeps = worker.sleeps as u64;
            worker.idle[state] += rest;
        }
    }

    /// Writes the files that change by themselves.
    fn show(&mut self) {
        let mut stat = "cpu 0 0 0 0 0 0 0\n".to_owned();
        let (mut queues, mut taken) = (String::new(), String::new());
        for (cpu, worker) in self.workers.iter().enumerate() {
            let folder = format!("{CPUS}/cpu{cpu}");
            let kilohertz = format!("{:.0}", self.kilohertz(cpu));
            self.write(&format!("{folder}/cpufreq/scaling_cur_freq"), &kilohertz);
            for (state, seconds) in worker.idle.iter().enumerate() {
                let micros = format!("{:.0}", 1e6 + seconds * 1e6);
                self.write(&format!("{folder}/cpuidle/state{state}/time"), &micros);
            }
            let idle: f64 = worker.idle.iter().sum();
            let [idle, softirq] = [idle, worker.softirq].map(|seconds| 50.0 + seconds * 100.0);
            stat += &format!("cpu{cpu} 0 0 0 {idle:.0} 0 0 {softirq:.0} 0 0 0\n");
            let packets = worker.work.packets;
            queues += &format!("rx_queue_{cpu}_packets {packets}\n");
            taken += &format!("{packets:08x}{}{cpu:08x} 0 0\n", " 0".repeat(11) + " ");
        }
        self.write("/proc/stat", stat.trim_end());
        self.write("/ethtool/eth9/statistics", queues.trim_end());
        self.write("/proc/net/softnet_stat", taken.trim_end());
    }
}

impl Workers for Living {
    fn look(&mut self, now: Time) {
        let passed = now.since(self.looked).as_seconds();
        self.looked = now;
        self.pass(passed);
        self.show();
    }
    fn work(&mut self, worker: usize) -> Work {
        self.workers[worker].work
    }
    fn queue(&mut self, worker: usize, _port: usize) -> QueueView {
        self.workers[worker].queue
    }
    fn wake(&mut self, worker: usize) {
        self.workers[worker].parked = false;
    }
    fn park(&mut self, worker: usize) {
        self.workers[worker].parked = true;
    }
    fn waits(&self) -> Waits {
        Waits::ALL
    }
    fn count_bytes(&self) -> bool {
        true
    }
    fn set_wait(&mut self, worker: usize, wait: Wait) -> Result<(), String> {
        self.workers[worker].wait = wait;
        Ok(())
    }
    fn count_streaks(&mut self) -> bool {
        true
    }
    fn watch(&mut self, worker: usize, streaks: Option<Streaks>) {
        let (asked, estimator, _) = &mut self.estimators[worker];
        *asked = streaks;
        if let Some(streaks) = streaks {
            estimator.start(self.looked, streaks.rule);
        }
    }
    fn streak(&mut self, now: Time, worker: usize) -> Option<Streak> {
        self.look(now);
        let queue = self.workers[worker].queue;
        let (streaks, estimator, seen) = &mut self.estimators[worker];
        if std::mem::replace(seen, queue.arrivals) == queue.arrivals {
            return None;
        }
        let above = estimator.batch(now, 0, queue.fill.max(1), queue.fill.max(1))?;
        streaks.as_ref()?.asks(above).then_some(Streak { port: 0, above })
    }
    /// Packets arrive at equal distances.
    fn silent_for(&mut self, worker: usize) -> Span {
        let rate = self.shares()[worker] * RATE;
        Span::from_seconds(if rate > 0.0 { 1.0 / rate } else { 1.0 })
    }
    fn set_batch(&mut self, packets: u32) {
        self.batch.store(packets, Ordering::Relaxed);
    }
}
