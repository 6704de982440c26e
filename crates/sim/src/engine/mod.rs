//! The simulation loop: brings all cores from one common event to the next.

mod accounts;
mod follow;

use crate::error::SimError;
use crate::knobs::SimKnobs;
use crate::nic::Nic;
use crate::profile::{Phase, Stopwatch};
use crate::setting::Setting;
use crate::totals::Totals;
use crate::views::Views;
use wattline_cores::{Core, CoreMake, Egress, ModelError, Sink, Stop, Watched, platform_of};
use wattline_governor::control_loop::ControlLoop;
use wattline_governor::decisions::Decision;
use wattline_governor::ledger::Entry;
use wattline_governor::under_way::UnderWay;
use wattline_policy::Latency;
use wattline_policy::{
    BuildContext, CoreSet, Looks, NeedsWorkers, Observation, OperatingPoint, Platform, Policy,
    Trigger,
};
use wattline_server::{Path, ServerModel};
use wattline_traffic::{Block, Source};
use wattline_units::{PacketsPerSecond, Time};

/// Length in bytes of the packets with which the model's `pass_through` was measured.
const SHORT_BYTES: u16 = 64;
/// Time in picoseconds by which watched cores advance in turn, so that no core runs further ahead
/// of one that stops for the policy.
const STRIDE: u64 = 2_000_000;
/// Time constant of the smoothed offered rate that clairvoyant policies see.
const RATE_SMOOTHING_SECONDS: f64 = 1e-3;
/// Number of decisions that are kept for the report.
pub(crate) const DECISIONS_KEPT: usize = 1_000;

/// Checks that a policy can work with the information of NAPI polls, if the server's packets are
/// polled so.
pub(crate) fn check_polls(
    policy: &mut dyn Policy,
    server: &ServerModel,
    platform: &Platform,
) -> Result<(), SimError> {
    if server.path == Path::Workers {
        return Ok(());
    }
    let ask = NeedsWorkers::and_ask(policy, platform).map_err(|needs| {
        let why = match needs {
            NeedsWorkers::OfferedRate => "it needs the offered rate, which is unknown there",
            NeedsWorkers::Batches => "it asks for batches, fill levels or empty polls of workers",
            NeedsWorkers::Polling => "its cores poll, and the kernel waits for interrupts",
        };
        SimError::Path(why.to_owned())
    })?;
    ask.on_streak.check_polls().map_err(|why| SimError::Path(why.to_string()))
}

/// One simulation run.
pub(crate) struct Engine<'a> {
    setting: &'a Setting<'a>,
    pub platform: Platform,
    source: &'a mut dyn Source,
    block: Block,
    /// Time up to which all packets have been directed to their rings.
    horizon: u64,
    /// Time of the latest packet that the source has given.
    last_packet: Option<u64>,
    offered: f64,
    nic: Nic,
    cores: Vec<Core>,
    make: CoreMake<'a>,
    pub sink: Sink,
    pub now: u64,
    /// Present operating point of the cores, and the transition to the one that the policy wants.
    point: OperatingPoint,
    control: ControlLoop,
    knobs: SimKnobs,
    /// Frequency change of each core, and the earliest time at which one takes effect.
    frequencies: Vec<UnderWay>,
    frequency_due: u64,
    /// Earliest time at which a frequency or a postponed step is due.
    due: u64,
    views: Views,
    /// Parts of the observation that the policy uses.
    looks: Looks,
    /// True if only the watched cores have reached `now`. The other cores follow before anything
    /// happens that concerns them.
    lagging: bool,
    totals: Totals,
    /// Totals when the policy was last asked, if it uses power.
    asked_totals: Totals,
    /// Time up to which the integrals over the operating point are accounted.
    point_booked: u64,
    pub stopwatch: Stopwatch,
}

