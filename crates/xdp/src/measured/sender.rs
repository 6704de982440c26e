//! Sends the packets of a measured load out of an interface, by live frames.

use super::number;
use crate::bpf::{BpfError, Map, Program, object};
use rustix::io::Errno;

/// Bytes of the headers of a flow in its map.
const HEADERS: usize = 64;
/// Bytes of a flow there, as `struct flow` in `bpf/measured_send.bpf.c`.
const FLOW_BYTES: usize = HEADERS + 8;
/// Numbers of `struct sender` there.
const NUMBERS: usize = 15;
/// Most frames of a batch.
const BATCH_MAX: u32 = 64;
/// Time in nanoseconds after which a frame's turn ends if its packet is not due by then: less than
/// the program's clock readings take.
const TURN_NANOS: f64 = 4_000.0;
/// Longest time for which the first packet of a batch waits for the last: a batch is sent when its
/// last packet is due.
const BATCH_NANOS: f64 = 3_000.0;
/// Most turns of one call. If the load ends before, each of the others still takes some 60 ns.
const TURNS_MAX: f64 = 64e6;
/// Upper bound of packets per second, for the number of turns of a load at full speed.
const FASTEST_PPS: f64 = 6e6;

/// Longest time that a load lasts, in nanoseconds: 146 years.
const LASTS_MAX: u64 = u64::MAX / 4;

/// The headers of a flow, Ethernet to UDP.
#[derive(Debug, Clone)]
pub struct FlowHeaders {
    /// First bytes of all packets of the flow; their lengths and checksums are ignored.
    pub bytes: Vec<u8>,
    /// One's complement sum, as a number in the byte order of the wire, of the IPv4 header without
    /// length and checksum.
    pub ip_sum: u16,
    /// The same for pseudo-header and UDP header, without lengths and checksum.
    pub udp_sum: u16,
}

/// The load of a sender.
#[derive(Debug, Clone)]
pub struct MeasuredLoad<'a> {
    /// The egress interface, in the network namespace of the sending thread.
    pub ifindex: u32,
    /// True if packets are of IPv6.
    pub ipv6: bool,
    /// The flows, in rotation.
    pub flows: &'a [FlowHeaders],
    /// Lengths of frames in bytes, without frame check sequence, in rotation; at most 1514.
    pub lengths: &'a [u32],
    /// Magic, trial and stream of each packet's stamp, as its first four bytes.
    pub stamp: u32,
    /// Times at which packets are due.
    pub segments: &'a [Segment],
    /// Start of the load, in nanoseconds on `CLOCK_MONOTONIC`; `None` for the time at which the
    /// kernel generates the first frame. That is some milliseconds after the call, since the kernel
    /// first publishes the program to all processors.
    pub start_nanos: Option<u64>,
    /// Time from the start to the end of the load, even if packets were not sent; at most 146
    /// years.
    pub lasts_nanos: u64,
}

impl MeasuredLoad<'_> {
    /// Returns a load without packets, to check that this kernel and this process can send.
    pub fn nothing(ifindex: u32) -> Self {
        static FLOWS: [FlowHeaders; 1] = [FlowHeaders { bytes: Vec::new(), ip_sum: 0, udp_sum: 0 }];
        Self {
            ifindex,
            ipv6: false,
            flows: &FLOWS,
            lengths: &[60],
            stamp: 0,
            segments: &[],
            start_nanos: None,
            lasts_nanos: 0,
        }
    }
}

/// Packets with the same time from one to the next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Segment {
    /// Time at which the first is due, in nanoseconds from the start of the load.
    pub first_nanos: u64,
    /// Time from one to the next; 0 for as fast as possible.
    pub gap_nanos: f64,
    /// Packets that are later than this are skipped.
    pub patience_nanos: u64,
    /// Number of packets.
    pub packets: u64,
}

/// Counters of a sender.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SenderTotal {
    /// Time at which the load began; 0 if it has not.
    pub start_nanos: u64,
    /// Packets sent.
    pub sent: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Packets that were late, and not sent.
    pub left_out: u64,
    /// Time at which the last one was sent.
    pub last_nanos: u64,
    /// Longest time for which a due packet was not sent although the one before was.
    pub stall_nanos: u64,
}

/// The program, ready to send.
#[derive(Debug)]
pub struct MeasuredSender {
    program: Program,
    state: Map,
    stop: Map,
    /// Frames of a batch.
    batch: u32,
    /// Most turns of the whole load.
    turns: f64,
    /// The frame to copy: the longest one, all zero.
    frame: Vec<u8>,
}

