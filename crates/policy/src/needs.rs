//! What only workers that handle every packet can give to a policy.
//!
//! Where the kernel or XDP programs forward, nobody tells of batches and fill levels of rings, and
//! no core polls. A policy that cannot do without is refused there, or workers get the packets.

use crate::{
    Asks, Can, CoreView, FrequencyDomain, IdleState, Observation, OperatingPoint, Platform, Policy,
    PolicySpec, Queue, QueueView, Trigger, Wait, Waits, build,
};
use crate::{BuildContext, Sees};
use wattline_units::{Hertz, Span, Time};

/// What a policy lacks where no worker sees the packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NeedsWorkers {
    /// The rate that comes, which only a simulator knows: it works nowhere else.
    OfferedRate,
    /// It decides at batches of packets, fill levels of rings or polls that found nothing.
    Batches,
    /// It lets cores wait otherwise than for interrupts.
    Polling,
}

impl NeedsWorkers {
    /// What a policy cannot do without, as it begins on a platform that lacks it.
    pub fn of(policy: &mut dyn Policy, platform: &Platform) -> Option<Self> {
        if policy.looks_at().offered {
            return Some(Self::OfferedRate);
        }
        let observation = Observation {
            platform,
            trigger: Trigger::Start,
            queues: &vec![QueueView::default(); platform.queues.len()],
            cores: &vec![CoreView::default(); platform.cores],
            latency: None,
            power: None,
            entries: &[],
            offered: None,
        };
        let mut point = OperatingPoint::full(platform);
        let ask = policy.decide(Time::ZERO, &observation, &mut point);
        if !ask.watched().is_empty() || ask.after_empty_polls.is_some() {
            return Some(Self::Batches);
        }
        let polls = point.cores.iter().any(|core| core.wait != Wait::Interrupt);
        polls.then_some(Self::Polling)
    }

    /// The same from its text alone, on a machine that stands for all: for whoever reads a
    /// configuration. `None` also where the policy cannot be made there, such as one that reads
    /// tables of another machine: whoever governs looks once more.
    pub fn of_text(spec: &PolicySpec) -> Option<Self> {
        let platform = stand_in();
        let server = wattline_server::ServerFile::load("westmere-2010").ok();
        let server = server.as_ref().and_then(|file| file.model().ok());
        let application = wattline_server::Application::Ipv4;
        let cost = server.and_then(|server| server.packet_cost(application, MEAN_BYTES));
        let packet = cost.map(|cost| (cost, MEAN_BYTES));
        let context = BuildContext { platform: &platform, server, packet, seed: 1 };
        Self::of(&mut *build(spec, &context).ok()?, &platform)
    }
}

/// A mean length of packets that costs are reckoned with.
const MEAN_BYTES: u32 = 600;

/// A machine with every knob, on which nobody tells of batches.
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
        frequency_transition: Span::ZERO,
        idle_states: vec![idle],
        queues: (0..CORES).map(|core| Queue { port: 0, core }).collect(),
        ring_size: None,
        moderation: (Span::ZERO, Span::from_millis(1)),
        uncore: Vec::new(),
        can: Can {
            waits: Waits { interrupt: true, ..Waits::NONE },
            asks: Asks::NOTHING,
            sees: Sees::NOTHING,
            driver_rules: false,
            ..Can::EVERY_KNOB
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_by_load_need_no_workers_and_those_by_batches_do() {
        for (text, needs) in [
            ("ondemand", None),
            ("conservative:sampling_rate=200ms", None),
            ("schedutil", None),
            ("performance", None),
            ("performance+84us", None),
            ("powersave", Some(NeedsWorkers::Batches)),
            ("oracle", Some(NeedsWorkers::OfferedRate)),
            ("poll", Some(NeedsWorkers::Polling)),
            // Whoever governs finds out: the file is not there.
            ("copi:tables=/nonexistent", None),
        ] {
            let spec = PolicySpec::parse(text).unwrap();
            assert_eq!(NeedsWorkers::of_text(&spec), needs, "{text}");
        }
    }
}
