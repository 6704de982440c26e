//! A router whose XDP programs forward packets along with its workers.
//!
//! Such packets never reach a worker: the CPU that takes a queue's interrupts forwards them in its
//! soft interrupt. A policy therefore sees the sum of both for each core:
//!
//! | what | from |
//! |---|---|
//! | packets of a core, arrivals at its queues | the worker's count plus the programs' count on the core's CPU |
//! | busy time of a core | the worker's own, and the CPU's soft interrupts; at least the time in which the CPU was not idle and its worker did not poll in vain |
//! | fill of a queue | the worker's ring alone: the backlog in a driver is unknown |
//! | streaks | the kernel's polls of the ports' queues, for workers and programs |
//!
//! `/proc/stat` gives the times in ticks. Idle time is exact, so it serves as the second measure:
//! ticks miss short soft interrupts on a CPU that is mostly asleep.

use super::kernel_stack::cpus::Cpus;
use super::kernel_stack::polls::Polls;
use super::layout::Layout;
use super::workers::{Work, Workers};
use wattline_linux::sysfs::Tree;
use wattline_policy::{QueueView, Wait};
use wattline_units::{Span, Time};

/// Adds to each entry, indexed by CPU number, the frames that a port's program has forwarded there
/// so far; lengthens the list as needed. Returns false if the kernel does not provide the counts.
pub type Forwarded = Box<dyn FnMut(&mut Vec<u64>) -> bool + Send>;

/// Workers and the XDP programs that forward along with them.
pub struct BesideXdp {
    workers: Box<dyn Workers>,
    layout: Layout,
    /// By port.
    programs: Vec<Option<Forwarded>>,
    times: Cpus,
    /// CPUs with known times, in the order of `times`.
    cpus: Vec<u32>,
    cores: Vec<Core>,
    /// By port and core: frames forwarded since the start.
    forwarded: Vec<Vec<u64>>,
    /// By port: the last counts, by CPU.
    last: Vec<Option<Vec<u64>>>,
    /// True once frames on a CPU without a pinned worker have been reported.
    reported: bool,
    polls: Polls,
}

#[derive(Debug, Clone, Copy, Default)]
struct Core {
    /// Packets of its worker at the last look.
    packets: u64,
    /// Work of its worker at the last reading of times.
    worker: Work,
    /// Time in which its CPUs were not idle, and time in soft interrupts, at that reading.
    busy: Span,
    softirq: Span,
    work: Work,
}

impl BesideXdp {
    /// Creates the workers of a layout, with a program for each port that has one.
    pub fn new(
        tree: &Tree,
        layout: &Layout,
        workers: Box<dyn Workers>,
        programs: Vec<Option<Forwarded>>,
    ) -> Self {
        let cpus = match layout.cpus.is_empty() {
            false => layout.cpus.clone(),
            true => tree.cpus("/sys/devices/system/cpu/online").unwrap_or_else(|_| vec![0]),
        };
        let ports = layout.ports.len();
        let mut programs = programs;
        programs.resize_with(ports, || None);
        Self {
            workers,
            times: Cpus::new(tree, &cpus),
            cpus: cpus.clone(),
            cores: vec![Core::default(); layout.workers],
            forwarded: vec![vec![0; layout.workers]; ports],
            last: vec![None; ports],
            reported: false,
            programs,
            polls: Polls::new(tree, Layout { cpus, ..layout.clone() }),
            layout: layout.clone(),
        }
    }

    /// Also observes the polls of receive queues, if the kernel allows it and a policy asks for
    /// streaks.
    #[must_use]
    pub fn observing(mut self) -> Self {
        self.polls.allow();
        self
    }

    /// Returns the core that a CPU's frames count for, and true if it is the core's own CPU.
    fn core_of(&self, cpu: usize) -> (usize, bool) {
        let own = self.layout.cpus.iter().position(|own| *own as usize == cpu);
        let free = self.layout.cpus.is_empty();
        (own.unwrap_or(cpu % self.layout.workers.max(1)), own.is_some() || free)
    }

    /// Returns the core whose queue of a port shows the frames forwarded on this core: the core
    /// itself, or the first with a queue there.
    fn shown_at(&self, port: usize, core: usize) -> usize {
        let has_queue = |core: usize| self.layout.queues(port, core).next().is_some();
        if has_queue(core) {
            return core;
        }
        (0..self.layout.workers).find(|core| has_queue(*core)).unwrap_or(core)
    }

