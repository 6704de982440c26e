//! Recording of passing packets, for `wattline capture` and `wattline trace`.
//!
//! A [`Tap`](tap::Tap) belongs to one worker and writes records into a ring, from which another
//! thread reads them ([`record`]). It is handed to the worker, and taken back, through a
//! [`TapSlots`](slots::TapSlots). A worker without a tap reads one flag per batch. With a tap it
//! neither waits nor allocates: records that find the ring full are counted as missed.
//!
//! - [`filter`]: selection of packets
//! - [`tap`]: the events of a packet; [`record`]: their form in the ring
//! - [`slots`]: handover of a tap to a running worker; [`taps`]: the taps of a worker; [`copies`]:
//!   taps on packets that XDP programs forward

pub mod copies;
pub mod filter;
mod forwarded;
pub mod record;
pub mod slots;
#[expect(clippy::module_inception, reason = "the module is named after its type")]
pub mod tap;
pub mod taps;

#[cfg(test)]
mod tests;
