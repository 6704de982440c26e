//! Needs of a policy that require workers which handle every packet.
//!
//! When the kernel or XDP programs forward, batches and fill levels of rings are not reported, and
//! no core polls. A policy that needs them is refused there, or workers get the packets.

use crate::{
    AskAgain, Asks, Can, CoreView, FrequencyDomain, IdleState, Observation, OperatingPoint,
    Platform, Policy, PolicySpec, Queue, QueueView, Trigger, Wait, Waits, build,
};
use crate::{BuildContext, Sees};
use wattline_units::{Hertz, Span, Time};

/// Need of a policy that is not met if no worker sees the packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NeedsWorkers {
    /// The offered rate, which only a simulator knows.
    OfferedRate,
    /// The policy decides at batches of packets, fill levels of rings or empty polls.
    Batches,
    /// The policy lets cores wait in another way than for interrupts.
    Polling,
}

impl NeedsWorkers {
    /// Finds the need of a policy from its first decision on a platform that does not meet it.
    pub fn of(policy: &mut dyn Policy, platform: &Platform) -> Option<Self> {
        Self::and_ask(policy, platform).err()
    }

    /// Like [`Self::of`], but returns the first answer of a policy without such a need.
    ///
    /// # Errors
    /// Returns the need.
    pub fn and_ask(policy: &mut dyn Policy, platform: &Platform) -> Result<AskAgain, Self> {
        if policy.looks_at().offered {
            return Err(Self::OfferedRate);
        }
        let queues = vec![QueueView::default(); platform.queues.len()];
        let cores = vec![CoreView::default(); platform.cores];
        let observation = Observation::new(Time::ZERO, platform, Trigger::Start, &queues, &cores);
        let mut point = OperatingPoint::full(platform);
        let ask = policy.decide(&observation, &mut point);
        let asks = platform.can.asks;
        let unnoticed = [
            (!ask.on_batch.is_empty(), asks.batch),
            (!ask.on_fill.cores.is_empty(), asks.fill),
            (!ask.on_streak.cores.is_empty(), asks.streaks),
            (ask.after_empty_polls.is_some(), asks.empty_polls),
        ];
        if unnoticed.into_iter().any(|(wanted, noticed)| wanted && !noticed.is_noticed()) {
            return Err(Self::Batches);
        }
        let polls = point.cores.iter().any(|core| core.wait != Wait::Interrupt);
        if polls { Err(Self::Polling) } else { Ok(ask) }
    }

    /// Finds the need from the policy's text, on a stand-in machine, to check a configuration.
    /// Returns `None` also if the policy cannot be built there, such as one that reads tables of
    /// another machine; the governor checks again. `asks` lists the events that the platform
    /// notices.
    pub fn of_text(spec: &PolicySpec, asks: Asks) -> Option<Self> {
        let mut platform = stand_in();
        platform.can.asks = asks;
        let server = wattline_server::ServerFile::load("westmere-2010").ok();
        let server = server.as_ref().and_then(|file| file.model().ok());
        let application = wattline_server::Application::Ipv4;
        let cost = server.and_then(|server| server.packet_cost(application, MEAN_BYTES));
        let packet = cost.map(|cost| (cost, MEAN_BYTES));
        let context = BuildContext { platform: &platform, server, packet, seed: 1 };
        Self::of(&mut *build(spec, &context).ok()?, &platform)
    }
}

/// Mean packet length in bytes for packet costs.
const MEAN_BYTES: u32 = 600;

/// Returns a machine with every knob, on which batches are not reported.
fn stand_in() -> Platform {
    const CORES: usize = 2;
    let idle = IdleState {
        name: "C1".into(),
        exit_latency: Span::from_micros(1),
        exit_latency_measured: None,
    };
    Platform {
        cores: CORES,
        frequencies: vec![Hertz(1e9), Hertz(2e9)],
        domain: FrequencyDomain::Core,
        idle_states: vec![idle],
        queues: (0..CORES).map(|core| Queue { port: 0, core }).collect(),
        moderation: (Span::ZERO, Span::from_millis(1)),
        can: Can {
            waits: Waits { interrupt: true, ..Waits::NONE },
            sees: Sees::NOTHING,
            driver_rules: false,
            ..Can::EVERY_KNOB
        },
        ..Platform::BARE
    }
}
