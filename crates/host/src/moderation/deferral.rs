//! NAPI's deferral, which takes the place of a driver's moderation.

use wattline_knobs::{Change, Knobs, Setting};
use wattline_linux::napi::Napi;

/// Returns true if NAPI can defer an interface's queues.
pub(super) fn defers(knobs: &impl Knobs, interface: &str) -> bool {
    let reads = |setting| knobs.read(&deferral(interface, 0, setting)).is_ok();
    reads(Napi::DeferHardIrqs) && reads(Napi::GroFlushTimeout)
}

pub(super) fn deferral(interface: &str, queue: u32, setting: Napi) -> Setting {
    Setting::Napi { interface: interface.to_owned(), queue, setting }
}

/// Returns the writes that give a queue this distance. A single empty poll ends the deferral: more
/// would only keep a timer running without load.
pub(super) fn defer(interface: &str, queue: u32, micros: u64) -> Vec<Change> {
    let why =
        format!("queue {queue} of {interface} is polled by a timer of {micros} us under load");
    let change = |setting, value: u64| Change {
        setting: deferral(interface, queue, setting),
        value: value.to_string(),
        why: why.clone(),
    };
    let time = change(Napi::GroFlushTimeout, micros * 1000);
    let polls = change(Napi::DeferHardIrqs, u64::from(micros > 0));
    // Never deferred without a time: the queue would not be polled at all.
    if micros > 0 { vec![time, polls] } else { vec![polls, time] }
}
