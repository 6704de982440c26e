//! Polls of receive queues by the kernel (NAPI), counted by programs on its tracepoints.
//!
//! `napi:napi_poll` reports each poll with its instance, the packets that it took, and its budget
//! (Documentation/networking/napi.rst). The program is `bpf/napi_poll.bpf.c`. It sees all network
//! namespaces.

use crate::bpf::{BpfError, Link, Map, Object, Program, Ring, object, possible_cpus};
use rustix::fd::{AsFd, BorrowedFd};
use std::collections::BTreeMap;

/// Number of CPUs that a rule can name, from 0 on. This and the following as in
/// `bpf/napi_poll.bpf.c`.
pub const CPUS_MAX: u32 = 1024;
const RING_BYTES: u32 = 1 << 16;
/// Numbers of 64 bits in `struct core` and `struct instance`.
const CORE_WORDS: usize = 8;
const INSTANCE_WORDS: usize = 11;
const INDEX: [u8; 4] = [0; 4];

/// Rule by which the program counts streaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PollRule {
    /// Time at which it begins, in nanoseconds of the monotonic clock.
    pub since: u64,
    /// Nanoseconds between two samples; 0 for a sample at each poll.
    pub look: u64,
    /// Nanoseconds without a sample after which all counters of a CPU restart; 0 for never.
    pub silence: u64,
    /// Samples with more packets.
    pub above: PollLevel,
    /// Samples with fewer packets.
    pub below: PollLevel,
    /// True if the end of a streak restarts the counters of its instance only.
    pub own: bool,
    /// CPUs that count, below [`CPUS_MAX`].
    pub cpus: Vec<u32>,
    /// Instances whose streaks are counted.
    pub instances: Vec<InstanceId>,
}

/// A level of a [`PollRule`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PollLevel {
    /// Packets of a poll.
    pub packets: u32,
    /// More samples in a row than this are a streak.
    pub samples: u32,
    /// Most polls for which a sample counts.
    pub worth: u32,
    /// True if the end of such a streak is reported.
    pub reported: bool,
}

impl PollRule {
    /// `struct rule`
    fn encode(&self) -> Vec<u8> {
        let mut cpus = [0_u64; CPUS_MAX as usize / 64];
        for cpu in self.cpus.iter().filter(|cpu| **cpu < CPUS_MAX) {
            cpus[*cpu as usize / 64] |= 1 << (cpu % 64);
        }
        let Self { above, below, .. } = self;
        let levels = [above.packets, above.samples, below.packets, below.samples];
        let reported = [above.reported, below.reported].map(u32::from);
        let worth = [above.worth, below.worth];
        let times = [self.since, self.look, self.silence];
        let words = [&levels[..], &reported, &worth, &[self.own.into(), 0]].concat();
        let mut bytes: Vec<u8> = times.iter().flat_map(|time| time.to_ne_bytes()).collect();
        bytes.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        bytes.extend(cpus.iter().flat_map(|word| word.to_ne_bytes()));
        bytes
    }
}

/// A NAPI instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InstanceId {
    /// Its number, unique on the machine; 0 for instances without a number, which processes cannot
    /// poll: transmit instances of some drivers, tunnels, and the backlog of each CPU.
    pub napi: u32,
    /// The interface of an instance without a number; 0 for a backlog, which has no interface.
    pub ifindex: u32,
}

impl InstanceId {
    /// `struct key`
    fn key(self) -> Vec<u8> {
        [self.napi.to_ne_bytes(), self.ifindex.to_ne_bytes()].concat()
    }
}

/// Counts of an instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolledInstance {
    /// The instance.
    pub id: InstanceId,
    /// Its interface when it was first seen; 0 for none.
    pub ifindex: u32,
    /// Network namespace number of the interface at that time.
    pub namespace: u32,
    /// By CPU.
    pub cpus: Vec<PollCounts>,
}

/// Counts of an instance on one CPU, since the start of the observer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PollCounts {
    /// Polls.
    pub polls: u64,
    /// Packets that they reported.
    pub packets: u64,
    /// Polls that used up their budget.
    pub full: u64,
}

