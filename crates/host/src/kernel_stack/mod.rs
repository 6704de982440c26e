//! A machine whose packets the kernel's own network stack serves. No worker counts anything, so a
//! policy's view comes from the kernel.
//!
//! | what | from |
//! |---|---|
//! | busy time of a core | `/proc/stat`: the time that is neither idle nor iowait; its resolution is a tick, mostly 10 ms |
//! | packets that a core took | `/proc/net/softnet_stat`, first column: all that NAPI passed on there |
//! | arrivals at a queue | the driver's statistics by queue if available, otherwise the interface's |
//! | streaks | a program on the kernel's tracepoint ([`KernelStack::observing`]) |
//!
//! Rings show no fill: the kernel does not expose it. A policy can be asked at streaks of polls,
//! but not at batches ([`super::Scope::workers`]).

mod cards;
pub(crate) mod cpus;
pub(crate) mod polls;
mod text;

use super::layout::Layout;
use super::workers::{Work, Workers};
use cards::Card;
use cpus::Cpus;
use polls::Polls;
use wattline_linux::sysfs::Tree;
use wattline_policy::{QueueView, Wait};
use wattline_units::{Span, Time};

/// Minimum time between two readings of a card: some drivers read a hundred registers per answer.
const CARDS: Span = Span::from_millis(100);

/// The kernel's counters of some CPUs and of the queues of some interfaces.
pub struct KernelStack {
    cpus: Cpus,
    cards: Vec<Option<Card>>,
    layout: Layout,
    asked: Option<Time>,
    /// Time of the last look.
    looked: Time,
    polls: Polls,
}

impl KernelStack {
    /// Counts these CPUs and interfaces from now on. The second value names counters that are
    /// coarser than they should be, with the reasons.
    pub fn new(tree: &Tree, layout: &Layout) -> (Self, Vec<String>) {
        let mut notes = Vec::new();
        let cards = layout.ports.iter().map(|port| {
            let interface = port.interface.as_deref()?;
            let (card, note) = Card::open(tree, interface, port.queues);
            notes.extend(note);
            Some(card)
        });
        let cards = cards.collect();
        let cpus = Cpus::new(tree, &layout.cpus);
        let (layout, polls) = (layout.clone(), Polls::new(tree, layout.clone()));
        (Self { cpus, cards, layout, asked: None, looked: Time::ZERO, polls }, notes)
    }

    /// Also observes the polls of receive queues, if the kernel allows it and a policy asks for
    /// streaks.
    #[must_use]
    pub fn observing(mut self) -> Self {
        self.polls.allow();
        self
    }
}

impl Workers for KernelStack {
    fn look(&mut self, now: Time) {
        if self.cpus.look(now).is_some() {
            self.cpus.count_packets();
        }
        self.looked = now;
        self.polls.look(now);
        if self.asked.is_none_or(|asked| now.since(asked) >= CARDS) {
            self.asked = Some(now);
            self.cards.iter_mut().flatten().for_each(Card::look);
        }
    }

    fn work(&mut self, core: usize) -> Work {
        self.cpus.work(core)
    }

    /// Returns the queues of a card whose interrupts go to this core, as one.
    fn queue(&mut self, core: usize, port: usize) -> QueueView {
        let Some(Some(card)) = self.cards.get(port) else { return QueueView::default() };
        let age = self.asked.map_or(Span::ZERO, |asked| self.looked.since(asked));
        let mut sum = QueueView { age, ..QueueView::default() };
        for queue in self.layout.queues(port, core) {
            let (arrivals, drops) = card.queue(queue);
            sum.arrivals += arrivals;
            sum.drops += drops;
        }
        sum
    }

    fn wake(&mut self, _core: usize) {}

    fn park(&mut self, _core: usize) {}

    fn set_wait(&mut self, _core: usize, wait: Wait) -> Result<(), String> {
        match wait {
            Wait::Interrupt => Ok(()),
            _ => Err("the kernel's own stack waits for interrupts; nothing here polls".into()),
        }
    }

    fn set_batch(&mut self, _packets: u32) {}

