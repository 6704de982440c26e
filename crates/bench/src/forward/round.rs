//! What is seen in one round.

use serde::Serialize;

/// One round of one contestant.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Round {
    /// Frames that the generator made per second of time; what the contestant's receive ring had
    /// no room for is lost there.
    pub offered_rate_pps: f64,
    /// Frames at the sink per second of time.
    pub rate_pps: f64,
    /// Processor time of all that works for the contestant per frame at the sink.
    pub cpu_seconds_per_packet: f64,
    /// Of that, in the kernel thread that receives for it.
    pub receive_thread_seconds_per_packet: f64,
    /// Of that, in the contestant's own threads.
    pub own_threads_seconds_per_packet: f64,
    /// Processor time of the generator per frame at the sink; not the contestant's.
    pub generator_seconds_per_packet: f64,
    /// Processor time of the kernel thread that counts and frees the frames, each; not the
    /// contestant's, though what it costs depends on how the frame was sent.
    pub sink_thread_seconds_per_packet: f64,
}
