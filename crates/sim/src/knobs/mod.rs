//! The knobs of a simulated server: ideal, or slow, failing and refusing.

mod behaviour;

pub use behaviour::{BehaviourError, Fault, KnobBehaviour};

use rand::rngs::Xoshiro256PlusPlus;
use rand::{Rng as _, SeedableRng as _};
use wattline_governor::machine::Taken;
use wattline_governor::step::Step;
use wattline_governor::transition::Actuator;
use wattline_policy::{OperatingPoint, Platform};
use wattline_units::{Span, Time};

/// Separates the knobs' random stream from other streams of the same seed.
const STREAM: u64 = 0x6b6e_6f62;
const MOST: f64 = (1_u64 << 53) as f64;

/// Collects the performed steps in the operating point that is then given to the cores.
pub(crate) struct SimKnobs {
    pub platform: Platform,
    /// Present settings of the server.
    pub point: OperatingPoint,
    /// Weights that apply when the indirection tables are next written.
    weights: Vec<u8>,
    behaviour: KnobBehaviour,
    /// Accepted value of the last step that was altered.
    held: Option<Step>,
    random: Xoshiro256PlusPlus,
}

impl SimKnobs {
    pub fn new(platform: Platform, behaviour: KnobBehaviour, seed: u64) -> Self {
        Self {
            weights: vec![1; platform.cores],
            point: OperatingPoint::full(&platform),
            platform,
            behaviour,
            held: None,
            random: Xoshiro256PlusPlus::seed_from_u64(seed ^ STREAM),
        }
    }

    /// Returns true if every step takes effect at once, as requested.
    pub fn are_ideal(&self) -> bool {
        self.behaviour.is_ideal()
    }

    /// Performs the write.
    fn write(&mut self, step: &Step) -> Taken {
        let fault = self.behaviour.fault(step.knob());
        // 53 bits, the precision of a fraction.
        if fault.fails > 0.0 && ((self.random.next_u64() >> 11) as f64) < fault.fails * MOST {
            return Taken::Failed { why: "the write failed, as the scenario has it".to_owned() };
        }
        let made = fault.round(step, &self.platform);
        self.set(&made);
        if made == *step {
            return Taken::Done;
        }
        self.held = Some(made);
        Taken::Altered { found: format!("{made:?}") }
    }

    fn set(&mut self, step: &Step) {
        let point = &mut self.point;
        match *step {
            Step::Weight { core, weight } => self.weights[core] = weight,
            Step::Redirect { active } => {
                point.active = active;
                point.weights.clone_from(&self.weights);
            }
            // Cores in the table are awake.
            _ => step.set(point),
        }
    }
}

impl Actuator for SimKnobs {
    fn platform(&self) -> &Platform {
        &self.platform
    }

    fn take(&mut self, now: Time, step: &Step) -> Taken {
        self.held = None;
        let fault = self.behaviour.fault(step.knob());
        if fault.refuses {
            return Taken::Failed { why: "the knob refuses, as the scenario has it".to_owned() };
        }
        if fault.delay > Span::ZERO {
            return Taken::Slow { until: now + fault.delay };
        }
        self.write(step)
    }

    fn finish(&mut self, _: Time, step: &Step) -> Taken {
        self.held = None;
        self.write(step)
    }

    fn held(&mut self, _: &Step) -> Option<Step> {
        self.held.take()
    }
}
