//! Construction of cores from a server model.

use crate::context::Costs;
use crate::error::ModelError;
use crate::fixed::CoreFixed;
use crate::service::{ServiceTime, Variation};
use crate::work::Core;
use wattline_policy::{OperatingPoint, Platform};
use wattline_server::{Application, PacketCost, Path, ServerModel};
use wattline_units::Span;

/// Cycles of a poll that finds nothing. This is an assumption: no paper prints it. It affects only
/// how often a policy that counts empty polls is asked, and neither power nor latency.
const EMPTY_POLL_CYCLES: f64 = 100.0;

/// Number of a state's exit latencies after which a nap continues in that deeper state: the ratio
/// of target residency to exit latency in Linux's intel_idle tables, about 3.
const RESIDENCY_PER_EXIT_LATENCY: u64 = 3;

/// Makes the cores of a server that runs an application.
#[derive(Debug, Clone)]
pub struct CoreMake<'a> {
    server: &'a ServerModel,
    /// Costs of a packet of zero length and of one of 1,000 bytes.
    costs: [PacketCost; 2],
    seed: u64,
}

impl<'a> CoreMake<'a> {
    /// Prepares the cores of `server`; `seed` is for service times that vary.
    ///
    /// # Errors
    /// Fails when the server file has no cost for the application.
    pub fn new(
        server: &'a ServerModel,
        application: Application,
        seed: u64,
    ) -> Result<Self, ModelError> {
        // Costs are linear in the length, so two lengths determine both coefficients.
        let cost = |bytes| server.packet_cost(application, bytes);
        match (cost(0), cost(ServiceTime::LONG_BYTES)) {
            (Some(empty), Some(long)) => Ok(Self { server, costs: [empty, long], seed }),
            _ => Err(ModelError::no_application(server, application)),
        }
    }

    /// Makes core `number` of the server's platform, asleep in the lightest idle state.
    pub fn core(&self, number: usize, point: &OperatingPoint, platform: &Platform) -> Core {
        let Self { server, seed, .. } = *self;
        let states = 0..server.idle_states.len();
        let exit = |state: usize| server.idle_states[state].exit_latency.as_picos();
        let fixed = CoreFixed {
            ports: platform.queues.len() / platform.cores,
            ring: server.nic.rx_ring,
            frequencies: platform.frequencies.len(),
            target_residency: states
                .clone()
                .map(|s| exit(s) * RESIDENCY_PER_EXIT_LATENCY)
                .collect(),
            extra_exit: states.map(|s| server.extra_exit_latency(s).as_picos()).collect(),
            delivery: server.interrupt_delivery().as_picos(),
            poll_budget: (server.path != Path::Workers).then_some(OperatingPoint::NAPI_BUDGET),
        };
        let costs = self.costs(platform.fastest(), platform.cores);
        let variation = Variation::new(server.capacity.service, seed, number);
        Core::new(number, &fixed, costs, point.cores[number], variation)
    }

    /// Costs of a core at a frequency (an index) with this many active cores.
    pub fn costs(&self, frequency: usize, active: usize) -> Costs {
        let hertz = self.server.processor.frequencies[frequency];
        let service = ServiceTime::from_costs(self.server, self.costs, hertz, active);
        let empty_poll = Span::from_seconds(EMPTY_POLL_CYCLES / hertz.0).as_picos().max(1);
        let wake_up = self.server.wake_up_work(hertz).as_picos();
        let interrupt =
            Span::from_seconds(self.server.wake_up.interrupt_cycles / hertz.0).as_picos();
        Costs { frequency, service, wake_up, empty_poll, interrupt }
    }
}
