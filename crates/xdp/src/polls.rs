//! Polls of receive queues by the kernel (NAPI), counted by programs on its tracepoints.
//!
//! `napi:napi_poll` reports each poll with its instance, the packets that it took, and its budget;
//! `irq:softirq_entry` and `_exit` give the time in soft interrupts for received packets, those of
//! `ksoftirqd` included (Documentation/networking/napi.rst). The programs are `bpf/napi_poll.bpf.c`,
//! `softirq_entry` and `softirq_exit`. They see all network namespaces.

use crate::bpf::{BpfError, Link, Map, Object, Program, Ring, object};
use rustix::fd::{AsFd, BorrowedFd};

/// CPUs that a rule can name, from 0 on; as in `bpf/napi_poll.bpf.c`, like all that follows.
pub const CPUS_MAX: u32 = 1024;
const RING_BYTES: u32 = 1 << 16;
/// Numbers of 64 bits in `struct core` and `struct instance`.
const CORE_WORDS: usize = 11;
const INSTANCE_WORDS: usize = 11;
const INDEX: [u8; 4] = [0; 4];

/// Rule by which streaks are counted, in the words of the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PollRule {
    /// Time at which it begins, in nanoseconds of the monotonic clock.
    pub since: u64,
    /// Nanoseconds between two samples; 0 for a sample at each poll.
    pub look: u64,
    /// Nanoseconds without a sample after which all counters of a CPU start anew; 0 for never.
    pub silence: u64,
    /// Samples with more packets.
    pub above: PollLevel,
    /// Samples with fewer packets.
    pub below: PollLevel,
    /// Whether the end of a streak starts the counters of its instance alone anew.
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
    /// Most polls that a sample counts for.
    pub worth: u32,
    /// Whether the end of such a streak is reported.
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
    /// Its number, of the whole machine; 0 for those that have none: they cannot be polled by
    /// processes, as the transmit instances of some drivers, tunnels, and the backlog of each CPU.
    pub napi: u32,
    /// The interface of an instance without a number; 0 for a backlog, which has none.
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
    /// Number of the network namespace of the interface then.
    pub namespace: u32,
    /// By CPU.
    pub cpus: Vec<PollCounts>,
}

/// Counts of an instance on one CPU, since the observer began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PollCounts {
    /// Polls.
    pub polls: u64,
    /// Packets that they reported.
    pub packets: u64,
    /// Polls that used up their budget.
    pub full: u64,
    /// Polls outside soft interrupts: by a thread of the instance, or by a process.
    pub outside: u64,
}

/// Counts of a CPU, since the observer began; times in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PollingCore {
    /// Time in soft interrupts for received packets that took packets.
    pub useful: u64,
    /// Time in those that found none.
    pub empty: u64,
    /// Soft interrupts for received packets.
    pub runs: u64,
    /// Packets of all polls, those outside soft interrupts included.
    pub packets: u64,
    /// Time of the last sample under a rule with a silence or a look, of the monotonic clock.
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
    /// Whether it was above the upper level; else below the lower one.
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
            instances: object.create("wl_instances")?,
            cores: object.create("wl_cores")?,
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

/// `struct event`; none for one under an earlier rule.
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

/// The programs on their tracepoints, until dropped.
#[derive(Debug)]
pub struct Polls {
    counters: Counters,
    _links: [Link; 3],
}

impl Polls {
    /// Begins to count. Other programs on the same tracepoints are not disturbed.
    ///
    /// # Errors
    /// Without CAP_BPF and CAP_PERFMON; without type information of the kernel
    /// (CONFIG_DEBUG_INFO_BTF) or one of the tracepoints.
    pub fn observe() -> Result<Self, BpfError> {
        let poll = object!("napi_poll")?;
        let counters = Counters::new(&poll)?;
        let maps = counters.all();
        let exit = object!("softirq_exit")?.load(&maps)?.attach_tracepoint(c"softirq_exit")?;
        let entry = object!("softirq_entry")?.load(&maps)?.attach_tracepoint(c"softirq_entry")?;
        let poll = poll.load(&maps)?.attach_tracepoint(c"napi_poll")?;
        Ok(Self { counters, _links: [exit, entry, poll] })
    }

    /// Counts streaks by another rule from now on, or none. Unread ends of streaks under the rule
    /// before are dropped.
    ///
    /// # Errors
    /// E2BIG for more than 1024 instances.
    pub fn set_rule(&mut self, rule: Option<&PollRule>) -> Result<(), BpfError> {
        self.counters.set_rule(rule)
    }

    /// Hands over the ends of streaks since the last call, and returns their number.
    pub fn ends(&mut self, with: impl FnMut(StreakEnd)) -> usize {
        self.counters.ends(with)
    }

    /// Returns the counts of all instances that were polled since the begin.
    ///
    /// # Errors
    /// Only from the kernel.
    pub fn instances(&self) -> Result<Vec<PolledInstance>, BpfError> {
        let instances = &self.counters.instances;
        let mut found = Vec::new();
        for key in instances.keys()? {
            // It may have been forgotten meanwhile.
            let Some(values) = instances.get(&key)? else { continue };
            found.push(instance(&key, &values));
        }
        Ok(found)
    }

    /// Drops the counts of an instance that is gone.
    ///
    /// # Errors
    /// Only from the kernel.
    pub fn forget(&self, id: InstanceId) -> Result<(), BpfError> {
        self.counters.instances.remove(&id.key()).map(|_| ())
    }

    /// Returns the counts of all CPUs, by number.
    ///
    /// # Errors
    /// Only from the kernel.
    pub fn cores(&self) -> Result<Vec<PollingCore>, BpfError> {
        let values = self.counters.cores.get(&INDEX)?.unwrap_or_default();
        let core = |value: &[u8]| {
            let [.., useful, empty, runs, packets, last, lost, unlisted] =
                words::<{ CORE_WORDS - 2 }>(value);
            PollingCore { useful, empty, runs, packets, last, lost, unlisted }
        };
        Ok(values.chunks_exact(CORE_WORDS * 8).map(core).collect())
    }
}

impl AsFd for Polls {
    /// Readable at the end of a streak, until [`Polls::ends`] has taken it.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.counters.ring.as_fd()
    }
}

/// The first words of a value.
fn words<const N: usize>(value: &[u8]) -> [u64; N] {
    let mut words = [0; N];
    let (chunks, _) = value.as_chunks();
    words.iter_mut().zip(chunks).for_each(|(word, bytes)| *word = u64::from_ne_bytes(*bytes));
    words
}

fn instance(key: &[u8], values: &[u8]) -> PolledInstance {
    let [key] = words(key);
    // Two numbers of 32 bits, the first one in the lower half: programs are little-endian.
    let halves = |word: u64| (word as u32, (word >> 32) as u32);
    let id = InstanceId { napi: halves(key).0, ifindex: halves(key).1 };
    let mut found = PolledInstance { id, ifindex: 0, namespace: 0, cpus: Vec::new() };
    for value in values.chunks_exact(INSTANCE_WORDS * 8) {
        let [polls, packets, full, outside, .., first] = words::<INSTANCE_WORDS>(value);
        found.cpus.push(PollCounts { polls, packets, full, outside });
        if first != 0 {
            (found.ifindex, found.namespace) = halves(first);
        }
    }
    found
}

/// The estimator of the program for tests: polls and their times are given, and nothing is attached.
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

    /// Runs the program at a poll of an instance at `time` on a CPU that took `work` packets, and
    /// returns the end of a streak.
    ///
    /// # Errors
    /// Fails while the CPU is off line.
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
