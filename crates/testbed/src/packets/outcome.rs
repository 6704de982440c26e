//! Outcome of one trial.

use super::account::{Account, FlowCount};
use super::load::Load;
use super::sender::Sent;
use super::sizes::{FCS, WIRE_OVERHEAD};
use super::soundness::Soundness;
use hdrhistogram::Histogram;
use serde::Serialize;

const SECONDS: f64 = 1e-9;
/// Number of flows that are listed.
const FLOWS_LISTED: usize = 20;

/// Results of the threads of a trial.
#[derive(Default)]
pub(super) struct Parts {
    pub sent: Vec<Sent>,
    pub accounts: Vec<Account>,
    pub sender_cpu_seconds: f64,
    pub receiver_cpu_seconds: f64,
}

/// Latencies in seconds; `None` if nothing was received.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Latency {
    /// Shortest.
    pub min_seconds: Option<f64>,
    /// Mean.
    pub mean_seconds: Option<f64>,
    /// Median.
    pub p50_seconds: Option<f64>,
    /// 90 % took no longer.
    pub p90_seconds: Option<f64>,
    /// 99 % took no longer.
    pub p99_seconds: Option<f64>,
    /// 99.9 % took no longer.
    pub p999_seconds: Option<f64>,
    /// Longest.
    pub max_seconds: Option<f64>,
}

/// A flow with lost, duplicated or reordered packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct FlowOutcome {
    /// Its stream: the number of the sending queue.
    pub stream: usize,
    /// Number of the flow in the stream.
    pub flow: usize,
    /// Packets sent.
    pub sent_packets: u64,
    /// Lost packets.
    pub lost_packets: u64,
    /// Duplicated packets.
    pub duplicated_packets: u64,
    /// Reordered packets (RFC 4737).
    pub reordered_packets: u64,
}

/// Outcome of one trial: sent = received + lost + lost at the receiver.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outcome {
    /// Requested packets per second; `None` for full speed.
    pub intended_rate_pps: Option<f64>,
    /// Frame lengths: a number or the name of a mix.
    pub frames: String,
    /// Mean length in bytes, frame check sequence included.
    pub frame_mean_bytes: f64,
    /// Number of flows.
    pub flows: u32,
    /// Packets actually sent.
    pub sent_packets: u64,
    /// Packets that were due but not sent: a shortfall of the generator, not a loss.
    pub unsent_packets: u64,
    /// Time from the first packet to the last.
    pub sent_seconds: f64,
    /// Packets per second actually sent.
    pub sent_rate_pps: f64,
    /// Bits per second sent, with frame check sequence, preamble and gap.
    pub sent_wire_rate_bps: f64,
    /// Received packets without duplicates.
    pub received_packets: u64,
    /// Received packets per second of sending: the forwarding rate (RFC 2285).
    pub received_rate_pps: f64,
    /// Lost packets, without those of the next field.
    pub lost_packets: u64,
    /// Packets that found no room at the receiver: a shortfall of the generator, not a loss.
    pub receiver_overflow_packets: u64,
    /// Lost packets as a share of sent packets without the receiver's overflow.
    pub loss_ratio: f64,
    /// Copies of received packets.
    pub duplicated_packets: u64,
    /// Packets that arrived after a later one of their flow (RFC 4737).
    pub reordered_packets: u64,
    /// Largest distance of a reordered packet from the expected number.
    pub reordering_distance_max_packets: u64,
    /// Flows that arrived at several queues of the receiver; their order across queues is unknown.
    pub divided_flows: u64,
    /// Packets with damaged content; they also count as lost.
    pub corrupt_packets: u64,
    /// Packets of an earlier trial.
    pub stale_packets: u64,
    /// Frames of other senders.
    pub foreign_packets: u64,
    /// Latency from sending to reading, on one clock.
    pub latency: Latency,
    /// Distribution of latency: shares of packets, each with the latency that they do not exceed.
    pub latency_curve: Vec<(f64, f64)>,
    /// Longest time between two packets.
    pub longest_gap_seconds: f64,
    /// Number of flows with lost, duplicated or reordered packets.
    pub affected_flows: u64,
    /// The worst of these flows.
    pub worst_flows: Vec<FlowOutcome>,
    /// Largest number of packets sent with one time stamp.
    pub batch_max_packets: u64,
    /// Longest time for which a sender did not send due packets.
    pub sender_stall_max_seconds: f64,
    /// Longest time for which a receiver did not read waiting frames; frames that arrive meanwhile
    /// must fit into its ring.
    pub receiver_stall_max_seconds: f64,
    /// Processor time of the sending threads per packet sent.
    pub sender_cpu_seconds_per_packet: Option<f64>,
    /// Processor time of the receiving threads per packet received; `None` without such threads.
    pub receiver_cpu_seconds_per_packet: Option<f64>,
}

