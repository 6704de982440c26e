//! The simulation: brings all cores from one common event to the next.

use crate::context::{Costs, Sink, Stop, Watched};
use crate::cores::Core;
use crate::error::SimError;
use crate::latency::Latency;
use crate::make::CoreMake;
use crate::nic::Nic;
use crate::platform::platform_of;
use crate::profile::{Phase, Stopwatch};
use crate::report::Report;
use crate::setting::Setting;
use crate::states::Spent;
use crate::totals::Totals;
use std::time::Instant;
use wattline_policy::{
    AskAgain, BuildContext, CoreView, Observation, OperatingPoint, Platform, Policy, QueueView,
    Trigger, build,
};
use wattline_traffic::{Block, Source};
use wattline_units::{PacketsPerSecond, Span, Time};

/// Time over which the offered rate is smoothed that policies are shown.
const RATE_SMOOTHING_SECONDS: f64 = 1e-3;

/// Simulates one server under one policy with these packets. The same setting and packets
/// give the same report, `wall_seconds` and what follows from it aside.
///
/// # Errors
/// When the setting contradicts itself, the policy cannot be made for the server, or the
/// packets cannot be had.
pub fn run(setting: &Setting<'_>, source: &mut dyn Source) -> Result<Report, SimError> {
    let started = Instant::now();
    let end = setting.check()?;
    let mut engine = Engine::new(setting, source)?;
    engine.start()?;
    engine.run_to(setting.warmup.as_picos())?;
    engine.sink.latency.reset();
    let at_start = engine.totals();
    let mut whole = Latency::new()?;
    let mut intervals = Vec::new();
    let mut from = at_start.clone();
    while engine.now < end {
        let step = setting.interval.unwrap_or(setting.duration).as_picos();
        engine.run_to(engine.now.saturating_add(step).min(end))?;
        let until = engine.totals();
        if setting.interval.is_some() {
            let latency = &engine.sink.latency;
            let (server, platform) = (setting.server, &engine.platform);
            intervals.push(Report::between(&from, &until, latency, server, platform));
        }
        whole.add(&engine.sink.latency)?;
        engine.sink.latency.reset();
        from = until;
    }
    let mut report = Report::between(&at_start, &from, &whole, setting.server, &engine.platform);
    report.intervals = intervals;
    report.states = engine.sink.states.take().unwrap_or_default();
    report.profile = setting.profile.then_some(engine.stopwatch.profile);
    report.wall_seconds = started.elapsed().as_secs_f64();
    report.simulated_packets_per_second = from.arrivals as f64 / report.wall_seconds;
    Ok(report)
}

struct Engine<'a> {
    setting: &'a Setting<'a>,
    platform: Platform,
    policy: Box<dyn Policy>,
    source: &'a mut dyn Source,
    block: Block,
    /// All packets up to here have been led to their rings.
    horizon: u64,
    offered: f64,
    nic: Nic,
    cores: Vec<Core>,
    make: CoreMake<'a>,
    sink: Sink,
    now: u64,
    ask: AskAgain,
    /// The operating point, and the one that the policy wants.
    point: OperatingPoint,
    wanted: OperatingPoint,
    /// When the frequencies asked for take effect.
    frequency_due: u64,
    queue_views: Vec<QueueView>,
    core_views: Vec<CoreView>,
    totals: Totals,
    /// Up to here the integrals over the operating point are booked.
    point_booked: u64,
    stopwatch: Stopwatch,
}

impl<'a> Engine<'a> {
    fn new(setting: &'a Setting<'a>, source: &'a mut dyn Source) -> Result<Self, SimError> {
        let server = setting.server;
        let platform = platform_of(server);
        platform.check()?;
        let context = BuildContext {
            platform: &platform,
            server: Some(server),
            packet: server
                .packet_cost(setting.application, setting.mean_bytes)
                .map(|cost| (cost, setting.mean_bytes)),
            seed: setting.seed,
        };
        let policy = build(&setting.policy, &context)?;
        let point = OperatingPoint::full(&platform);
        let make = CoreMake::new(server, setting.application, setting.seed)?;
        let mut sink = Sink::new(platform.cores, server.nic.pass_through.as_picos())?;
        sink.states = setting.log_states.then(Vec::new);
        let cores = (0..platform.cores).map(|number| make.core(number, &point, &platform));
        Ok(Self {
            setting,
            policy,
            source,
            block: Block::new(),
            horizon: 0,
            offered: 0.0,
            nic: Nic::new(&server.nic, point.active),
            cores: cores.collect(),
            make,
            sink,
            now: 0,
            ask: AskAgain::NEVER,
            wanted: point.clone(),
            point,
            frequency_due: u64::MAX,
            queue_views: vec![QueueView::default(); platform.queues.len()],
            core_views: vec![CoreView::default(); platform.cores],
            totals: Totals::default(),
            point_booked: 0,
            stopwatch: Stopwatch::new(setting.profile),
            platform,
        })
    }