/// Counts of a CPU, since the start of the observer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PollingCore {
    /// Time of the last sample under a rule with `silence` or `look`, in nanoseconds of the
    /// monotonic clock.
    pub last: u64,
    /// Ends of streaks for which the ring had no room.
    pub lost: u64,
    /// Polls of instances for which the table had no room.
    pub unlisted: u64,
}

/// End of a streak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreakEnd {
    /// Nanoseconds of the monotonic clock.
    pub time: u64,
    /// The instance.
    pub id: InstanceId,
    /// The CPU that polled it.
    pub cpu: u32,
    /// True if it was above the upper level, false if below the lower one.
    pub above: bool,
}

/// The maps of the programs.
#[derive(Debug)]
struct Counters {
    instances: Map,
    cores: Map,
    rules: Map,
    counting: Map,
    state: Map,
    ring: Ring,
    generation: u32,
}

impl Counters {
    fn new(object: &Object) -> Result<Self, BpfError> {
        Ok(Self {
            instances: object.create_with_entries("wl_instances", cpus())?,
            cores: object.create_with_entries("wl_cores", cpus())?,
            rules: object.create("wl_rules")?,
            counting: object.create("wl_counting")?,
            state: object.create(".data.polls")?,
            ring: Ring::new("wl_streaks", RING_BYTES)?,
            generation: 0,
        })
    }

    fn all(&self) -> [&Map; 6] {
        let Self { instances, cores, rules, counting, state, .. } = self;
        [instances, cores, rules, counting, state, self.ring.map()]
    }

    fn set_rule(&mut self, rule: Option<&PollRule>) -> Result<(), BpfError> {
        let mut next = 0;
        if let Some(rule) = rule {
            // 0 is none.
            next = self.generation.wrapping_add(1).max(1);
            let wanted: Vec<Vec<u8>> = rule.instances.iter().map(|id| id.key()).collect();
            for key in self.counting.keys()?.iter().filter(|key| !wanted.contains(key)) {
                self.counting.remove(key)?;
            }
            for key in &wanted {
                self.counting.set(key, &INDEX)?;
            }
            self.rules.set(&(next & 1).to_ne_bytes(), &rule.encode())?;
            self.generation = next;
        }
        self.state.set(&INDEX, &next.to_ne_bytes())
    }

    fn ends(&mut self, mut with: impl FnMut(StreakEnd)) -> usize {
        let mut count = 0;
        let generation = self.generation;
        self.ring.read(RING_BYTES as usize, |record| {
            if let Some(end) = parse(record, generation) {
                with(end);
                count += 1;
            }
        });
        count
    }
}

/// Parses a `struct event`; `None` if it is of an earlier rule.
fn parse(record: &[u8], generation: u32) -> Option<StreakEnd> {
    let (time, rest) = record.split_first_chunk()?;
    let (words, _) = rest.as_chunks();
    let [napi, ifindex, cpu, above, of, ..] = *words else { return None };
    let word = u32::from_ne_bytes;
    (word(of) == generation).then(|| StreakEnd {
        time: u64::from_ne_bytes(*time),
        id: InstanceId { napi: word(napi), ifindex: word(ifindex) },
        cpu: word(cpu),
        above: word(above) != 0,
    })
}

/// The program on its tracepoint, until dropped.
#[derive(Debug)]
pub struct Polls {
    counters: Counters,
    _link: Link,
}

impl Polls {
    /// Begins to count. Other programs on the same tracepoint are not affected.
    ///
    /// # Errors
    /// Without CAP_BPF and CAP_PERFMON, type information of the kernel (CONFIG_DEBUG_INFO_BTF) or
    /// the tracepoint.
    pub fn observe() -> Result<Self, BpfError> {
        let object = object!("napi_poll")?;
        let counters = Counters::new(&object)?;
        let program = object.load_at("napi_poll", &counters.all())?;
        let _link = program.attach_tracepoint(c"napi_poll")?;
        Ok(Self { counters, _link })
    }

    /// Counts streaks by another rule from now on, or none. Unread ends of streaks under the
    /// previous rule are dropped.
    ///
    /// # Errors
    /// E2BIG for more than 1024 instances.
    pub fn set_rule(&mut self, rule: Option<&PollRule>) -> Result<(), BpfError> {
        self.counters.set_rule(rule)
    }

