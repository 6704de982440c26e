//! Receiver of one queue.

use super::account::Account;
use super::flows::payload;
use super::stamp::{Parsed, Stamp};
use crate::clock::monotonic_nanos;
use wattline_dataplane::frame::{BATCH_MAX, Frame, FramePool};
use wattline_dataplane::port::PortQueue;

/// Receives a batch of frames and accounts for them; returns their number.
#[inline]
pub(super) fn turn(
    account: &mut Account,
    pool: &mut FramePool,
    queue: &mut dyn PortQueue,
) -> usize {
    let mut frames = [Frame::default(); BATCH_MAX];
    let count = queue.receive(pool, &mut frames);
    if count == 0 {
        account.polled(None);
    } else {
        let now = monotonic_nanos();
        account.polled(Some(now));
        for frame in &frames[..count] {
            let bytes = pool.frame_bytes(frame);
            match payload(bytes).map_or(Parsed::Foreign, Stamp::parse) {
                Parsed::Stamp(stamp) => account.take(stamp, bytes.len(), now),
                Parsed::Corrupt => account.corrupt += 1,
                Parsed::Foreign => account.foreign += 1,
            }
            pool.free(frame.offset);
        }
    }
    queue.recycle(pool);
    count
}
