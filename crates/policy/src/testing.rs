//! A platform for tests of policies, and policies for tests of platforms.

use crate::{
    AskAgain, Can, FrequencyDomain, IdleState, Looks, Observation, OperatingPoint, Platform,
    Policy, Queue,
};
use wattline_units::{Hertz, Span};

/// Returns PowerSave's machine: 12 cores, 14 P-states, one frequency for all, four ports.
pub fn westmere() -> Platform {
    let idle = |name: &str, micros| IdleState {
        name: name.into(),
        exit_latency: Span::from_micros(micros),
        exit_latency_measured: None,
    };
    Platform {
        cores: 12,
        frequencies: (12..26).map(|step| Hertz(f64::from(step) * 4e8 / 3.0)).collect(),
        domain: FrequencyDomain::Chip,
        frequency_transition: Span::from_micros(10),
        idle_states: vec![idle("C1", 1), idle("C3", 60), idle("C6", 87)],
        queues: (0..48).map(|queue| Queue { port: queue / 12, core: queue % 12 }).collect(),
        ring_size: Some(512),
        moderation: (Span::ZERO, Span::from_micros(1_000)),
        can: Can::EVERY_KNOB,
        ..Platform::BARE
    }
}

/// A policy that is a function.
struct Function<F> {
    looks: Looks,
    decide: F,
}

impl<F> Policy for Function<F>
where
    F: FnMut(&Observation<'_>, &mut OperatingPoint) -> AskAgain + Send,
{
    fn looks_at(&self) -> Looks {
        self.looks
    }
    fn decide(&mut self, seen: &Observation<'_>, point: &mut OperatingPoint) -> AskAgain {
        (self.decide)(seen, point)
    }
}

/// Returns a policy that uses these parts of an observation and decides by a function.
pub fn policy(
    looks: Looks,
    decide: impl FnMut(&Observation<'_>, &mut OperatingPoint) -> AskAgain + Send + 'static,
) -> Box<dyn Policy> {
    Box::new(Function { looks, decide })
}