/// Returns the nanoseconds from the start of the first stream to the last packet of any stream.
/// Live streams start one after the other, when the kernel is ready for each; a stream that sent
/// nothing may not have started.
fn between_first_and_last(sent: &[Sent]) -> u64 {
    let began = || sent.iter().filter(|sent| sent.packets > 0);
    let first = began().map(|sent| sent.start_nanos).min().unwrap_or(0);
    let last = began().map(|sent| sent.start_nanos + sent.nanos).max().unwrap_or(0);
    last - first
}

impl Outcome {
    pub(super) fn new(load: &Load, parts: Parts, overflow: u64) -> Self {
        let Parts { sent, accounts, sender_cpu_seconds, receiver_cpu_seconds } = parts;
        let mut accounts = accounts.into_iter();
        // There is at least one queue.
        let mut account = accounts.next().unwrap_or_else(|| unreachable!("no queue received"));
        let mut divided_flows = 0;
        for other in accounts {
            divided_flows += account.shared_flows(&other);
            account.merge(&other);
        }
        let sent_packets: u64 = sent.iter().map(|sent| sent.packets).sum();
        let sent_bytes: u64 = sent.iter().map(|sent| sent.bytes).sum();
        let sent_seconds = between_first_and_last(&sent) as f64 * SECONDS;
        let gap = if sent_packets > 1 { sent_seconds / (sent_packets - 1) as f64 } else { 0.0 };
        // From the first packet to the end of the last packet's interval.
        let seconds = sent_seconds + gap;
        let per_second = |amount: f64| if seconds > 0.0 { amount / seconds } else { 0.0 };
        let missing = sent_packets.saturating_sub(account.received);
        let receiver_overflow_packets = overflow.min(missing);
        let lost_packets = missing - receiver_overflow_packets;
        let counted = sent_packets - receiver_overflow_packets;
        let wire_bytes = sent_bytes + sent_packets * u64::from(FCS + WIRE_OVERHEAD);
        let (affected_flows, worst_flows) = affected(&account, &sent);
        let per_packet = |cpu: f64, packets: u64| (packets > 0).then(|| cpu / packets as f64);
        Self {
            intended_rate_pps: load
                .burst
                .is_none()
                .then_some(load.rate_pps)
                .filter(|rate| rate.is_finite()),
            frames: load.sizes.name().to_owned(),
            frame_mean_bytes: load.sizes.mean(),
            flows: load.flows,
            sent_packets,
            unsent_packets: sent.iter().map(|sent| sent.unsent).sum(),
            sent_seconds: seconds,
            sent_rate_pps: per_second(sent_packets as f64),
            sent_wire_rate_bps: per_second(wire_bytes as f64 * 8.0),
            received_packets: account.received,
            received_rate_pps: per_second(account.received as f64),
            lost_packets,
            receiver_overflow_packets,
            loss_ratio: if counted > 0 { lost_packets as f64 / counted as f64 } else { 0.0 },
            duplicated_packets: account.duplicated,
            reordered_packets: account.reordered,
            reordering_distance_max_packets: account.reordering_distance_max,
            divided_flows,
            corrupt_packets: account.corrupt,
            stale_packets: account.stale,
            foreign_packets: account.foreign,
            latency: summary(&account.latency),
            latency_curve: account
                .latency
                .iter_quantiles(5)
                .map(|step| (step.quantile(), step.value_iterated_to() as f64 * SECONDS))
                .collect(),
            longest_gap_seconds: account.longest_gap_nanos as f64 * SECONDS,
            affected_flows,
            worst_flows,
            batch_max_packets: sent.iter().map(|sent| sent.batch_max).max().unwrap_or(0),
            sender_stall_max_seconds: sent.iter().map(|sent| sent.stall_nanos).max().unwrap_or(0)
                as f64
                * SECONDS,
            receiver_stall_max_seconds: account.stall_nanos as f64 * SECONDS,
            sender_cpu_seconds_per_packet: per_packet(sender_cpu_seconds, sent_packets),
            receiver_cpu_seconds_per_packet: per_packet(receiver_cpu_seconds, account.received)
                .filter(|_| receiver_cpu_seconds > 0.0),
        }
    }

