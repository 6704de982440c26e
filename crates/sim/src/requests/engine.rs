//! Brings all cores from one decision of the policy to the next.

use super::core::{Core, Moderation, Sink};
use super::costs::Costs;
use super::platform::request_platform;
use super::report::{RequestReport, Totals};
use super::setting::{RequestError, RequestSetting};
use super::spent::Spent;
use crate::engine::DECISIONS_KEPT;
use crate::knobs::{KnobBehaviour, SimKnobs};
use rayon::prelude::*;
use std::time::Instant;
use wattline_governor::control_loop::ControlLoop;
use wattline_governor::under_way::UnderWay;
use wattline_policy::Latency;
use wattline_policy::moderation::Rule;
use wattline_policy::{
    BuildContext, CoreView, Looks, MAX_IDLE_STATES, NeedsWorkers, Observation, OperatingPoint,
    Platform, Policy, PolicySpec, PowerView, QueueView, SpecError, SpecProblem, Trigger, build,
};
use wattline_server::RequestServer;
use wattline_traffic::requests::Arrivals;
use wattline_units::{Provenance, Span, Time, Watts};

/// Arrival time and latency of each request of a run, in picoseconds.
pub type Trace = Vec<(u64, u64)>;

/// Simulates one request server under one policy. The same setting gives the same report, except
/// for `wall_seconds`.
///
/// # Errors
/// Fails when the setting contradicts itself, or server or policy do not fit it.
pub fn run_requests(setting: &RequestSetting<'_>) -> Result<RequestReport, RequestError> {
    run_requests_on(setting, KnobBehaviour::default())
}

/// Like [`run_requests`], on a server with knobs of this behaviour. The policy turns those of
/// [`REQUEST_KNOBS`](super::REQUEST_KNOBS).
///
/// # Errors
/// Fails like [`run_requests`].
pub fn run_requests_on(
    setting: &RequestSetting<'_>,
    knobs: KnobBehaviour,
) -> Result<RequestReport, RequestError> {
    Engine::run(setting, knobs, |context| fitting(&setting.policy, context), false)
        .map(|(report, _)| report)
}

