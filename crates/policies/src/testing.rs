//! A bench for policies: scripted observations, and the resulting operating points.

use crate::POLICIES;
use wattline_policy::testing::westmere;
use wattline_policy::*;
use wattline_server::{Application, ServerFile, ServerModel};
use wattline_units::{PacketsPerSecond, Span, Time};

/// Returns the shipped model of PowerSave's machine.
pub(crate) fn server() -> ServerModel {
    ServerFile::load("westmere-2010").unwrap().model().unwrap().clone()
}

/// A platform and a policy's observations of it.
pub(crate) struct Bench {
    pub platform: Platform,
    pub queues: Vec<QueueView>,
    pub cores: Vec<CoreView>,
    pub offered: Option<PacketsPerSecond>,
    /// Shown to policies that observe latency.
    pub latency: Option<LatencyView>,
    pub point: OperatingPoint,
    pub now: Time,
    policy: Option<Box<dyn Policy>>,
}

impl Bench {
    pub fn new() -> Self {
        let platform = westmere();
        Self {
            queues: vec![QueueView::default(); platform.queues.len()],
            cores: vec![CoreView::default(); platform.cores],
            offered: Some(PacketsPerSecond(5e6)),
            latency: None,
            point: OperatingPoint::full(&platform),
            now: Time::ZERO,
            policy: None,
            platform,
        }
    }

    /// Builds a policy for this platform. With a model of the server it may assume routed 64-byte
    /// packets.
    pub fn make(
        &self,
        text: &str,
        model: Option<&ServerModel>,
    ) -> Result<Box<dyn Policy>, SpecError> {
        let packet = model.and_then(|model| model.packet_cost(Application::Ipv4, 64));
        let context = BuildContext {
            platform: &self.platform,
            server: model,
            packet: packet.map(|cost| (cost, 64)),
            seed: 0,
        };
        build(&POLICIES.parse(text)?, &context)
    }

    /// Returns the error that refuses a policy.
    pub fn refused(&self, text: &str) -> String {
        self.make(text, None).err().unwrap().to_string()
    }

    /// Creates a bench that runs this policy.
    pub fn playing(text: &str) -> Self {
        let mut bench = Self::new();
        bench.play(text, None);
        bench
    }

    /// Builds a policy and runs it from now on.
    pub fn play(&mut self, text: &str, model: Option<&ServerModel>) -> AskAgain {
        let policy = self.make(text, model).unwrap();
        self.begin(policy)
    }

    /// Runs a policy from now on.
    pub fn begin(&mut self, policy: Box<dyn Policy>) -> AskAgain {
        self.policy = Some(policy);
        self.ask(Trigger::Start)
    }

    /// Returns the running policy.
    pub fn policy(&self) -> &dyn Policy {
        self.policy.as_deref().expect("a policy plays")
    }

    pub fn ask(&mut self, trigger: Trigger) -> AskAgain {
        let policy = self.policy.as_mut().expect("a policy plays");
        let observation = Observation {
            latency: self.latency.filter(|_| policy.looks_at().latency),
            offered: self.offered.filter(|_| policy.looks_at().offered),
            ..Observation::new(self.now, &self.platform, trigger, &self.queues, &self.cores)
        };
        policy.decide(&observation, &mut self.point)
    }

    /// Reports a batch on a queue whose ring holds `fill` packets.
    pub fn batch(&mut self, queue: usize, fill: u32) -> AskAgain {
        self.queues[queue].fill = fill;
        self.now += Span::from_micros(10);
        self.ask(Trigger::Batch { queue, taken: fill.clamp(1, 32), batches: 1 })
    }

    /// Reports a batch of so many packets, all that the ring holds.
    pub fn burst(&mut self, queue: usize, taken: u32) -> AskAgain {
        self.queues[queue].fill = taken;
        self.now += Span::from_micros(10);
        self.ask(Trigger::Batch { queue, taken, batches: 1 })
    }

    /// Reports that a core found its queues empty as often as requested.
    pub fn empty_polls(&mut self, core: usize) -> AskAgain {
        self.now += Span::from_micros(10);
        self.ask(Trigger::EmptyPolls { core })
    }

    /// Reports a streak above the upper level of a queue, or below the lower one.
    pub fn streak(&mut self, queue: usize, above: bool) -> AskAgain {
        self.now += Span::from_micros(10);
        self.ask(Trigger::Streak { queue, above })
    }

    /// Reports that a core has had no sample for a long time.
    pub fn silence(&mut self, core: usize) -> AskAgain {
        self.now += Span::from_millis(1);
        self.ask(Trigger::Silence { core })
    }

    /// Lets time pass: each core is useful for its fraction of it, parked ones sleep, `packets`
    /// arrive.
    pub fn pass(&mut self, span: Span, useful: &[f64], packets: u64) -> AskAgain {
        self.now += span;
        for (core, view) in self.cores.iter_mut().enumerate() {
            let fraction = useful.get(core).copied().unwrap_or(0.0);
            let useful = Span::from_seconds(span.as_seconds() * fraction);
            view.useful += useful;
            view.asleep += span - useful;
            let is_parked = !self.point.active.contains(core);
            view.idle_state = is_parked.then_some(self.point.cores[core].idle_limit);
        }
        self.queues[0].arrivals += packets;
        self.ask(Trigger::Timer)
    }

    /// Returns the number of active cores and the index of their frequency.
    pub fn rung(&self) -> (usize, usize) {
        (self.point.active.len(), self.point.fastest_active())
    }
}
