//! A measured load that the kernel makes and accounts for by itself: packets that carry which one
//! they are and when they were sent, at millions a second.
//!
//! - [`MeasuredSender`]: live frames (Linux 5.18), each a packet of the load, when it is due
//! - [`MeasuredReceiver`]: accounts for them in the driver that receives them, without any ring
//!
//! What packets carry, their flows and when they are due is decided by whoever generates the load.

mod receiver;
mod sender;
#[cfg(test)]
mod tests;

pub use receiver::{
    FlowTotal, MeasuredReceiver, MeasuredTrial, PACKETS_MAX, QueueTotal, class_nanos,
};
pub use sender::{FlowHeaders, MeasuredLoad, MeasuredSender, Segment, SenderTotal};

/// A 64-bit number of a structure in a map's value.
fn number(value: &[u8], index: usize) -> u64 {
    let bytes = value.get(index * 8..).and_then(|rest| rest.first_chunk());
    bytes.map_or(0, |bytes| u64::from_ne_bytes(*bytes))
}
