//! Making cores out of a server model.

use crate::context::Costs;
use crate::error::ModelError;
use crate::fixed::CoreFixed;
use crate::service::{ServiceTime, Variation};
use crate::work::Core;
use wattline_policy::{OperatingPoint, Platform};
use wattline_server::{Application, PacketCost, ServerModel};
use wattline_units::Span;

/// Cycles of a poll that finds nothing; assumed, no paper prints it. It decides how often
/// a policy that counts empty polls is asked, and no power or latency.
const EMPTY_POLL_CYCLES: f64 = 100.0;

/// A nap goes on in a deeper idle state after so many of that state's exit latencies: the
/// ratio of target residency to exit latency in Linux's intel_idle tables, about 3.
const RESIDENCY_PER_EXIT_LATENCY: u64 = 3;

/// Makes the cores of a server that runs an application.
#[derive(Debug, Clone)]
pub struct CoreMake<'a> {
    server: &'a ServerModel,
    /// What a packet of no length and one of 1,000 bytes cost.
    costs: [PacketCost; 2],
    seed: u64,
}

impl<'a> CoreMake<'a> {
    /// Cores of `server`; the seed is that of service times that vary.
    ///
    /// # Errors
    /// When the server file gives no cost of the application.
    pub fn new(
        server: &'a ServerModel,
        application: Application,
        seed: u64,
    ) -> Result<Self, ModelError> {
        // Costs are linear in the length: two lengths tell both parts.
        let cost = |bytes| server.packet_cost(application, bytes);
        match (cost(0), cost(ServiceTime::LONG_BYTES)) {
            (Some(empty), Some(long)) => Ok(Self { server, costs: [empty, long], seed }),
            _ => Err(ModelError::no_application(server, application)),
        }
    }

    /// Core `number` of the platform that this server is, asleep in the lightest idle state.
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
        };
        let costs = self.costs(platform.fastest(), platform.cores);
        let variation = Variation::new(server.capacity.service, seed, number);
        Core::new(number, &fixed, costs, point.cores[number], variation)
    }

    /// What a core costs at a frequency (an index) with so many cores active.
    pub fn costs(&self, frequency: usize, active: usize) -> Costs {
        let hertz = self.server.processor.frequencies[frequency];
        let service = ServiceTime::of(self.server, self.costs, hertz, active);
        let empty_poll = Span::from_seconds(EMPTY_POLL_CYCLES / hertz.0).as_picos().max(1);
        let wake_up = self.server.wake_up_work(hertz).as_picos();
        Costs { frequency, service, wake_up, empty_poll }
    }
}