    fn count(&mut self) {
        for port in 0..self.programs.len() {
            let Some(program) = &mut self.programs[port] else { continue };
            let mut frames = Vec::new();
            if !program(&mut frames) {
                continue;
            }
            let before = self.last[port].take();
            for (cpu, now) in frames.iter().enumerate() {
                let last = before.as_ref().map_or(*now, |last| last.get(cpu).copied().unwrap_or(0));
                let new = now.saturating_sub(last);
                if new == 0 {
                    continue;
                }
                let (core, own) = self.core_of(cpu);
                if !own && !self.reported {
                    self.reported = true;
                    tracing::warn!(
                        "governor: XDP programs forward packets on CPU {cpu}, to which no worker is \
                         pinned ([router] cpus): the packets are counted for core {core}, their \
                         time is not counted, and the frequency of CPU {cpu} is not governed. Move \
                         the interrupts of its queues to CPUs of workers"
                    );
                }
                if let Some(core) = self.cores.get_mut(core) {
                    core.work.packets += new;
                }
                let at = self.shown_at(port, core);
                if let Some(sum) = self.forwarded[port].get_mut(at) {
                    *sum += new;
                }
            }
            self.last[port] = Some(frames);
        }
    }

    /// Returns the times of a core's CPUs: of its worker's CPU, or of the busiest if unpinned.
    fn times_of(&self, core: usize) -> (Span, Span) {
        if !self.layout.cpus.is_empty() {
            return (self.times.work(core).useful, self.times.softirq(core));
        }
        let own = (0..self.cpus.len()).filter(|at| self.core_of(self.cpus[*at] as usize).0 == core);
        own.fold((Span::ZERO, Span::ZERO), |(busy, softirq), at| {
            (busy.max(self.times.work(at).useful), softirq.max(self.times.softirq(at)))
        })
    }
}

impl Workers for BesideXdp {
    fn look(&mut self, now: Time) {
        self.workers.look(now);
        self.polls.look(now);
        self.count();
        let workers: Vec<Work> =
            (0..self.cores.len()).map(|core| self.workers.work(core)).collect();
        for (worker, core) in workers.iter().zip(&mut self.cores) {
            core.work.packets += worker.packets.saturating_sub(core.packets);
            core.packets = worker.packets;
        }
        let Some(passed) = self.times.look(now) else { return };
        let pinned = !self.layout.cpus.is_empty();
        let empties =
            workers.iter().zip(&self.cores).map(|(now, core)| now.empty - core.worker.empty);
        let all_empty = empties.fold(Span::ZERO, |sum, empty| sum + empty);
        for (number, worker) in workers.into_iter().enumerate() {
            let (busy, softirq) = self.times_of(number);
            let core = &mut self.cores[number];
            let useful = worker.useful - core.worker.useful;
            let empty = worker.empty - core.worker.empty;
            // A polling worker is not idle. Without pinning it may poll on any CPU.
            let in_vain = if pinned { empty } else { all_empty };
            let seen = (busy - core.busy).min(passed);
            let least = seen - in_vain.min(seen);
            let new = (useful + (softirq - core.softirq)).max(least).min(passed.max(useful));
            core.work.useful += new;
            core.work.empty += empty;
            core.work.sleeps = worker.sleeps;
            (core.worker, core.busy, core.softirq) = (worker, busy, softirq);
        }
    }

    fn work(&mut self, worker: usize) -> Work {
        self.cores.get(worker).map(|core| core.work).unwrap_or_default()
    }

    fn queue(&mut self, worker: usize, port: usize) -> QueueView {
        let mut seen = self.workers.queue(worker, port);
        let of_port = self.forwarded.get(port);
        seen.arrivals += of_port.and_then(|cores| cores.get(worker)).copied().unwrap_or(0);
        // The programs count frames only.
        seen.bytes = None;
        seen
    }

