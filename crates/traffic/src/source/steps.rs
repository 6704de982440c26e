//! Measured rates as repeating steps, and a source without packets.

use super::{Modulator, Source};
use crate::capture::CaptureError;
use crate::packet::Block;
use crate::rates::RateStep;

/// Repeats the steps of a file.
#[derive(Debug, Clone)]
pub struct Steps {
    steps: Vec<RateStep>,
    next: usize,
}

impl Steps {
    /// Repeats the steps with their rates times `scale`; `None` if no packet would ever come.
    pub fn new(mut steps: Vec<RateStep>, scale: f64) -> Option<Self> {
        steps.iter_mut().for_each(|step| step.rate_pps *= scale);
        steps.iter().any(|step| step.rate_pps > 0.0).then_some(Self { steps, next: 0 })
    }

    /// Changes of the rate for each packet.
    pub fn changes_per_packet(&self) -> f64 {
        let packets: f64 = self.steps.iter().map(|step| step.rate_pps * step.seconds).sum();
        self.steps.len() as f64 / packets
    }

    /// Highest rate in packets per second.
    pub fn peak(&self) -> f64 {
        self.steps.iter().map(|step| step.rate_pps).fold(0.0, f64::max)
    }
}

impl Modulator for Steps {
    fn next_step(&mut self) -> (f64, f64) {
        let step = self.steps[self.next];
        self.next = (self.next + 1) % self.steps.len();
        (step.rate_pps, step.seconds)
    }
}

/// A source without packets.
#[derive(Debug, Clone, Copy)]
pub struct Silent;

impl Source for Silent {
    fn next_block(&mut self, out: &mut Block) -> Result<(), CaptureError> {
        out.clear();
        Ok(())
    }
}