    /// Returns the soundness of the trial.
    pub fn soundness(&self) -> Soundness {
        Soundness {
            due_packets: self.sent_packets + self.unsent_packets,
            unsent_packets: self.unsent_packets,
            overflow_packets: self.receiver_overflow_packets,
        }
    }

    /// Returns true if the trial is sound.
    pub fn is_sound(&self) -> bool {
        self.soundness().is_sound()
    }
}

fn summary(latency: &Histogram<u64>) -> Latency {
    let some = |value: f64| (!latency.is_empty()).then_some(value * SECONDS);
    let at = |quantile| some(latency.value_at_quantile(quantile).min(latency.max()) as f64);
    Latency {
        min_seconds: some(latency.min() as f64),
        mean_seconds: some(latency.mean()),
        p50_seconds: at(0.5),
        p90_seconds: at(0.9),
        p99_seconds: at(0.99),
        p999_seconds: at(0.999),
        max_seconds: some(latency.max() as f64),
    }
}

/// Counts the flows that lost, doubled or reordered packets, and lists the worst of them.
fn affected(account: &Account, sent: &[Sent]) -> (u64, Vec<FlowOutcome>) {
    let mut found = Vec::new();
    let streams = account.streams.iter().zip(sent).enumerate();
    for (stream, (flows, sent)) in streams {
        let number = flows.flows.len() as u64;
        for (flow, count) in flows.flows.iter().enumerate() {
            let FlowCount { received, duplicated, reordered, .. } = *count;
            // Flows take turns, starting with the first.
            let sent_packets = (sent.packets + number - 1 - flow as u64) / number;
            let lost_packets = sent_packets.saturating_sub(received);
            if lost_packets + duplicated + reordered > 0 {
                found.push(FlowOutcome {
                    stream,
                    flow,
                    sent_packets,
                    lost_packets,
                    duplicated_packets: duplicated,
                    reordered_packets: reordered,
                });
            }
        }
    }
    let number = found.len() as u64;
    found.sort_by_key(|flow| {
        std::cmp::Reverse(flow.lost_packets + flow.duplicated_packets + flow.reordered_packets)
    });
    found.truncate(FLOWS_LISTED);
    (number, found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_counts_from_the_first_started_stream() {
        let sent =
            |start_nanos, nanos, packets| Sent { start_nanos, nanos, packets, ..Sent::default() };
        let day = 86_400_000_000_000;
        let streams = [sent(day, 1_000, 7), sent(day + 500, 1_000, 7), sent(0, 0, 0)];
        assert_eq!(between_first_and_last(&streams), 1_500);
        assert_eq!(between_first_and_last(&[sent(0, 0, 0)]), 0);
        assert_eq!(between_first_and_last(&[]), 0);
    }
}