    fn polls(&mut self) -> Option<&mut Polls> {
        Some(&mut self.polls)
    }
    fn wake(&mut self, worker: usize) {
        self.workers.wake(worker);
    }
    fn park(&mut self, worker: usize) {
        self.workers.park(worker);
    }
    fn set_wait(&mut self, worker: usize, wait: Wait) -> Result<(), String> {
        self.workers.set_wait(worker, wait)
    }
    fn set_batch(&mut self, packets: u32) {
        self.workers.set_batch(packets);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Port;
    use std::sync::{Arc, Mutex};

    /// Workers that report the given figures.
    struct Scripted(Arc<Mutex<Vec<Work>>>);

    impl Workers for Scripted {
        fn work(&mut self, worker: usize) -> Work {
            self.0.lock().unwrap()[worker]
        }
        fn queue(&mut self, worker: usize, _port: usize) -> QueueView {
            let bytes = Some(5 * 64);
            QueueView { arrivals: 5, bytes, fill: worker as u32, ..QueueView::default() }
        }
        fn wake(&mut self, _worker: usize) {}
        fn park(&mut self, _worker: usize) {}
        fn set_wait(&mut self, _worker: usize, _wait: Wait) -> Result<(), String> {
            Ok(())
        }
        fn set_batch(&mut self, _packets: u32) {}
    }

    struct Bench {
        root: tempfile::TempDir,
        workers: Arc<Mutex<Vec<Work>>>,
        frames: Arc<Mutex<Vec<u64>>>,
        both: BesideXdp,
    }

    impl Bench {
        /// Creates two workers, a port with a program and four queues, and one without a program
        /// with one queue.
        fn new(cpus: &[u32]) -> Self {
            let root = tempfile::tempdir().unwrap();
            let online = root.path().join("sys/devices/system/cpu");
            std::fs::create_dir_all(&online).unwrap();
            std::fs::write(online.join("online"), "0-3\n").unwrap();
            std::fs::create_dir_all(root.path().join("proc")).unwrap();
            let tree = Tree::at(root.path());
            let port = |queues| Port { interface: Some("eth0".into()), queues, cores: Vec::new() };
            let ports = vec![port(4), port(1)];
            let layout = Layout { workers: 2, cpus: cpus.to_vec(), ports };
            let workers = Arc::new(Mutex::new(vec![Work::default(); 2]));
            let frames = Arc::new(Mutex::new(vec![100, 7, 0, 0]));
            let counted = Arc::clone(&frames);
            let program: Forwarded = Box::new(move |sum| {
                sum.resize(4, 0);
                sum.iter_mut().zip(&*counted.lock().unwrap()).for_each(|(sum, new)| *sum += new);
                true
            });
            let scripted = Box::new(Scripted(Arc::clone(&workers)));
            let both = BesideXdp::new(&tree, &layout, scripted, vec![Some(program)]);
            let mut bench = Self { root, workers, frames, both };
            bench.look(0, [[0, 0]; 4]);
            bench
        }

        /// Looks at the machine, with these idle and softirq ticks of each CPU.
        fn look(&mut self, millis: u64, cpus: [[u64; 2]; 4]) {
            let mut text = String::from("cpu 0 0 0 0 0 0 0 0\n");
            for (cpu, [idle, softirq]) in cpus.iter().enumerate() {
                text += &format!("cpu{cpu} 0 0 0 {idle} 0 0 {softirq} 0 0 0\n");
            }
            std::fs::write(self.root.path().join("proc/stat"), text).unwrap();
            self.both.look(Time::ZERO + Span::from_millis(millis));
        }
    }

    #[test]
    fn forwarded_frames_are_work_of_their_cpu() {
        let mut bench = Bench::new(&[2, 0]);
        assert_eq!(bench.both.work(1), Work::default(), "earlier work is not counted");
        *bench.frames.lock().unwrap() = vec![130, 7, 40, 0];
        bench.workers.lock().unwrap()[1].packets = 3;
        // CPU 2 slept all but 200 ms; ticks saw 60 ms of these in soft interrupts.
        bench.look(1000, [[100, 0], [100, 0], [80, 6], [100, 0]]);
        let (first, second) = (bench.both.work(0), bench.both.work(1));
        assert_eq!((first.packets, second.packets), (40, 33));
        assert_eq!((first.useful, second.useful), (Span::from_millis(200), Span::ZERO));
        assert_eq!((bench.both.queue(0, 0).arrivals, bench.both.queue(1, 0).arrivals), (45, 35));
        // The fill is the worker's.
        assert_eq!(bench.both.queue(0, 0).bytes, None, "programs do not count bytes");
        assert_eq!((bench.both.queue(1, 0).fill, bench.both.queue(0, 1).arrivals), (1, 5));
    }

    #[test]
    fn vain_polling_is_idle_and_its_soft_interrupts_are_work() {
        let mut bench = Bench::new(&[2, 0]);
        {
            let mut workers = bench.workers.lock().unwrap();
            workers[0].empty = Span::from_millis(1000);
            workers[1].useful = Span::from_millis(100);
            workers[1].empty = Span::from_millis(200);
        }
        // CPU 2 never slept; CPU 0 half of the time.
        bench.look(1000, [[50, 3], [0, 0], [0, 25], [0, 0]]);
        assert_eq!(bench.both.work(0).useful, Span::from_millis(250));
        assert_eq!(bench.both.work(1).useful, Span::from_millis(300), "not idle and not in vain");
        assert_eq!(bench.both.work(1).empty, Span::from_millis(200));
    }

    #[test]
    fn without_pinning_cpus_count_by_number_and_the_busiest_gives_the_load() {
        let mut bench = Bench::new(&[]);
        *bench.frames.lock().unwrap() = vec![101, 9, 4, 8];
        bench.look(1000, [[90, 0], [70, 0], [60, 0], [100, 0]]);
        assert_eq!((bench.both.work(0).packets, bench.both.work(1).packets), (5, 10));
        assert_eq!(bench.both.work(0).useful, Span::from_millis(400));
        assert_eq!(bench.both.work(1).useful, Span::from_millis(300));
    }

    /// A veth has one queue, and forwards on the CPU that sent to it.
    #[test]
    fn frames_on_a_core_without_a_queue_are_still_counted() {
        let mut bench = Bench::new(&[0, 1]);
        bench.both.layout.ports[0].queues = 1;
        *bench.frames.lock().unwrap() = vec![100, 27, 0, 2];
        bench.look(1000, [[100, 0]; 4]);
        assert_eq!(bench.both.queue(0, 0).arrivals, 27);
        // No core has CPU 3: its packets count, its time does not.
        assert_eq!((bench.both.work(1).packets, bench.both.work(0).packets), (22, 0));
    }
}
