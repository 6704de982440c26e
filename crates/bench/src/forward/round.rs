//! Results of one round.

use serde::Serialize;

/// Results of one round of one candidate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Round {
    /// Frames per second that the generator sent, including frames dropped at the candidate's full
    /// receive ring.
    pub offered_rate_pps: f64,
    /// Frames per second at the sink.
    pub rate_pps: f64,
    /// Processor seconds of all threads that work for the candidate, per frame at the sink.
    pub cpu_seconds_per_packet: f64,
    /// Part of `cpu_seconds_per_packet` in the kernel thread that receives for the candidate.
    pub receive_thread_seconds_per_packet: f64,
    /// Part of `cpu_seconds_per_packet` in the candidate's own threads.
    pub own_threads_seconds_per_packet: f64,
    /// Processor seconds of the generator per frame at the sink; not charged to the candidate.
    pub generator_seconds_per_packet: f64,
    /// Processor seconds, per frame at the sink, of the kernel thread that counts and frees the
    /// frames. It is not charged to the candidate, though its cost depends on how a frame was
    /// sent.
    pub sink_thread_seconds_per_packet: f64,
}