impl MeasuredSender {
    /// Loads the program.
    ///
    /// # Errors
    /// Without CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON (the program waits in a loop).
    ///
    /// # Panics
    /// Without flows or lengths, or if one of them is out of bounds.
    pub fn new(load: &MeasuredLoad<'_>) -> Result<Self, BpfError> {
        let MeasuredLoad { ifindex, ipv6, flows, lengths, stamp, segments, .. } = *load;
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
        let entries = count(segments.len()).max(1);
        let of_segments = object.create_with_entries("wl_segments", entries)?;
        let numbers = segments.iter().flat_map(|segment| {
            // `as` saturates.
            let gap = (segment.gap_nanos * f64::from(1 << 16)) as u64;
            [segment.first_nanos, gap, segment.patience_nanos, segment.packets]
        });
        let mut values: Vec<u8> = numbers.flat_map(u64::to_ne_bytes).collect();
        values.resize(entries as usize * 32, 0);
        of_segments.set_all(&values)?;
        let stop = object.create("wl_stop")?;
        let state = object.create(".data.sender")?;
        let program = object.load(&[&of_flows, &of_lengths, &of_segments, &stop, &state])?;
        let shortest_gap = segments.iter().map(|it| it.gap_nanos).fold(f64::INFINITY, f64::min);
        // A batch of a paced load contains the packets that are due at about the same time; `as`
        // saturates.
        let batch = (BATCH_NANOS / shortest_gap) as u32;
        let frame = vec![0; longest as usize];
        let batch = batch.clamp(1, BATCH_MAX);
        let sender = Self { program, state, stop, batch, turns: turns(load), frame };
        let mut first = [0; NUMBERS];
        let (start, lasts) = (load.start_nanos.unwrap_or(0), load.lasts_nanos.min(LASTS_MAX));
        (first[0], first[1], first[13]) = (start, start.saturating_add(lasts), start);
        sender.write(&first)?;
        Ok(sender)
    }

    /// Sends packets from the calling thread, which has to be in the network namespace of the
    /// interface, until the end of the load, but for at most some ten seconds. If packets are left
    /// then, there is a pause of tens of milliseconds before the next call, in which the kernel
    /// frees its memory. Also ends at a signal.
    ///
    /// # Errors
    /// When the kernel has no live frames (Linux 5.18).
    pub fn send(&self) -> Result<SenderTotal, BpfError> {
        // At least a batch; `as` does not saturate here.
        let turns = self.turns.clamp(f64::from(BATCH_MAX), TURNS_MAX) as u32;
        match self.program.run_live(&self.frame, turns, self.batch) {
            Err(error) if error.errno() != Some(Errno::INTR) => Err(error),
            _ => self.total(),
        }
    }

    /// Stops sending, from any thread.
    ///
    /// # Errors
    /// Only from the kernel.
    pub fn stop(&self) -> Result<(), BpfError> {
        self.stop.set(&0_u32.to_ne_bytes(), &1_u64.to_ne_bytes())
    }

    /// Returns the counts until now.
    ///
    /// # Errors
    /// Only from the kernel.
    pub fn total(&self) -> Result<SenderTotal, BpfError> {
        let numbers = self.numbers()?;
        Ok(SenderTotal {
            start_nanos: numbers[0],
            sent: numbers[8],
            bytes: numbers[11],
            left_out: numbers[12],
            last_nanos: numbers[13],
            stall_nanos: numbers[14],
        })
    }

    /// Measures the program's time per packet, without the kernel's part, in nanoseconds. The
    /// packets are numbered, but not sent.
    ///
    /// # Errors
    /// Only from the kernel.
    pub fn cost_nanos(&self, packets: u32) -> Result<u64, BpfError> {
        self.ask_for(packets)?;
        let run = self.program.test_runs(&self.frame, packets)?;
        Ok(u64::try_from(run.duration.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Returns the next packet, without sending it.
    #[cfg(test)]
    pub(super) fn frame(&self) -> Vec<u8> {
        self.ask_for(1).unwrap();
        self.program.test_run(&self.frame).unwrap().packet
    }

    /// Makes this many packets due at once, independent of the load.
    fn ask_for(&self, packets: u32) -> Result<(), BpfError> {
        let mut numbers = self.numbers()?;
        numbers[1] = u64::MAX;
        numbers[3..8].copy_from_slice(&[0, 0, u64::MAX, packets.into(), 0]);
        self.write(&numbers)
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

/// Returns an estimate of the most turns that a load takes.
fn turns(load: &MeasuredLoad<'_>) -> f64 {
    let seconds = load.lasts_nanos.min(LASTS_MAX) as f64 * 1e-9;
    let most = seconds * FASTEST_PPS;
    let packets: f64 = load.segments.iter().map(|segment| segment.packets as f64).sum();
    // Waiting ends turns without a packet.
    let waiting = seconds * 1e9 / TURN_NANOS;
    // A tenth more, and a constant for turns before the start.
    (packets.min(most) + waiting) * 1.1 + 4096.0
}
