//! A request server as a platform for policies.

use wattline_cores::{domain_of, idle_state};
use wattline_governor::ledger::Knob;
use wattline_policy::{Asks, Can, Platform, Queue, Sees, Waits};
use wattline_server::RequestServer;
use wattline_units::Span;

/// Knobs that a policy turns on this platform.
pub const REQUEST_KNOBS: [Knob; 3] = [Knob::Frequency, Knob::IdleLimit, Knob::Moderation];

/// Quantities that the model reports. It could report the oldest packet of a ring, but no policy
/// uses that.
const SEES: Sees = Sees {
    latency: true,
    late: true,
    power: true,
    frequency: true,
    bytes: true,
    residency: true,
    softirq: true,
    ..Sees::NOTHING
};

/// Returns the platform of a request server, with one queue per core. Card and application decide
/// which core serves a connection, so cores cannot be removed.
pub fn request_platform(server: &RequestServer) -> Platform {
    let cores = server.processor.cores().min(server.nic.queues_per_port);
    let moderation = server.nic.moderation;
    let range = moderation.map(|moderation| (moderation.shortest, moderation.longest));
    Platform {
        cores,
        frequencies: server.processor.frequencies.clone(),
        domain: domain_of(server.processor.dvfs),
        frequency_transition: server.processor.frequency_transition,
        idle_states: server
            .idle_states
            .iter()
            .map(|state| idle_state(&state.name, state.exit_latency))
            .collect(),
        queues: (0..cores).map(|core| Queue { port: 0, core }).collect(),
        ring_size: server.nic.rx_ring,
        moderation: range.unwrap_or((Span::ZERO, Span::ZERO)),
        can: Can {
            set_frequency: true,
            limit_idle: true,
            set_moderation: true,
            driver_rules: true,
            waits: Waits { interrupt: true, ..Waits::NONE },
            sees: SEES,
            asks: Asks::NOTHING,
            ..Can::NOTHING
        },
        ..Platform::BARE
    }
}
