//! Accounts for the packets of a measured load in the receiving driver.

use super::number;
use crate::bpf::{BpfError, Link, Map, Program, object};
use rustix::fd::AsFd;

/// `XDP_FLAGS_DRV_MODE`
const NATIVE: u32 = 1 << 2;
/// Bits of a word of packets.
const WORD: u64 = 64;
/// As in `bpf/measured_receive.bpf.c`.
const CLASS_BITS: u32 = 10;
const LONGEST_BITS: u32 = 42;
const CLASSES: u32 = (LONGEST_BITS - CLASS_BITS + 1) << CLASS_BITS;
/// Numbers of `struct total` and `struct flow` there.
const TOTAL_NUMBERS: usize = 10;
const FLOW_NUMBERS: usize = 4;
/// Most packets of a trial: each takes a bit of memory that is not paged out.
pub const PACKETS_MAX: u64 = 1 << 32;

/// Parameters of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MeasuredTrial {
    /// Its number, as in the stamps.
    pub run: u8,
    /// Number of streams; flow `n` of all flows belongs to stream `n` modulo this.
    pub streams: u32,
    /// Flows of all streams.
    pub flows: u32,
    /// Most packets of a stream.
    pub packets: u64,
}

/// Counts of one receive queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QueueTotal {
    /// Different packets.
    pub received: u64,
    /// Copies of packets that had been received.
    pub duplicated: u64,
    /// Packets that arrived after a later one of their flow.
    pub reordered: u64,
    /// Largest distance of such a packet's number from the expected one.
    pub distance_max: u64,
    /// Packets whose stamp does not match its checksum.
    pub corrupt: u64,
    /// Packets of another trial, or with a number that was never sent.
    pub stale: u64,
    /// Other IP packets.
    pub foreign: u64,
    /// Bytes of received packets.
    pub bytes: u64,
    /// Longest time without a packet between two packets.
    pub longest_gap_nanos: u64,
}

/// Counts of one flow at one receive queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FlowTotal {
    /// Different packets.
    pub received: u64,
    /// Copies.
    pub duplicated: u64,
    /// Packets that arrived after a later one.
    pub reordered: u64,
}

/// The maps of one trial.
#[derive(Debug)]
struct Account {
    program: Program,
    totals: Map,
    flows: Map,
    latencies: Map,
}

/// The program on an interface, until dropped. Other packets are left to the kernel.
#[derive(Debug)]
pub struct MeasuredReceiver {
    link: Link,
    account: Account,
    queues: u32,
}

impl MeasuredReceiver {
    /// Attaches the program to an interface of this thread's network namespace with this many
    /// receive queues. It accounts for no packets until [`Self::begin`].
    ///
    /// # Errors
    /// Without CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON; when the driver has no XDP; when another
    /// program is attached (EBUSY or EEXIST).
    pub fn attach(ifindex: u32, queues: u32) -> Result<Self, BpfError> {
        // No stream: every stamp is stale.
        let nothing = MeasuredTrial { run: 0, streams: 0, flows: 1, packets: 0 };
        let account = Account::new(&nothing, queues)?;
        let link = account.program.attach(ifindex, NATIVE)?;
        Ok(Self { link, account, queues })
    }

    /// Begins to account for a trial, and discards earlier counts.
    ///
    /// # Errors
    /// When there is not enough memory for the packets or flows; ENOLINK when the interface is
    /// gone.
    pub fn begin(&mut self, trial: &MeasuredTrial) -> Result<(), BpfError> {
        let account = Account::new(trial, self.queues)?;
        self.link.update(account.program.as_fd())?;
        self.account = account;
        Ok(())
    }

    /// Returns the number of receive queues that are counted separately.
    pub fn queues(&self) -> u32 {
        self.queues
    }