    /// Passes the ends of streaks since the last call to `with`, and returns their number.
    pub fn ends(&mut self, with: impl FnMut(StreakEnd)) -> usize {
        self.counters.ends(with)
    }

    /// Returns the counts of all instances that were polled since the start, by number.
    ///
    /// # Errors
    /// Only from the kernel.
    pub fn instances(&self) -> Result<Vec<PolledInstance>, BpfError> {
        let mut found = BTreeMap::new();
        for cpu in 0..cpus() {
            let values = self.counters.instances.get(&cpu.to_ne_bytes())?.unwrap_or_default();
            for value in values.chunks_exact(INSTANCE_WORDS * 8) {
                let [polls, key, packets, full, .., first] = words::<INSTANCE_WORDS>(value);
                if polls == 0 {
                    continue;
                }
                let ((napi, of), (ifindex, namespace)) = (halves(key), halves(first));
                let id = InstanceId { napi, ifindex: of };
                let cpus = vec![PollCounts::default(); cpus() as usize];
                let instance = PolledInstance { id, ifindex, namespace, cpus };
                let instance = found.entry(id).or_insert(instance);
                if let Some(counts) = instance.cpus.get_mut(cpu as usize) {
                    *counts = PollCounts { polls, packets, full };
                }
            }
        }
        Ok(found.into_values().collect())
    }

    /// Returns all CPUs, by number.
    ///
    /// # Errors
    /// Only from the kernel.
    pub fn cores(&self) -> Result<Vec<PollingCore>, BpfError> {
        let core = |value: &[u8]| {
            let [last, lost, unlisted] = words(value);
            PollingCore { last, lost, unlisted }
        };
        Ok(self.counters.cores.get_all()?.chunks_exact(CORE_WORDS * 8).map(core).collect())
    }
}

impl AsFd for Polls {
    /// The descriptor is readable from the end of a streak until [`Polls::ends`] has taken it.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.counters.ring.as_fd()
    }
}

/// Returns the first words of a value.
fn words<const N: usize>(value: &[u8]) -> [u64; N] {
    let mut words = [0; N];
    let (chunks, _) = value.as_chunks();
    words.iter_mut().zip(chunks).for_each(|(word, bytes)| *word = u64::from_ne_bytes(*bytes));
    words
}

/// Splits a word into two numbers of 32 bits, the lower half first: programs are little-endian.
fn halves(word: u64) -> (u32, u32) {
    (word as u32, (word >> 32) as u32)
}

/// Returns the number of possible CPUs of this kernel.
fn cpus() -> u32 {
    possible_cpus() as u32
}

/// The program's estimator for tests: polls and their times are given, and nothing is attached.
#[derive(Debug)]
pub struct Rehearsal {
    counters: Counters,
    program: Program,
}

impl Rehearsal {
    /// Loads the program under a rule.
    ///
    /// # Errors
    /// As [`Polls::observe`].
    pub fn new(rule: &PollRule) -> Result<Self, BpfError> {
        let mut object = object!("napi_poll")?;
        object.set(&[("rehearsal", &1_u32.to_ne_bytes())])?;
        let mut counters = Counters::new(&object)?;
        counters.set_rule(Some(rule))?;
        let program = object.load(&counters.all())?;
        Ok(Self { counters, program })
    }

    /// Changes the rule.
    ///
    /// # Errors
    /// Only from the kernel.
    pub fn set_rule(&mut self, rule: &PollRule) -> Result<(), BpfError> {
        self.counters.set_rule(Some(rule))
    }

    /// Runs the program for a poll of an instance at `time` on a CPU with `work` packets, and
    /// returns the end of a streak, if any.
    ///
    /// # Errors
    /// While the CPU is offline.
    pub fn poll(
        &mut self,
        cpu: u32,
        time: u64,
        napi: u32,
        work: u32,
    ) -> Result<Option<StreakEnd>, BpfError> {
        const BUDGET: u64 = 64;
        self.program.test_tracepoint(cpu, &[napi.into(), work.into(), BUDGET, time])?;
        let mut found = None;
        self.counters.ends(|end| found = Some(end));
        Ok(found)
    }
}
