//! Sends the packets of a measured load out of an interface, by live frames.

use super::number;
use crate::bpf::{BpfError, Map, Program, object};
use rustix::io::Errno;

/// Bytes of the headers of a flow in its map.
const HEADERS: usize = 64;
/// Bytes of a flow there, as `struct flow` in `bpf/measured_send.bpf.c`.
const FLOW_BYTES: usize = HEADERS + 8;
/// Numbers of `struct sender` there.
const NUMBERS: usize = 12;
/// Most frames of a batch.
const BATCH_MAX: u32 = 64;
/// So often a frame's turn ends without the time of its packet being reached, in nanoseconds: a
/// little less than what the program takes to look at the clock as often as it may.
const TURN_NANOS: u64 = 3_000;
/// A batch is sent when its last packet is due: the first one waits no longer than this for it.
const BATCH_NANOS: u64 = 3_000;

/// The headers of a flow, Ethernet to UDP.
#[derive(Debug, Clone)]
pub struct FlowHeaders {
    /// What all packets of the flow begin with; lengths and checksums in it do not matter.
    pub bytes: Vec<u8>,
    /// One's complement sum, as a number in the byte order of the wire, of the IPv4 header without
    /// length and checksum.
    pub ip_sum: u16,
    /// The same of pseudo-header and UDP header without lengths and checksum.
    pub udp_sum: u16,
}

/// A load that a sender is prepared for.
#[derive(Debug, Clone)]
pub struct MeasuredLoad<'a> {
    /// The interface to send to, in the network namespace of the thread that sends.
    pub ifindex: u32,
    /// Whether packets are of IPv6.
    pub ipv6: bool,
    /// The flows, which take turns.
    pub flows: &'a [FlowHeaders],
    /// Lengths of frames in bytes, without frame check sequence, which take turns; at most 1514.
    pub lengths: &'a [u32],
    /// Magic, trial and stream of each packet's stamp, as its first four bytes.
    pub stamp: u32,
}

/// When the next packets are due.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Segment {
    /// When the first one is, in nanoseconds on `CLOCK_MONOTONIC`.
    pub origin_nanos: u64,
    /// From one to the next; 0 for as fast as it goes.
    pub gap_nanos: f64,
    /// Packets that are later than this are left out.
    pub patience_nanos: u64,
    /// How many there are.
    pub packets: u64,
}

/// What a sender has counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SenderTotal {
    /// Packets of the last segment that are neither sent nor left out.
    pub remaining: u64,
    /// Packets sent.
    pub sent: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Packets that were late, and not sent.
    pub left_out: u64,
    /// When the last one was sent.
    pub last_nanos: u64,
    /// Longest time for which a packet that was due was not sent although the one before was.
    pub stall_nanos: u64,
}

/// The program, ready to send.
#[derive(Debug)]
pub struct MeasuredSender {
    program: Program,
    state: Map,
    /// What is copied: the longest frame, all zero.
    frame: Vec<u8>,
}

impl MeasuredSender {
    /// Loads the program. Time counts as stalled from `start_nanos` on.
    ///
    /// # Errors
    /// Without CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON (the program waits in a loop).
    ///
    /// # Panics
    /// Without flows or lengths, or with one of them out of bounds.
    pub fn new(load: &MeasuredLoad<'_>, start_nanos: u64) -> Result<Self, BpfError> {
        let MeasuredLoad { ifindex, ipv6, flows, lengths, stamp } = *load;
        let longest = lengths.iter().copied().max().unwrap_or(0);
        let shortest = lengths.iter().copied().min().unwrap_or(0);
        assert!(!flows.is_empty() && shortest >= 60 && longest <= 1514, "a load that fits");
        let mut object = object!("measured_send")?;
        let count = |length: usize| u32::try_from(length).unwrap_or(u32::MAX);
        object.set(&[
            ("out", &ifindex.to_ne_bytes()),
            ("ipv6", &u32::from(ipv6).to_ne_bytes()),
            ("longest", &longest.to_ne_bytes()),
            ("lengths", &count(lengths.len()).to_ne_bytes()),
            ("flows", &(flows.len() as u64).to_ne_bytes()),
            ("stamped", &(u64::from(stamp) << 32).to_ne_bytes()),
        ])?;
        let of_flows = object.create_with_entries("wl_flows", count(flows.len()))?;
        let mut values = vec![0; flows.len() * FLOW_BYTES];
        for (value, flow) in values.chunks_exact_mut(FLOW_BYTES).zip(flows) {
            let length = flow.bytes.len().min(HEADERS);
            value[..length].copy_from_slice(&flow.bytes[..length]);
            value[HEADERS..HEADERS + 4].copy_from_slice(&u32::from(flow.ip_sum).to_ne_bytes());
            value[HEADERS + 4..].copy_from_slice(&u32::from(flow.udp_sum).to_ne_bytes());
        }
        of_flows.set_all(&values)?;
        let of_lengths = object.create_with_entries("wl_lengths", count(lengths.len()))?;
        let values: Vec<u8> = lengths.iter().flat_map(|length| length.to_ne_bytes()).collect();
        of_lengths.set_all(&values)?;
        let state = object.create(".data.sender")?;
        let program = object.load(&[&of_flows, &of_lengths, &state])?;
        let sender = Self { program, state, frame: vec![0; longest as usize] };
        let mut first = [0; NUMBERS];
        first[10] = start_nanos;
        sender.write(&first)?;
        Ok(sender)
    }

