//! A server model as policies see it.

use wattline_policy::{
    Asks, Can, FrequencyDomain, IdleState, MAX_CORES, Platform, Queue, Sees, Waits,
};
use wattline_server::{DvfsDomain, ServerModel};
use wattline_units::Span;

/// The ways to wait that the model of a core knows: what a core draws that pauses between polls
/// (`PAUSE`, `TPAUSE`) no server file says.
const WAITS: Waits = Waits { pause: false, ..Waits::ALL };

/// What a simulator knows of its server. Whether time awake is spent in a soft interrupt or in a
/// thread the model does not tell apart.
const SEES: Sees = Sees {
    latency: true,
    late: true,
    power: true,
    frequency: true,
    bytes: true,
    entries: true,
    residency: true,
    softirq: false,
    oldest: true,
    offered: true,
};

/// The platform that a simulated server is: one queue for each port and core, as far as
/// the card has queues and a bit mask has room; the queue of port p and core c has the
/// number p × cores + c.
pub fn platform_of(server: &ServerModel) -> Platform {
    platform_part(server, server.nic.ports, MAX_CORES)
}

/// The same with another number of ports, and with fewer cores, at most `cores`: the rest of
/// them is parked for good.
pub fn platform_part(server: &ServerModel, ports: usize, cores: usize) -> Platform {
    let most = server.processor.cores().min(server.nic.queues_per_port).min(MAX_CORES);
    let cores = cores.clamp(1, most.max(1));
    let moderation = server
        .nic
        .moderation
        .map_or((Span::ZERO, Span::ZERO), |moderation| (moderation.shortest, moderation.longest));
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
        queues: (0..ports * cores)
            .map(|queue| Queue { port: queue / cores, core: queue % cores })
            .collect(),
        ring_size: server.nic.rx_ring,
        moderation,
        // The model's uncore goes with the fastest awake core by itself.
        can: Can {
            set_cores: true,
            set_frequency: true,
            limit_idle: true,
            set_moderation: server.nic.moderation.is_some(),
            set_weights: true,
            waits: WAITS,
            sees: SEES,
            asks: Asks::EXACT,
            ..Can::NOTHING
        },
        ..Platform::BARE
    }
}