    /// Asks the policy for the first operating point, which holds from the start.
    fn start(&mut self) -> Result<(), SimError> {
        self.next_block()?;
        self.decide(Trigger::Start);
        self.take_frequencies();
        Ok(())
    }

    /// Brings everything to `mark`.
    fn run_to(&mut self, mark: u64) -> Result<(), SimError> {
        while self.now < mark {
            if self.now >= self.horizon {
                self.next_block()?;
            }
            let timer = self.ask.at.as_picos().max(self.now + 1);
            let until = mark.min(self.horizon).min(timer).min(self.frequency_due);
            let stop = self.advance(until);
            if self.now == self.frequency_due {
                self.take_frequencies();
            }
            let trigger = match stop {
                Some((core, stop)) => {
                    self.cores[core].asked(stop);
                    Some(match stop {
                        Stop::Batch { port, taken, .. } => {
                            Trigger::Batch { queue: port * self.cores.len() + core, taken }
                        }
                        Stop::EmptyPolls { .. } => Trigger::EmptyPolls { core },
                    })
                }
                None => (self.now == timer).then_some(Trigger::Timer),
            };
            if let Some(trigger) = trigger {
                self.decide(trigger);
                self.stopwatch.lap(Phase::Decide);
            }
        }
        Ok(())
    }

    /// Runs all cores to `until`, or to where one of them stops for the policy.
    fn advance(&mut self, mut until: u64) -> Option<(usize, Stop)> {
        let watched = Watched {
            batches: true,
            empty_polls: self.ask.after_empty_polls.map(std::num::NonZeroU32::get),
        };
        // Watched cores first: where one stops, the others go no further. With several, one
        // may have run ahead by a batch when another stops earlier.
        let mut first = None;
        let watched_cores = self.ask.on_batch.intersection(self.platform.all_cores());
        for core in watched_cores.iter() {
            if let Some(stop) = self.cores[core].advance(until, watched, &mut self.sink)
                && (first.is_none() || stop.at() < until)
            {
                until = stop.at();
                first = Some((core, stop));
            }
        }
        for core in &mut self.cores {
            if !self.ask.on_batch.contains(core.number) {
                core.advance(until, Watched::NOT, &mut self.sink);
            }
        }
        self.now = until;
        self.stopwatch.lap(Phase::Forward);
        self.book_awake();
        if let Some(moved_at) = self.sink.watch.moved_at() {
            let waits = |packet: &wattline_traffic::Packet| packet.time.as_picos() <= moved_at;
            let rings = self.cores.iter().flat_map(|core| &core.rings);
            if !rings.flat_map(|ring| ring.waiting().take(1)).any(waits) {
                self.sink.watch.end();
            }
        }
        self.stopwatch.lap(Phase::Account);
        first
    }

    /// Books the energy of the shared part of the chips up to now.
    fn book_awake(&mut self) {
        let any = self.sink.awake.measure(self.now);
        self.totals.any_awake += any;
        let fastest = self.point.active.iter().map(|core| self.cores[core].costs.frequency).max();
        let frequency = self.platform.frequencies[fastest.unwrap_or(0)];
        let power = self.setting.server.power.uncore(frequency);
        self.totals.uncore_joules += (power * Span::from_picos(any)).0;
    }

    fn next_block(&mut self) -> Result<(), SimError> {
        self.source.next_block(&mut self.block)?;
        self.stopwatch.lap(Phase::Traffic);
        let from = self.horizon;
        self.horizon = self.block.last().map_or(u64::MAX, |last| last.time.as_picos());
        // Packets at one moment may go on in the next block.
        let span = (self.horizon.max(from + 1) - from) as f64 * 1e-12;
        let rate = self.block.len() as f64 / span;
        let weight = if from == 0 { 1.0 } else { 1.0 - (-span / RATE_SMOOTHING_SECONDS).exp() };
        self.offered += weight * (rate - self.offered);
        self.nic.lead(self.now, &self.block, &mut self.cores);
        self.stopwatch.lap(Phase::Links);
        Ok(())
    }

    fn decide(&mut self, trigger: Trigger) {
        self.observe();
        let observation = Observation {
            platform: &self.platform,
            trigger,
            queues: &self.queue_views,
            cores: &self.core_views,
            latency: None,
            offered: Some(PacketsPerSecond(self.offered)),
        };
        let now = Time::from_picos(self.now);
        self.ask = self.policy.decide(now, &observation, &mut self.wanted);
        self.totals.decisions += 1;
        if self.wanted != self.point || trigger == Trigger::Start {
            self.apply();
        }
    }

