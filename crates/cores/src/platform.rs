//! A server model as a platform for policies.

use wattline_policy::{
    Asks, Can, FrequencyDomain, IdleState, Platform, Queue, Sees, Timing, Waits,
};
use wattline_server::{DvfsDomain, Path, ServerModel};
use wattline_units::Span;

/// Ways to wait that the model of a core supports. Pauses between polls (`PAUSE`, `TPAUSE`) are
/// missing, because no server file gives the power of a pausing core.
const WAITS: Waits = Waits { pause: false, ..Waits::ALL };

/// Quantities that a simulator can show to policies. The model does not distinguish time in a soft
/// interrupt from time in a thread.
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

/// Returns the abilities of a server model. If the kernel or XDP programs forward, polls show only
/// the ends of streaks, neither batches nor fill levels, and cores wait for interrupts.
fn can(server: &ServerModel) -> Can {
    // The model's uncore follows the fastest awake core by itself.
    let can = Can {
        set_cores: true,
        set_frequency: true,
        limit_idle: true,
        set_moderation: server.nic.moderation.is_some(),
        set_weights: true,
        set_batch: true,
        waits: WAITS,
        sees: SEES,
        asks: Asks::EXACT,
        ..Can::NOTHING
    };
    if server.path == Path::Workers {
        return can;
    }
    Can {
        set_batch: false,
        waits: Waits { interrupt: true, ..Waits::NONE },
        sees: Sees { oldest: false, offered: false, ..SEES },
        asks: Asks { streaks: Timing::Exact, ..Asks::NOTHING },
        ..can
    }
}

/// Returns the platform of a simulated server. It has one queue per port and core, and at most as
/// many cores as the card has queues per port. The queue of port p and core c has the number
/// `p * cores + c`.
pub fn platform_of(server: &ServerModel) -> Platform {
    platform_part(server, server.nic.ports, usize::MAX)
}

/// Returns the same platform with another number of ports and at most `cores` cores; the other
/// cores are always parked.
pub fn platform_part(server: &ServerModel, ports: usize, cores: usize) -> Platform {
    let most = server.processor.cores().min(server.nic.queues_per_port);
    let cores = cores.clamp(1, most.max(1));
    let moderation = server
        .nic
        .moderation
        .map_or((Span::ZERO, Span::ZERO), |moderation| (moderation.shortest, moderation.longest));
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
        queues: (0..ports * cores)
            .map(|queue| Queue { port: queue / cores, core: queue % cores })
            .collect(),
        ring_size: server.nic.rx_ring,
        moderation,
        can: can(server),
        ..Platform::BARE
    }
}

/// Returns the kind of the groups of cores that share a frequency.
pub fn domain_of(dvfs: DvfsDomain) -> FrequencyDomain {
    match dvfs {
        DvfsDomain::PerCore => FrequencyDomain::Core,
        DvfsDomain::PerCluster(cores) => FrequencyDomain::Cluster(cores),
        DvfsDomain::PerChip => FrequencyDomain::Chip,
    }
}

/// Returns an idle state of a model. A simulated core takes exactly the model's time to leave it,
/// so a measurement would find the same.
pub fn idle_state(name: &str, exit_latency: Span) -> IdleState {
    IdleState { name: name.to_owned(), exit_latency, exit_latency_measured: Some(exit_latency) }
}
