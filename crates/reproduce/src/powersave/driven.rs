//! PowerSave's controller with its estimator, fed with queue lengths.

use crate::error::ReproduceError;
use wattline_cores::platform_of;
use wattline_policies::POLICIES;
use wattline_policy::{
    AskAgain, BuildContext, CoreView, Observation, OperatingPoint, Platform, Policy,
    QueueEstimator, QueueView, Trigger, build,
};
use wattline_server::ServerModel;
use wattline_units::{Span, Time};

/// A started controller with its machine and the estimator of its lowest core.
pub(super) struct Controller {
    policy: Box<dyn Policy>,
    pub platform: Platform,
    pub point: OperatingPoint,
    pub ask: AskAgain,
    estimator: QueueEstimator,
    now: Time,
}

impl Controller {
    pub fn new(server: &ServerModel, spec: &str) -> Result<Self, ReproduceError> {
        let platform = platform_of(server);
        let context = BuildContext { platform: &platform, server: None, packet: None, seed: 0 };
        let policy = build(&POLICIES.parse(spec)?, &context)?;
        let ports = platform.queues.iter().map(|queue| queue.port + 1).max().unwrap_or(0);
        let mut controller = Self {
            policy,
            point: OperatingPoint::full(&platform),
            platform,
            ask: AskAgain::NEVER,
            estimator: QueueEstimator::new(ports),
            now: Time::ZERO,
        };
        controller.decide(Trigger::Start);
        controller.estimator.start(Time::ZERO, controller.ask.on_streak.rule);
        Ok(controller)
    }

    /// Reports a batch from this port's queue at the lowest core, in which `fill` packets waited.
    pub fn batch(&mut self, port: usize, fill: u32) {
        self.now += Span::from_micros(10);
        let event = self.estimator.batch(self.now, port, fill, fill);
        let Some(above) = event.filter(|above| self.ask.on_streak.asks(*above)) else { return };
        if let Some(queue) = self.platform.queues.iter().position(|queue| queue.port == port) {
            self.decide(Trigger::Streak { queue, above });
        }
    }

    fn decide(&mut self, trigger: Trigger) {
        let queues = vec![QueueView::default(); self.platform.queues.len()];
        let cores = vec![CoreView::default(); self.platform.cores];
        let seen = Observation::new(self.now, &self.platform, trigger, &queues, &cores);
        self.ask = self.policy.decide(&seen, &mut self.point);
    }

    /// Returns the number of active cores, and the step of their frequency.
    pub fn rung(&self) -> (usize, usize) {
        (self.point.active.len(), self.point.fastest_active())
    }

    /// Returns the present rung, and the rungs that follow while every batch finds `fill` packets.
    pub fn points(&mut self, fill: u32) -> Vec<(usize, usize)> {
        let mut rungs = vec![self.rung()];
        for _ in 0..10_000 {
            self.batch(0, fill);
            if rungs.last() != Some(&self.rung()) {
                rungs.push(self.rung());
            }
        }
        rungs
    }
}