    fn polls(&mut self) -> Option<&mut Polls> {
        Some(&mut self.polls)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Port;

    struct Machine {
        root: tempfile::TempDir,
        tree: Tree,
    }

    impl Machine {
        fn new() -> Self {
            let root = tempfile::tempdir().unwrap();
            let tree = Tree::at(root.path());
            let machine = Self { root, tree };
            machine.stat(0, 0);
            machine.softnet(0, 0);
            machine
        }
        fn write(&self, path: &str, text: &str) {
            let path = self.root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        /// Ticks that CPU 3 was busy, out of a thousand and so many idle ones.
        fn stat(&self, busy: u64, idle: u64) {
            let idle = 1000 + idle;
            self.write(
                "proc/stat",
                &format!("cpu 1 1 1 1\ncpu0 9 9 9 9 9 9 9 9\ncpu3 {busy} 0 0 {idle} 50 0 0 0 0 0\nintr 1\n"),
            );
        }
        /// Packets of CPU 0 and CPU 3.
        fn softnet(&self, zero: u32, three: u32) {
            let line = |cpu: u32, packets: u32| {
                format!("{packets:08x} 0 0 0 0 0 0 0 0 0 0 0 {cpu:08x} 0 0\n")
            };
            self.write("proc/net/softnet_stat", &(line(0, zero) + &line(3, three)));
        }
        fn layout(&self) -> Layout {
            let port = |name: &str, queues, cores: &[usize]| Port {
                interface: Some(name.into()),
                queues,
                cores: cores.to_vec(),
            };
            Layout {
                workers: 2,
                cpus: vec![0, 3],
                ports: vec![port("eth9", 3, &[1, 0, 1]), port("eth8", 2, &[0, 1])],
            }
        }
    }

    fn at(millis: u64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    #[test]
    fn cores_and_queues_are_counted_from_the_begin_on() {
        let machine = Machine::new();
        machine.write("ethtool/eth9/statistics", "rx_queue_0_packets 5\nrx_queue_1_packets 7\nrx_queue_2_packets 100\nrx_queue_2_drops 1\nrx_packets 112\n");
        machine.write("sys/class/net/eth8/statistics/rx_packets", "40\n");
        machine.write("sys/class/net/eth8/statistics/rx_missed_errors", "0\n");
        machine.softnet(1, u32::MAX - 1);
        let (mut kernel, notes) = KernelStack::new(&machine.tree, &machine.layout());
        assert!(notes.iter().any(|note| note.contains("eth8")), "{notes:?}");
        kernel.look(at(0));
        assert_eq!(kernel.work(1), Work::default());
        assert_eq!(kernel.queue(1, 0), QueueView::default());
        machine.stat(25, 75);
        // The counter has 32 bits.
        machine.softnet(11, 8);
        machine.write("ethtool/eth9/statistics", "rx_queue_0_packets 6\nrx_queue_1_packets 9\nrx_queue_2_packets 110\nrx_queue_2_drops 4\nrx_packets 125\n");
        machine.write("sys/class/net/eth8/statistics/rx_packets", "90\n");
        kernel.look(at(1000));
        let work = kernel.work(1);
        assert_eq!((work.useful, work.packets), (Span::from_millis(250), 10));
        // A hypervisor took the rest of the processor away: no idle time.
        machine.stat(26, 75);
        kernel.look(at(1100));
        assert_eq!(kernel.work(1).useful, Span::from_millis(350));
        assert_eq!(kernel.work(0).packets, 10);
        let seen = kernel.queue(1, 0);
        // Dropped packets had arrived, too.
        assert_eq!((seen.arrivals, seen.drops, seen.fill), (14, 3, 0));
        assert_eq!(kernel.queue(0, 0).arrivals, 2);
        // Not by queue: each queue shows its share, and no packet is lost.
        let shares = |kernel: &mut KernelStack| {
            [0, 1].map(|core| kernel.queue(core, 1)).map(|seen| (seen.arrivals, seen.drops))
        };
        assert_eq!(shares(&mut kernel), [(25, 0), (25, 0)]);
        machine.write("sys/class/net/eth8/statistics/rx_packets", "98\n");
        machine.write("sys/class/net/eth8/statistics/rx_missed_errors", "3\n");
        kernel.look(at(1200));
        assert_eq!(shares(&mut kernel), [(31, 2), (30, 1)]);
    }

    /// Streaks of polls call the governor far more often than ticks come.
    #[test]
    fn busy_time_does_not_depend_on_the_number_of_looks() {
        for millis in [1, 3, 7, 100] {
            let machine = Machine::new();
            let (mut kernel, _) = KernelStack::new(&machine.tree, &machine.layout());
            for now in (0..=2_100).step_by(millis) {
                machine.stat(now / 40, now * 3 / 40);
                kernel.look(at(now));
            }
            let busy = kernel.work(1).useful.as_seconds();
            assert!((busy / 2.1 - 0.25).abs() < 0.01, "every {millis} ms: {busy} s of 2.1 s");
        }
    }

    #[test]
    fn cards_are_not_asked_too_often_and_nothing_goes_back() {
        let machine = Machine::new();
        let packets = |count: u32| {
            machine.write("ethtool/eth9/statistics", &format!("rx_queue_0_packets {count}\n"));
        };
        packets(10);
        let (mut kernel, _) = KernelStack::new(&machine.tree, &machine.layout());
        kernel.look(at(0));
        packets(20);
        kernel.look(at(50));
        let counted = |kernel: &mut KernelStack| {
            let seen = kernel.queue(1, 0);
            (seen.arrivals, seen.age)
        };
        assert_eq!(counted(&mut kernel), (0, Span::from_millis(50)), "counts of the last look");
        kernel.look(at(120));
        assert_eq!(counted(&mut kernel), (10, Span::ZERO));
        // A reloaded driver counts from zero.
        packets(3);
        kernel.look(at(240));
        assert_eq!(kernel.queue(1, 0).arrivals, 10);
        packets(5);
        kernel.look(at(360));
        assert_eq!(kernel.queue(1, 0).arrivals, 12);
        std::fs::remove_file(machine.root.path().join("ethtool/eth9/statistics")).unwrap();
        std::fs::remove_file(machine.root.path().join("proc/stat")).unwrap();
        let before = kernel.work(1).useful;
        kernel.look(at(480));
        assert_eq!(kernel.queue(1, 0).arrivals, 12);
        assert_eq!(kernel.work(1).useful - before, Span::from_millis(120), "unknown is busy");
        assert!(kernel.set_wait(0, Wait::Poll).is_err());
    }
}