    fn observe(&mut self) {
        let cores = self.cores.len();
        for (core, view) in self.cores.iter_mut().zip(&mut self.core_views) {
            core.book(self.now, &mut self.sink);
            core.admit(self.now);
            *view = CoreView {
                useful: Span::from_picos(core.spent.totals.useful),
                empty: Span::from_picos(core.spent.totals.empty),
                asleep: Span::from_picos(core.spent.totals.idle),
                sleeps: core.counts.sleeps,
                packets: core.counts.packets,
                idle_state: core.idle_state(self.now),
            };
            for (port, ring) in core.rings.iter().enumerate() {
                self.queue_views[port * cores + core.number] = QueueView {
                    fill: u32::try_from(ring.fill()).unwrap_or(u32::MAX),
                    arrivals: ring.arrivals,
                    drops: ring.drops,
                };
            }
        }
    }

    /// Goes over to the operating point that the policy wants, as far as the server can.
    fn apply(&mut self) {
        let Self { platform, wanted, point, totals, .. } = self;
        wanted.bound(platform, point);
        let cores_change = wanted.active != point.active;
        let frequencies_change = wanted.frequencies(platform).ne(point.frequencies(platform));
        totals.core_changes += u64::from(cores_change);
        totals.frequency_changes += u64::from(frequencies_change);
        self.book_point();
        self.point.copy_from(&self.wanted);
        if frequencies_change {
            let transition = self.setting.server.processor.frequency_transition;
            self.frequency_due = self.now + transition.as_picos().max(1);
        }
        if cores_change {
            let Self { nic, cores, sink, now, point, .. } = self;
            let moved = nic.redirect(*now, point.active, cores, |packet| {
                sink.watch.begin(packet.flow, *now);
            });
            self.totals.entries_moved += moved as u64;
            self.take_costs();
        }
        let count = self.cores.len();
        for core in &mut self.cores {
            let number = core.number;
            let moderation = &self.point.moderation;
            let periods = (0..core.rings.len()).map(|port| moderation[port * count + number]);
            core.set(
                self.now,
                self.point.cores[number],
                self.point.active.contains(number),
                self.point.batch,
                periods.map(Span::as_picos),
                &mut self.sink,
            );
        }
    }

    /// The frequencies asked for take effect.
    fn take_frequencies(&mut self) {
        self.book_point();
        self.frequency_due = u64::MAX;
        for core in &mut self.cores {
            core.book(self.now, &mut self.sink);
        }
        let wanted: Vec<usize> = self.point.frequencies(&self.platform).collect();
        for (core, frequency) in self.cores.iter_mut().zip(wanted) {
            core.costs.frequency = frequency;
        }
        self.take_costs()
    }

    /// Reckons anew what cores cost, after a change of frequency or number of active cores.
    fn take_costs(&mut self) {
        let mut last: Option<Costs> = None;
        for core in &mut self.cores {
            let frequency = core.costs.frequency;
            let costs = match last.take().filter(|last| last.frequency == frequency) {
                Some(costs) => costs,
                None => self.make.costs(frequency, self.point.active.len()),
            };
            last = Some(costs.clone());
            core.set_costs(costs);
        }
    }

    /// Books the integrals over the operating point up to now.
    fn book_point(&mut self) {
        let picos = self.now - self.point_booked;
        self.point_booked = self.now;
        self.totals.active_picos += picos * self.point.active.len() as u64;
        let hertz = |core: usize| self.platform.frequencies[self.cores[core].costs.frequency].0;
        let sum: f64 = self.point.active.iter().map(hertz).sum();
        self.totals.cycles += sum * picos as f64 * 1e-12;
    }

    /// Everything counted up to now.
    fn totals(&mut self) -> Totals {
        self.book_point();
        for core in &mut self.cores {
            core.book(self.now, &mut self.sink);
            core.admit(self.now);
        }
        let mut totals = self.totals.clone();
        totals.at = self.now;
        totals.beyond_link = self.nic.beyond_link;
        totals.reordered = self.sink.watch.reordered;
        for ring in self.cores.iter().flat_map(|core| &core.rings) {
            totals.arrivals += ring.arrivals;
            totals.drops += ring.drops;
            totals.waiting += ring.fill() as u64;
            totals.arrival_sum = totals.arrival_sum.wrapping_add(ring.arrival_sum);
        }
        totals.cores = self.cores.iter().map(|core| core.counts).collect();
        totals.spent = self.cores.iter().map(|core| core.spent.clone()).collect::<Vec<Spent>>();
        totals.open_overload =
            self.cores.iter().map(|core| core.open_overload(self.now)).max().unwrap_or(0);
        totals
    }
}
