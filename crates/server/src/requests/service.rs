//! Costs of requests in the kernel and in the application.

use crate::input::Section;
use crate::model::micros;
use serde::Serialize;
use wattline_units::Span;

/// The kernel's part, done in interrupts; it precedes the application's part.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct KernelCosts {
    /// Cycles of an interrupt without its segments, including the effect of cold caches.
    pub interrupt_cycles: f64,
    /// Part of an interrupt's time that does not depend on the frequency: the card's registers.
    pub interrupt_fixed: Span,
    /// Cycles to deliver a received segment to its socket.
    pub segment_cycles: f64,
    /// Cycles to free the buffers of one sent response.
    pub completion_cycles: f64,
    /// Largest number of segments per poll.
    pub budget: u32,
    /// Time from a send to the card's report of its completion.
    pub completion_delay: Span,
    /// Time from a response to the client's acknowledgement of its segments.
    pub acknowledgement_delay: Span,
    /// Time of every request outside the server: cards, switch and client.
    pub outside: Span,
    /// Time for which the fair scheduler lets ksoftirqd or the application run while the other one
    /// waits. Zero without ksoftirqd: all polls precede the application.
    pub ksoftirqd_slice: Span,
}

impl KernelCosts {
    pub(super) fn read(section: &Section<'_, '_>) -> Option<Self> {
        let interrupt = section.number("interrupt_cycles", 0.0..=1e9);
        let fixed = section.number_or("interrupt_fixed_us", 0.0, 0.0..=1e6);
        let segment = section.number("segment_cycles", 0.0..=1e9);
        let completion = section.number("completion_cycles", 0.0..=1e9);
        let budget = section.count("poll_budget_segments", 1..=65_536);
        let completed = section.number("completion_delay_us", 0.0..=1e6);
        let acknowledged = section.number("acknowledgement_delay_us", 0.0..=1e6);
        let outside = section.number("outside_us", 0.0..=1e6);
        let slice = section.number_or("ksoftirqd_slice_us", 0.0, 0.0..=1e6);
        Some(Self {
            interrupt_cycles: interrupt?,
            interrupt_fixed: micros(fixed?),
            segment_cycles: segment?,
            completion_cycles: completion?,
            budget: budget?,
            completion_delay: micros(completed?),
            acknowledgement_delay: micros(acknowledged?),
            outside: micros(outside?),
            ksoftirqd_slice: micros(slice?),
        })
    }
}

/// The application's part of one request, system calls and sending included.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct RequestService {
    /// Mean cycles per request, whatever its length.
    pub cycles: f64,
    /// Cycles per payload byte of the response.
    pub cycles_per_byte: f64,
    /// Memory stall, whatever the frequency.
    pub stall: Span,
    /// Share of the cycles that is exponentially distributed; the rest is constant.
    pub spread: f64,
}

impl RequestService {
    pub(super) fn read(section: &Section<'_, '_>) -> Option<Self> {
        let cycles = section.number("cycles_per_request", 1.0..=1e10);
        let per_byte = section.number_or("cycles_per_byte", 0.0, 0.0..=1e6);
        let stall = section.number_or("stall_us", 0.0, 0.0..=1e6);
        let spread = section.number_or("spread", 0.0, 0.0..=1.0);
        Some(Self {
            cycles: cycles?,
            cycles_per_byte: per_byte?,
            stall: micros(stall?),
            spread: spread?,
        })
    }
}
