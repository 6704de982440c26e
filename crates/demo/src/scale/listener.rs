//! The far end: counts arriving frames by flow and sequence number.

use super::frames::PAYLOAD;
use serde::Serialize;
use std::sync::{Arc, Mutex, PoisonError};
use wattline_dataplane::port::PortId;
use wattline_scale::card::FarEnd;
use wattline_testbed::probe::payload::Payload;

/// Counts of the listener.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct ListenerCounts {
    /// Frames that arrived.
    pub received_packets: u64,
    /// Frames that arrived more than once.
    pub repeated_packets: u64,
    /// Frames that arrived after a later one of their flow (RFC 4737, section 3.3).
    pub reordered_packets: u64,
    /// Frames that are not from the generator.
    pub strange_packets: u64,
}

#[derive(Default)]
struct Flow {
    /// Highest number seen, plus one.
    next: u64,
    /// Lower numbers that have not arrived yet.
    missing: Vec<u64>,
}

#[derive(Default)]
struct State {
    heard: ListenerCounts,
    flows: Vec<Flow>,
}

/// The listening end of the cards.
#[derive(Clone, Default)]
pub(super) struct Listener {
    state: Arc<Mutex<State>>,
}

impl Listener {
    pub fn heard(&self) -> ListenerCounts {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).heard
    }
}

impl FarEnd for Listener {
    fn receive(&mut self, _: PortId, frame: &[u8]) {
        let payload = frame.get(PAYLOAD..).and_then(Payload::parse);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let State { heard, flows } = &mut *state;
        let Some(payload) = payload else {
            heard.strange_packets += 1;
            return;
        };
        let number = usize::from(payload.flow);
        if flows.len() <= number {
            flows.resize_with(number + 1, Flow::default);
        }
        let flow = &mut flows[number];
        if payload.sequence >= flow.next {
            flow.missing.extend(flow.next..payload.sequence);
            flow.next = payload.sequence + 1;
        } else if let Some(place) = flow.missing.iter().position(|n| *n == payload.sequence) {
            flow.missing.swap_remove(place);
            heard.reordered_packets += 1;
        } else {
            heard.repeated_packets += 1;
            return;
        }
        heard.received_packets += 1;
    }
}