    /// Sends packets of a segment from the calling thread, which has to be in the network
    /// namespace of the interface, and returns what was counted until now. Some of them may be
    /// left: where a signal came, or the time of the last one is far away.
    ///
    /// # Errors
    /// When the kernel has no live frames (Linux 5.18).
    pub fn send(&self, segment: &Segment) -> Result<SenderTotal, BpfError> {
        let mut numbers = self.numbers()?;
        let gap = (segment.gap_nanos * f64::from(1 << 16)) as u64;
        numbers[..5].copy_from_slice(&[
            segment.origin_nanos,
            gap,
            segment.patience_nanos,
            segment.packets,
            0,
        ]);
        self.write(&numbers)?;
        let span = (segment.gap_nanos * segment.packets as f64) as u64;
        let turns = segment.packets.max(span / TURN_NANOS).max(1);
        // `as` saturates; the batches of a paced load are those packets that are due about now.
        let batch = match segment.gap_nanos > 0.0 {
            true => (BATCH_NANOS as f64 / segment.gap_nanos) as u32,
            false => BATCH_MAX,
        };
        let turns = u32::try_from(turns).unwrap_or(u32::MAX);
        match self.program.run_live(&self.frame, turns, batch.clamp(1, BATCH_MAX)) {
            Err(error) if error.errno() != Some(Errno::INTR) => Err(error),
            _ => self.total(),
        }
    }

    /// What was counted until now.
    ///
    /// # Errors
    /// Only from the kernel.
    pub fn total(&self) -> Result<SenderTotal, BpfError> {
        let numbers = self.numbers()?;
        Ok(SenderTotal {
            remaining: numbers[3],
            sent: numbers[5],
            bytes: numbers[8],
            left_out: numbers[9],
            last_nanos: numbers[10],
            stall_nanos: numbers[11],
        })
    }

    /// What the program takes per packet, without what the kernel does with it: in nanoseconds.
    /// The packets that it makes for this are sent nowhere, but numbered.
    ///
    /// # Errors
    /// Only from the kernel.
    pub fn cost_nanos(&self, packets: u32) -> Result<u64, BpfError> {
        let mut numbers = self.numbers()?;
        numbers[..5].copy_from_slice(&[0, 0, 0, packets.into(), 0]);
        self.write(&numbers)?;
        let run = self.program.test_runs(&self.frame, packets)?;
        Ok(u64::try_from(run.duration.as_nanos()).unwrap_or(u64::MAX))
    }

    /// The next packet, which is sent nowhere.
    #[cfg(test)]
    pub(super) fn frame(&self) -> Vec<u8> {
        let mut numbers = self.numbers().unwrap();
        numbers[..5].copy_from_slice(&[0, 0, 0, 1, 0]);
        self.write(&numbers).unwrap();
        self.program.test_run(&self.frame).unwrap().packet
    }

    fn numbers(&self) -> Result<[u64; NUMBERS], BpfError> {
        let value = self.state.get(&0_u32.to_ne_bytes())?.unwrap_or_default();
        Ok(std::array::from_fn(|index| number(&value, index)))
    }

    fn write(&self, numbers: &[u64; NUMBERS]) -> Result<(), BpfError> {
        let value: Vec<u8> = numbers.iter().flat_map(|number| number.to_ne_bytes()).collect();
        self.state.set(&0_u32.to_ne_bytes(), &value)
    }
}
