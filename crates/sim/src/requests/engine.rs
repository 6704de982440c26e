//! Brings all cores from one decision of the policy to the next.

use super::core::{Core, Moderation, Sink};
use super::costs::Costs;
use super::platform::request_platform;
use super::report::{RequestReport, Totals};
use super::setting::{RequestError, RequestSetting};
use super::spent::Spent;
use rayon::prelude::*;
use std::time::Instant;
use wattline_cores::Latency;
use wattline_policy::moderation::Rule;
use wattline_policy::{
    AskAgain, BuildContext, CoreView, Looks, MAX_IDLE_STATES, Observation, OperatingPoint,
    Platform, Policy, PowerView, QueueView, SpecError, Trigger, build,
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
    run_requests_with(setting, |context| build(&setting.policy, context))
}

/// Like [`run_requests`], with a policy of the caller instead of the setting's.
///
/// # Errors
/// Fails like [`run_requests`], or when `make` fails.
pub fn run_requests_with(
    setting: &RequestSetting<'_>,
    make: impl FnOnce(&BuildContext<'_>) -> Result<Box<dyn Policy>, SpecError>,
) -> Result<RequestReport, RequestError> {
    Engine::run(setting, make, false).map(|(report, _)| report)
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
    Engine::run(setting, |context| build(&setting.policy, context), true)
}

struct Engine<'a> {
    server: &'a RequestServer,
    costs: Costs,
    platform: Platform,
    policy: Box<dyn Policy>,
    looks: Looks,
    cores: Vec<Core>,
    sink: Sink,
    now: u64,
    ask: AskAgain,
    point: OperatingPoint,
    wanted: OperatingPoint,
    frequency_due: u64,
    frequency_under_way: Vec<usize>,
    uncore_joules: f64,
    uncore_since: u64,
    transitions: u64,
    decisions: u64,
    queue_views: Vec<QueueView>,
    core_views: Vec<CoreView>,
    asked: Option<Totals>,
}

impl<'a> Engine<'a> {
    fn run(
        setting: &'a RequestSetting<'a>,
        make: impl FnOnce(&BuildContext<'_>) -> Result<Box<dyn Policy>, SpecError>,
        trace: bool,
    ) -> Result<(RequestReport, Trace), RequestError> {
        let started = Instant::now();
        let end = setting.check()?;
        let mut engine = Self::new(setting, make)?;
        engine.decide(Trigger::Start);
        engine.take_frequencies();
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
        report.policy_remark = engine.policy.remark();
        report.wall_seconds = started.elapsed().as_secs_f64();
        Ok((report, engine.sink.trace.unwrap_or_default()))
    }

    fn new(
        setting: &'a RequestSetting<'a>,
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
            policy,
            looks,
            sink: Sink { latency: Latency::new(), asked, trace: None },
            now: 0,
            ask: AskAgain::NEVER,
            wanted: point.clone(),
            point,
            frequency_due: 0,
            frequency_under_way: vec![platform.fastest(); cores],
            uncore_joules: 0.0,
            uncore_since: 0,
            transitions: 0,
            decisions: 0,
            queue_views: vec![QueueView::default(); cores],
            core_views: vec![CoreView::default(); cores],
            asked: None,
            platform,
        })
    }

    fn run_to(&mut self, mark: u64) {
        while self.now < mark {
            let timer = self.ask.at.as_picos().max(self.now + 1);
            let until = mark.min(timer).min(self.frequency_due);
            for core in &mut self.cores {
                core.advance(&self.costs, until, &mut self.sink);
            }
            self.now = until;
            if until == self.frequency_due {
                self.take_frequencies();
            }
            if until == timer {
                self.decide(Trigger::Timer);
            }
        }
    }

    fn decide(&mut self, trigger: Trigger) {
        self.decisions += 1;
        self.show();
        let power = self.looks.power.then(|| self.mean_power());
        let observation = Observation {
            platform: &self.platform,
            trigger,
            queues: &self.queue_views,
            cores: &self.core_views,
            latency: self.sink.asked.as_mut().map(Latency::take_view),
            power,
            entries: &[],
            offered: None,
        };
        let now = Time::from_picos(self.now);
        self.ask = self.policy.decide(now, &observation, &mut self.wanted);
        let Self { wanted, point, platform, .. } = self;
        wanted.bound(platform, point);
        let frequencies_change = wanted.frequencies(platform).ne(point.frequencies(platform));
        point.copy_from(wanted);
        if trigger == Trigger::Start {
            self.frequency_under_way = self.point.frequencies(&self.platform).collect();
        } else if frequencies_change && self.frequency_due == u64::MAX {
            self.change_frequencies();
        }
        for (number, core) in self.cores.iter_mut().enumerate() {
            core.idle_limit = self.point.cores[number].idle_limit;
            let moderation = self.server.nic.moderation;
            match self.policy.driver_rule(number) {
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

    /// Starts the change to the frequencies that are asked for now.
    fn change_frequencies(&mut self) {
        let transition = self.platform.frequency_transition.as_picos().max(1);
        self.frequency_due = self.now + transition;
        self.frequency_under_way.clear();
        self.frequency_under_way.extend(self.point.frequencies(&self.platform));
        self.transitions += 1;
    }

    /// Ends the change; starts the next one if other frequencies were asked for meanwhile.
    fn take_frequencies(&mut self) {
        self.book_uncore();
        self.frequency_due = u64::MAX;
        for (core, state) in self.cores.iter_mut().zip(&self.frequency_under_way) {
            core.set_state(&self.costs, *state);
        }
        if self.point.frequencies(&self.platform).ne(self.frequency_under_way.iter().copied()) {
            self.change_frequencies();
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
                oldest: None,
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
            decisions: self.decisions,
        }
    }
}