impl<'a> Engine<'a> {
    /// Creates an engine before its start. `make` builds the policy for the simulated machine.
    pub fn new(
        setting: &'a Setting<'a>,
        source: &'a mut dyn Source,
        make: impl FnOnce(&BuildContext<'_>) -> Result<Box<dyn Policy>, SimError>,
    ) -> Result<Self, SimError> {
        let server = setting.server;
        let platform = platform_of(server);
        platform.check().map_err(ModelError::from)?;
        let mut policy = make(&setting.context(&platform))?;
        check_polls(&mut *policy, server, &platform)?;
        let looks = policy.looks_at();
        let point = OperatingPoint::full(&platform);
        let core_make = CoreMake::new(server, setting.application, setting.seed)?;
        let mut sink = Sink::new(platform.cores, server.nic.pass_through.as_picos());
        sink.states = setting.log_states.then(Vec::new);
        if setting.output_links {
            let egress = Egress::new(&server.nic, platform.cores);
            // The measured `pass_through` includes the time of short packets on the link.
            sink.pass_through = sink.pass_through.saturating_sub(egress.picos(SHORT_BYTES));
            sink.egress = Some(Box::new(egress));
        }
        sink.asked = looks.latency.then(|| Latency::with_bound(looks.late_after));
        let cores = (0..platform.cores).map(|number| core_make.core(number, &point, &platform));
        Ok(Self {
            setting,
            looks,
            source,
            block: Block::new(),
            horizon: 0,
            last_packet: None,
            offered: 0.0,
            nic: Nic::new(&server.nic, point.active, looks.entries),
            cores: cores.collect(),
            make: core_make.clone(),
            sink,
            now: 0,
            control: ControlLoop::new(
                policy,
                &platform,
                point.clone(),
                setting.knobs.pace,
                DECISIONS_KEPT,
            ),
            knobs: SimKnobs::new(platform.clone(), setting.knobs, setting.seed),
            point,
            frequencies: vec![UnderWay::default(); platform.cores],
            frequency_due: u64::MAX,
            due: u64::MAX,
            views: Views::new(&platform),
            lagging: false,
            totals: Totals::default(),
            asked_totals: Totals::default(),
            point_booked: 0,
            stopwatch: Stopwatch::new(setting.profile),
            platform,
        })
    }

    /// Asks the policy for the first operating point, which applies from the start.
    pub fn start(&mut self) -> Result<(), SimError> {
        self.next_block()?;
        self.decide(Trigger::Start);
        // They apply from the start, so no change is under way.
        self.frequencies.fill(UnderWay::default());
        for (core, frequency) in self.cores.iter_mut().zip(self.point.frequencies(&self.platform)) {
            core.costs.frequency = frequency;
        }
        self.take_costs();
        self.look_ahead();
        Ok(())
    }

    /// Returns the outcomes of the steps since the run began; empty if all knobs are ideal.
    pub fn knob_outcomes(&self) -> Vec<Entry> {
        let entries = self.control.ledger().entries();
        if self.knobs.are_ideal() { Vec::new() } else { entries.cloned().collect() }
    }

    /// Returns the last changes that the policy requested, with their reasons.
    pub fn last_changes(&self) -> Vec<Decision> {
        self.control.changes(0, &self.platform)
    }

    /// Brings the whole simulation to `mark`.
    pub fn run_to(&mut self, mark: u64) -> Result<(), SimError> {
        while self.now < mark {
            if self.now >= self.horizon {
                self.next_block()?;
            }
            let timer = self.control.ask_again().at.as_picos().max(self.now + 1);
            let until = mark.min(self.horizon).min(timer).min(self.due);
            let stop = self.advance(until);
            if self.now >= self.due {
                self.come_due();
            }
            let trigger = match stop {
                Some((core, stop)) => {
                    self.cores[core].asked(stop);
                    Some(stop.trigger(core, self.cores.len()))
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

    /// Brings the simulation to the end of the warm-up.
    ///
    /// # Errors
    /// [`SimError::EndsInWarmUp`] if no packet comes after the warm-up, and the errors of
    /// [`Self::run_to`].
    pub fn warm_up(&mut self) -> Result<(), SimError> {
        let warmup = self.setting.warmup;
        self.run_to(warmup.as_picos())?;
        if self.horizon <= self.now {
            self.next_block()?;
        }
        // A packet at exactly the end belongs to the warm-up.
        let is_over = self.horizon == u64::MAX && self.now > 0;
        let ended = self.last_packet.filter(|at| is_over && *at <= self.now);
        ended.map_or(Ok(()), |at| {
            let ends_seconds = at as f64 * 1e-12;
            Err(SimError::EndsInWarmUp { ends_seconds, warmup_seconds: warmup.as_seconds() })
        })
    }

    /// Runs all cores to `until`, or to the time at which one of them stops for the policy.
    fn advance(&mut self, mut until: u64) -> Option<(usize, Stop)> {
        // Watched cores first: once one stops, the others go no further. With several, one may have
        // run ahead by a batch when another one stops earlier. Fill levels and long streaks stop
        // cores so rarely that a core could run far ahead, and a policy that uses all cores would
        // see packets of the future; so the cores advance by strides.
        let mut first = None;
        let ask = *self.control.ask_again();
        let watched_cores = ask.watched().intersection(self.platform.all_cores());
        let looks_ahead =
            ask.on_fill.cores.len() > 1 || self.looks.whole && ask.on_streak.cores.len() > 1;
        let stride = if looks_ahead { STRIDE } else { u64::MAX };
        let mut to = self.now;
        while first.is_none() && to < until {
            to = until.min(to.saturating_add(stride));
            for core in watched_cores.iter() {
                let watched = Watched::by(&ask, core);
                if let Some(stop) = self.cores[core].advance(to, watched, &mut self.sink)
                    && (first.is_none() || stop.at() < to)
                {
                    to = stop.at();
                    first = Some((core, stop));
                }
            }
        }
        until = to;
        self.now = until;
        self.stopwatch.lap(Phase::Forward);
        // Cores do not influence each other until the operating point changes. If the policy uses
        // only the watched core, the others may follow later in longer spans, except while a move
        // of the indirection table is being watched.
        self.lagging = true;
        let alone = self.looks == Looks::TRIGGER;
        if first.is_none() || !alone || self.sink.watch.moved_at().is_some() {
            self.catch_up(ask.watched());
        }
        first
    }

    /// Brings the cores that were not watched to the time of the watched ones.
    fn catch_up(&mut self, watched: CoreSet) {
        if !std::mem::take(&mut self.lagging) {
            return;
        }
        for core in &mut self.cores {
            if !watched.contains(core.number) {
                core.advance(self.now, Watched::NOT, &mut self.sink);
            }
        }
        self.stopwatch.lap(Phase::Forward);
        self.book_awake();
        if let Some(moved_at) = self.sink.watch.moved_at() {
            let waits = |packet: &wattline_traffic::Packet| packet.picos <= moved_at;
            let rings = self.cores.iter().flat_map(|core| &core.rings);
            if self.sink.watch.is_over(self.now)
                && !rings.filter_map(|ring| ring.waiting().first()).any(waits)
            {
                self.sink.end_watch();
            }
        }
        self.sink.carry(self.now);
        self.stopwatch.lap(Phase::Account);
    }

    fn next_block(&mut self) -> Result<(), SimError> {
        self.source.next_block(&mut self.block)?;
        self.stopwatch.lap(Phase::Traffic);
        let from = self.horizon;
        self.horizon = self.block.last().map_or(u64::MAX, |last| last.picos);
        self.last_packet = self.block.last().map(|last| last.picos).or(self.last_packet);
        // Packets of the same time may continue in the next block.
        let span = (self.horizon.max(from + 1) - from) as f64 * 1e-12;
        let rate = self.block.len() as f64 / span;
        let weight = if from == 0 { 1.0 } else { 1.0 - (-span / RATE_SMOOTHING_SECONDS).exp() };
        self.offered += weight * (rate - self.offered);
        self.nic.steer(&self.block, &mut self.cores);
        self.stopwatch.lap(Phase::Links);
        Ok(())
    }

    fn decide(&mut self, trigger: Trigger) {
        match trigger {
            _ if self.looks.whole => {
                self.views.show_all(self.now, &mut self.cores, &mut self.sink);
            }
            Trigger::Batch { queue, .. }
            | Trigger::Fill { queue }
            | Trigger::Streak { queue, .. } => {
                self.views.show_queue(self.now, queue, &self.cores);
            }
            Trigger::Start
            | Trigger::Timer
            | Trigger::EmptyPolls { .. }
            | Trigger::Silence { .. } => {}
        }
        let power = self.looks.power.then(|| self.mean_power());
        let observation = Observation {
            now: Time::from_picos(self.now),
            platform: &self.platform,
            trigger,
            queues: &self.views.queues,
            cores: &self.views.cores,
            latency: self.sink.asked.as_mut().map(Latency::take_view),
            power,
            entries: self.nic.arrivals(&self.cores),
            offered: self.looks.offered.then_some(PacketsPerSecond(self.offered)),
        };
        let watched = self.control.ask_again().watched();
        let changed = self.control.decide(&observation) || trigger == Trigger::Start;
        self.totals.decisions = self.control.count();
        if changed || self.control.ask_again().watched() != watched {
            self.catch_up(watched);
        }
        if changed {
            self.apply();
        }
    }
}