/// Like [`run_requests`], with the caller's policy instead of the setting's.
///
/// # Errors
/// Fails like [`run_requests`], or when `make` fails.
pub fn run_requests_with(
    setting: &RequestSetting<'_>,
    make: impl FnOnce(&BuildContext<'_>) -> Result<Box<dyn Policy>, SpecError>,
) -> Result<RequestReport, RequestError> {
    Engine::run(setting, KnobBehaviour::default(), make, false).map(|(report, _)| report)
}

/// Runs many settings on all processors of this machine; results are in the order of the settings.
///
/// # Errors
/// Returns the first error.
pub fn sweep_requests(settings: &[RequestSetting<'_>]) -> Result<Vec<RequestReport>, RequestError> {
    settings.par_iter().map(run_requests).collect()
}

/// Like [`run_requests`], and also returns the latency of every request after the warm-up.
///
/// # Errors
/// Fails like [`run_requests`].
pub fn trace_requests(
    setting: &RequestSetting<'_>,
) -> Result<(RequestReport, Trace), RequestError> {
    let make = |context: &BuildContext<'_>| fitting(&setting.policy, context);
    Engine::run(setting, KnobBehaviour::default(), make, true)
}

/// Builds the policy of a text. Refuses it if its effect would differ from its description where
/// the kernel serves the requests.
fn fitting(spec: &PolicySpec, context: &BuildContext<'_>) -> Result<Box<dyn Policy>, SpecError> {
    let why = match NeedsWorkers::of(&mut *build(spec, context)?, context.platform) {
        None => return build(spec, context),
        Some(NeedsWorkers::OfferedRate) => "it needs the offered rate, which only --traffic has",
        Some(NeedsWorkers::Batches) => {
            "it decides at batches of packets and fill levels of rings, and here the kernel serves \
             the requests"
        }
        Some(NeedsWorkers::Polling) => {
            "it lets cores poll, and here the kernel waits for interrupts"
        }
    };
    let why = format!(
        "{why}; policies by load work: performance, ondemand, conservative, powersave-governor, \
         schedutil, copi"
    );
    Err(SpecError { text: spec.to_string(), problems: vec![SpecProblem::Unsupported(why)] })
}

struct Engine<'a> {
    server: &'a RequestServer,
    costs: Costs,
    platform: Platform,
    looks: Looks,
    cores: Vec<Core>,
    sink: Sink,
    now: u64,
    /// Settings that the cores follow, and the transition to those that the policy wants.
    point: OperatingPoint,
    control: ControlLoop,
    knobs: SimKnobs,
    /// Frequency change of each core.
    frequencies: Vec<UnderWay>,
    /// Earliest time at which a frequency or a postponed step is due.
    due: u64,
    uncore_joules: f64,
    uncore_since: u64,
    transitions: u64,
    queue_views: Vec<QueueView>,
    core_views: Vec<CoreView>,
    asked: Option<Totals>,
}

impl<'a> Engine<'a> {
    fn run(
        setting: &'a RequestSetting<'a>,
        knobs: KnobBehaviour,
        make: impl FnOnce(&BuildContext<'_>) -> Result<Box<dyn Policy>, SpecError>,
        trace: bool,
    ) -> Result<(RequestReport, Trace), RequestError> {
        let started = Instant::now();
        let end = setting.check()?;
        let mut engine = Self::new(setting, knobs, make)?;
        engine.decide(Trigger::Start);
        engine.run_to(setting.warmup.as_picos());
        engine.sink.latency.reset();
        engine.sink.trace = trace.then(Vec::new);
        for core in &mut engine.cores {
            core.book_period();
            core.periods.clear();
        }
        let from = engine.totals();
        engine.run_to(end);
        let until = engine.totals();
        engine.cores.iter_mut().for_each(Core::book_period);
        let mut report = RequestReport::between(&from, &until, setting, &engine.platform);
        report.take_latency(&engine.sink.latency);
        report.take_periods(engine.cores.iter().map(|core| core.periods.as_slice()));
        report.policy_remark = engine.control.policy().remark();
        report.last_changes = engine.control.changes(0, &engine.platform);
        if !engine.knobs.are_ideal() {
            report.knobs = engine.control.ledger().entries().cloned().collect();
        }
        report.wall_seconds = started.elapsed().as_secs_f64();
        Ok((report, engine.sink.trace.unwrap_or_default()))
    }

    fn new(
        setting: &'a RequestSetting<'a>,
        knobs: KnobBehaviour,
        make: impl FnOnce(&BuildContext<'_>) -> Result<Box<dyn Policy>, SpecError>,
    ) -> Result<Self, RequestError> {
        let server = setting.server;
        let requests = &setting.requests;
        let name = requests.workload.name();
        let service = server.services.get(name).ok_or_else(|| RequestError::Workload {
            server: server.name.clone(),
            workload: name,
            known: server.services.keys().cloned().collect::<Vec<_>>().join(", "),
        })?;
        let mut platform = request_platform(server);
        let whole = platform.cores;
        let cores = setting.cores.unwrap_or(whole).clamp(1, whole);
        platform.cores = cores;
        platform.queues.truncate(cores);
        platform.check()?;
        let link = server.nic.link.0 * server.nic.ports as f64;
        let offered = requests.rate * requests.mean_response_bytes() * 8.0;
        if offered > link {
            let (offered_gbps, link_gbps) = (offered / 1e9, link / 1e9);
            return Err(RequestError::BeyondLink { offered_gbps, link_gbps });
        }
        let context =
            BuildContext { platform: &platform, server: None, packet: None, seed: setting.seed };
        let policy = make(&context)?;
        let looks = policy.looks_at();
        let costs = Costs::new(server, *service);
        let point = OperatingPoint::full(&platform);
        let shares = requests.shares(whole, server.nic.redirect_table_entries, setting.seed);
        let made = (0..cores).map(|core| {
            let rate = requests.rate * shares[core];
            let arrivals = Arrivals::new(requests, rate, setting.seed, core);
            Core::new(&costs, arrivals, platform.fastest())
        });
        let asked = looks.latency.then(|| Latency::with_bound(looks.late_after));
        Ok(Self {
            cores: made.collect(),
            server,
            costs,
            looks,
            sink: Sink { latency: Latency::new(), asked, trace: None },
            now: 0,
            control: ControlLoop::new(policy, &platform, point.clone(), knobs.pace, DECISIONS_KEPT),
            knobs: SimKnobs::new(platform.clone(), knobs, setting.seed),
            point,
            frequencies: vec![UnderWay::default(); cores],
            due: u64::MAX,
            uncore_joules: 0.0,
            uncore_since: 0,
            transitions: 0,
            queue_views: vec![QueueView::default(); cores],
            core_views: vec![CoreView::default(); cores],
            asked: None,
            platform,
        })
    }

    fn run_to(&mut self, mark: u64) {
        while self.now < mark {
            let timer = self.control.ask_again().at.as_picos().max(self.now + 1);
            let until = mark.min(timer).min(self.due.max(self.now + 1));
            for core in &mut self.cores {
                core.advance(&self.costs, until, &mut self.sink);
            }
            self.now = until;
            if until >= self.due {
                self.come_due();
            }
            if until == timer {
                self.decide(Trigger::Timer);
            }
        }
    }

    fn decide(&mut self, trigger: Trigger) {
        self.show();
        let power = self.looks.power.then(|| self.mean_power());
        let now = Time::from_picos(self.now);
        let observation = Observation {
            latency: self.sink.asked.as_mut().map(Latency::take_view),
            power,
            ..Observation::new(now, &self.platform, trigger, &self.queue_views, &self.core_views)
        };
        let changed = self.control.decide(&observation);
        if trigger == Trigger::Start {
            self.start();
        } else if changed {
            self.control.act(now, &mut self.knobs);
            self.follow_knobs();
        }
        self.set_moderation();
    }

    /// Starts the server in the operating point of the first decision.
    fn start(&mut self) {
        self.control.act(Time::from_picos(self.now), &mut self.knobs);
        let Self { knobs, point, platform, .. } = self;
        point.copy_from(&knobs.point);
        for ((number, core), frequency) in
            self.cores.iter_mut().enumerate().zip(point.frequencies(platform))
        {
            core.set_state(&self.costs, frequency);
            core.idle_limit = point.cores[number].idle_limit;
        }
        self.look_ahead();
    }

    /// Applies the settings of the knobs to the cores. A frequency takes effect after the time that
    /// the hardware needs.
    fn follow_knobs(&mut self) {
        let now = Time::from_picos(self.now);
        let Self { platform, knobs, point, frequencies, transitions, .. } = self;
        let takes = platform.frequency_transition;
        let mut begins = false;
        let changes = knobs.point.frequencies(platform).zip(point.frequencies(platform));
        for ((new, old), under_way) in changes.zip(frequencies) {
            if new != old {
                begins |= under_way.due().is_none();
                under_way.ask(now, takes, new);
            }
        }
        *transitions += u64::from(begins);
        point.copy_from(&knobs.point);
        for (core, settings) in self.cores.iter_mut().zip(&point.cores) {
            core.idle_limit = settings.idle_limit;
        }
        self.look_ahead();
    }

    /// Applies frequencies and postponed steps that are due.
    fn come_due(&mut self) {
        let now = Time::from_picos(self.now);
        self.take_frequencies(now);
        if now >= self.control.due() {
            self.control.carry_on(now, &mut self.knobs);
            self.follow_knobs();
            self.set_moderation();
        }
        self.look_ahead();
    }

    /// Applies the frequency changes that are due. If another frequency was requested meanwhile,
    /// its change begins.
    fn take_frequencies(&mut self, now: Time) {
        self.book_uncore();
        let Self { platform, costs, cores, frequencies, transitions, .. } = self;
        let mut begins = false;
        for (core, under_way) in cores.iter_mut().zip(frequencies) {
            if let Some(frequency) = under_way.take(now, platform.frequency_transition) {
                core.set_state(costs, frequency);
                begins |= under_way.due().is_some();
            }
        }
        *transitions += u64::from(begins);
    }

    /// Determines the next time at which something is due.
    fn look_ahead(&mut self) {
        let first = self.frequencies.iter().filter_map(UnderWay::due).min();
        self.due = first.unwrap_or(Time::NEVER).min(self.control.due()).as_picos();
    }

    /// Sets the moderation of each queue: by the driver's rule if the policy leaves it to the
    /// driver, otherwise as set by the knobs.
    fn set_moderation(&mut self) {
        let moderation = self.server.nic.moderation;
        for (number, core) in self.cores.iter_mut().enumerate() {
            match self.control.policy().driver_rule(number) {
                Some(kind) => {
                    let same =
                        matches!(&core.moderation, Moderation::Driver(rule) if rule.kind() == kind);
                    if !same {
                        core.set_moderation(Moderation::Driver(Rule::new(kind)));
                    }
                }
                None => {
                    let wanted = self.point.moderation[number];
                    let period = moderation.map_or(wanted, |card| card.nearest(wanted)).as_picos();
                    if !matches!(core.moderation, Moderation::Set(set) if set == period) {
                        core.set_moderation(Moderation::Set(period));
                    }
                }
            }
        }
    }

    fn book_uncore(&mut self) {
        let fastest = self.cores.iter().map(|core| core.state).max().unwrap_or(0);
        let watts = self.server.power.uncore.get(fastest).copied().unwrap_or(Watts::ZERO);
        let span = self.now - std::mem::replace(&mut self.uncore_since, self.now);
        self.uncore_joules += watts.0 * span as f64 * 1e-12;
    }

    fn show(&mut self) {
        for (number, core) in self.cores.iter_mut().enumerate() {
            core.receive(&self.costs, self.now);
            let spent = &core.spent;
            self.queue_views[number] = QueueView {
                fill: core.fill(),
                arrivals: spent.arrivals,
                drops: spent.drops,
                bytes: Some(spent.bytes),
                ..QueueView::default()
            };
            let mut residency = [Span::ZERO; MAX_IDLE_STATES];
            let states = self.platform.idle_states.len();
            for (index, picos) in spent.idle.iter().enumerate() {
                if let Some(sum) = residency.get_mut(index % states) {
                    *sum += Span::from_picos(*picos);
                }
            }
            self.core_views[number] = CoreView {
                useful: Span::from_picos(spent.application + spent.kernel),
                empty: Span::ZERO,
                asleep: Span::from_picos(spent.asleep()),
                sleeps: spent.sleeps,
                packets: spent.segments,
                idle_state: core.idle_state(),
                frequency: self.platform.frequencies.get(core.state).copied(),
                residency: Some(residency),
                softirq: Some(Span::from_picos(spent.kernel)),
            };
        }
    }

    fn mean_power(&mut self) -> PowerView {
        let now = self.totals();
        let before = self.asked.replace(now.clone()).unwrap_or_else(|| now.zero());
        let seconds = now.seconds_since(&before);
        let parts = now.parts_since(&before, self.server, &self.platform, self.cores.len());
        let watts = if seconds > 0.0 { parts.total() } else { Watts::ZERO };
        PowerView {
            watts,
            over: Span::from_picos(now.at - before.at),
            provenance: Provenance::MODELLED,
        }
    }

    fn totals(&mut self) -> Totals {
        self.book_uncore();
        for core in &mut self.cores {
            core.receive(&self.costs, self.now);
        }
        Totals {
            at: self.now,
            spent: self.cores.iter().map(|core| core.spent.clone()).collect::<Vec<Spent>>(),
            backlog: self.cores.iter().map(Core::backlog).sum(),
            uncore_joules: self.uncore_joules,
            transitions: self.transitions,
            decisions: self.control.count(),
        }
    }
}
