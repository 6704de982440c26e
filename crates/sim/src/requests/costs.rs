//! Costs of interrupts and requests, prepared for the simulation.

use wattline_server::{RequestServer, RequestService};

/// Costs that all cores share.
#[derive(Debug, Clone)]
pub(super) struct Costs {
    pub interrupt_cycles: f64,
    pub interrupt_fixed: u64,
    pub segment_cycles: f64,
    pub completion_cycles: f64,
    pub budget: u32,
    pub completion_delay: u64,
    pub acknowledgement_delay: u64,
    pub outside: u64,
    /// Time slice of ksoftirqd and of the application; zero without ksoftirqd.
    pub slice: u64,
    pub picos_per_byte: f64,
    pub service: RequestService,
    pub ring: usize,
    /// Exit latency and target residency of each idle state, in picoseconds.
    pub idle: Vec<(u64, u64)>,
    /// Picoseconds per cycle in each V/F state.
    pub cycle: Vec<f64>,
}

impl Costs {
    pub fn new(server: &RequestServer, service: RequestService) -> Self {
        let kernel = &server.kernel;
        let idle = &server.idle_states;
        Self {
            interrupt_cycles: kernel.interrupt_cycles,
            interrupt_fixed: kernel.interrupt_fixed.as_picos(),
            segment_cycles: kernel.segment_cycles,
            completion_cycles: kernel.completion_cycles,
            budget: kernel.budget,
            completion_delay: kernel.completion_delay.as_picos(),
            acknowledgement_delay: kernel.acknowledgement_delay.as_picos(),
            outside: kernel.outside.as_picos(),
            slice: kernel.ksoftirqd_slice.as_picos(),
            picos_per_byte: 8e12 / server.nic.link.0,
            service,
            ring: server.nic.rx_ring.unwrap_or(usize::MAX),
            idle: idle
                .iter()
                .map(|state| (state.exit_latency.as_picos(), state.target_residency.as_picos()))
                .collect(),
            cycle: server.processor.frequencies.iter().map(|f| 1e12 / f.0).collect(),
        }
    }
}