    /// Returns the counts of each queue until now.
    ///
    /// # Errors
    /// Only from the kernel.
    pub fn totals(&self) -> Result<Vec<QueueTotal>, BpfError> {
        let values = self.account.totals.get_all()?;
        let total = |value: &[u8]| QueueTotal {
            received: number(value, 0),
            duplicated: number(value, 1),
            reordered: number(value, 2),
            distance_max: number(value, 3),
            corrupt: number(value, 4),
            stale: number(value, 5),
            foreign: number(value, 6),
            bytes: number(value, 7),
            longest_gap_nanos: number(value, 9),
        };
        Ok(values.chunks_exact(TOTAL_NUMBERS * 8).map(total).collect())
    }

    /// Returns the counts of each flow at each queue.
    ///
    /// # Errors
    /// Only from the kernel.
    pub fn flows(&self) -> Result<Vec<Vec<FlowTotal>>, BpfError> {
        let values = self.account.flows.get_all()?;
        let flow = |value: &[u8]| FlowTotal {
            received: number(value, 1),
            duplicated: number(value, 2),
            reordered: number(value, 3),
        };
        let all: Vec<_> = values.chunks_exact(FLOW_NUMBERS * 8).map(flow).collect();
        let each = (all.len() / self.queues.max(1) as usize).max(1);
        Ok(all.chunks_exact(each).map(<[_]>::to_vec).collect())
    }

    /// Returns the packets of each queue by the class of their latency ([`class_nanos`]).
    ///
    /// # Errors
    /// Only from the kernel.
    pub fn latencies(&self) -> Result<Vec<Vec<u64>>, BpfError> {
        let values = self.account.latencies.get_all()?;
        let numbers: Vec<u64> = (0..values.len() / 8).map(|at| number(&values, at)).collect();
        Ok(numbers.chunks_exact(CLASSES as usize).map(<[_]>::to_vec).collect())
    }

    /// Measures the time that the program takes for a packet, in nanoseconds.
    ///
    /// # Errors
    /// Only from the kernel.
    pub fn cost_nanos(&self, frame: &[u8]) -> Result<u64, BpfError> {
        let run = self.account.program.test_run(frame)?;
        Ok(u64::try_from(run.duration.as_nanos()).unwrap_or(u64::MAX))
    }

    #[cfg(test)]
    pub(super) fn look_at(&self, frame: &[u8]) -> u32 {
        self.account.program.test_run(frame).unwrap().result
    }
}

impl Account {
    fn new(trial: &MeasuredTrial, queues: u32) -> Result<Self, BpfError> {
        let MeasuredTrial { run, streams, flows, packets } = *trial;
        let words = packets.div_ceil(WORD);
        // At most PACKETS_MAX / 64, so the conversion does not saturate.
        let words = u32::try_from(words).unwrap_or(u32::MAX);
        let mut object = object!("measured_receive")?;
        object.set(&[
            ("run", &u32::from(run).to_ne_bytes()),
            ("streams", &streams.to_ne_bytes()),
            ("flows", &flows.to_ne_bytes()),
            ("words", &words.to_ne_bytes()),
        ])?;
        let entries = |each: u32, number: u32| each.saturating_mul(number).max(1);
        let totals = object.create_with_entries("wl_totals", queues.max(1))?;
        let of_flows = object.create_with_entries("wl_flows", entries(flows, queues))?;
        let seen = object.create_with_entries("wl_seen", entries(words, streams))?;
        let latencies = object.create_with_entries("wl_latencies", entries(CLASSES, queues))?;
        let program = object.load(&[&totals, &of_flows, &seen, &latencies])?;
        Ok(Self { program, totals, flows: of_flows, latencies })
    }
}

/// Returns the shortest latency of a class, in nanoseconds; latencies of a class differ by less
/// than a thousandth.
pub fn class_nanos(class: usize) -> u64 {
    let class = class as u64;
    let shift = (class >> CLASS_BITS).saturating_sub(1);
    (class - (shift << CLASS_BITS)) << shift
}
