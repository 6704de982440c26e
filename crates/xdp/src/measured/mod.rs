//! A measured load that the kernel generates and accounts for by itself: packets that carry their
//! number and the time at which they were sent, at millions per second.
//!
//! - [`MeasuredSender`]: sends live frames (Linux 5.18), each a packet of the load, when it is due
//! - [`MeasuredReceiver`]: accounts for them in the receiving driver, without any ring
//!
//! The user of this module determines the packets' contents, flows and times.

mod receiver;
mod sender;
#[cfg(test)]
mod tests;

pub use receiver::{
    FlowTotal, MeasuredReceiver, MeasuredTrial, PACKETS_MAX, QueueTotal, class_nanos,
};
pub use sender::{FlowHeaders, MeasuredLoad, MeasuredSender, Segment, SenderTotal};

/// Returns a 64-bit number of a structure in a map's value.
fn number(value: &[u8], index: usize) -> u64 {
    let bytes = value.get(index * 8..).and_then(|rest| rest.first_chunk());
    bytes.map_or(0, |bytes| u64::from_ne_bytes(*bytes))
}
