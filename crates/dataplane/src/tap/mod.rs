//! Looking at packets while they pass: what `wattline capture` and `wattline trace` see.
//!
//! A [`Tap`](tap::Tap) belongs to one worker and writes what it sees into a ring, from which another
//! thread reads it ([`record`]). It is handed to the worker, and taken back, through a
//! [`TapSlots`](slots::TapSlots). A worker without a tap asks one flag per batch; with one it neither waits nor
//! allocates: what finds the ring full is counted as missed.
//!
//! - [`filter`]: which packets
//! - [`tap`]: what is noted of them; [`record`]: how that is written and read
//! - [`slots`]: how a tap reaches a running worker; [`taps`]: those that a worker has; [`copies`]: those on
//!   packets that XDP programs forward

pub mod copies;
pub mod filter;
mod forwarded;
pub mod record;
pub mod slots;
#[expect(clippy::module_inception, reason = "the thing that the module is named after")]
pub mod tap;
pub mod taps;

#[cfg(test)]
mod tests;
