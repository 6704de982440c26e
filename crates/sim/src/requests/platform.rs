//! A request server as policies see it.

use wattline_policy::{
    Asks, Can, FrequencyDomain, IdleState, MAX_CORES, Platform, Queue, Sees, Waits,
};
use wattline_server::{DvfsDomain, RequestServer};
use wattline_units::Span;

/// Everything that the model knows. The oldest packet of a ring it could tell; nobody asks.
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

/// The platform of a request server: one queue for each core. Which core serves a connection is
/// the card's and the application's affair, so cores cannot be taken out.
pub fn request_platform(server: &RequestServer) -> Platform {
    let cores = server.processor.cores().min(server.nic.queues_per_port).min(MAX_CORES);
    let moderation = server.nic.moderation;
    let range = moderation.map(|moderation| (moderation.shortest, moderation.longest));
    Platform {
        cores,
        frequencies: server.processor.frequencies.clone(),
        domain: match server.processor.dvfs {
            DvfsDomain::PerCore => FrequencyDomain::Core,
            DvfsDomain::PerChip => FrequencyDomain::Chip,
        },
        frequency_transition: server.processor.frequency_transition,
        idle_states: server
            .idle_states
            .iter()
            .map(|state| IdleState {
                name: state.name.clone(),
                exit_latency: state.exit_latency,
                exit_latency_measured: None,
            })
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
