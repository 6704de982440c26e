//! The governor of the running router.

use super::error::RouterError;
use crate::config::{PowerPlatform, PowerSettings};
use crate::governor::Governor;
use crate::governor::account::{Interval, Totals};
use crate::governor::ledger::Entry;
use crate::governor::machine::Machine;
use crate::governor::runner::Runner;
use crate::scale::pacer::Pacer;
use crate::scale::{Scale, Setting};
use crate::stats::PowerStats;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use wattline_policy::{BuildContext, OperatingPoint, Platform, PolicySpec, build};
use wattline_ports::waiter::Waker;
use wattline_server::{ServerFile, ServerModel};
use wattline_sim::SimError;
use wattline_units::Time;

/// Mean length of a packet that policies reckon with: a backbone's mean, the traffic of a live
/// router is not known beforehand.
const MEAN_BYTES: u32 = 600;
/// Workers answer within so long, or the last figures are given once more.
const PATIENCE: Duration = Duration::from_secs(1);

/// The loop of a router, and what it last said of itself.
pub(super) struct Power {
    settings: PowerSettings,
    policy: &'static str,
    driver: Driver,
    last: Mutex<Last>,
}

enum Driver {
    Scale(Scale),
    Host(Runner<Box<dyn Machine>>),
}

/// What statistics are reckoned from.
struct Last {
    /// When they were asked for last, at first when the router was started.
    before: Option<Totals>,
    stats: PowerStats,
    over: bool,
}

/// The machine that `platform = "host"` governs: this one.
///
/// # Errors
/// Where it cannot be governed, and why.
pub(super) fn host_machine(
    _settings: &PowerSettings,
    _server: &ServerModel,
) -> Result<Box<dyn Machine>, RouterError> {
    let text = "[power] platform = \"host\": the knobs of this machine are not yet driven by \
                `run`; \"scale\" emulates a server, `wattline probe` shows what is there";
    Err(RouterError::Unfit(text.to_owned()))
}

/// What the configuration names, read before anything is opened.
pub(super) struct Plan {
    settings: PowerSettings,
    spec: PolicySpec,
    server: ServerModel,
}

impl Plan {
    /// `None` when nothing is to be governed.
    pub fn read(settings: &PowerSettings) -> Result<Option<Self>, RouterError> {
        if settings.platform == PowerPlatform::None {
            return Ok(None);
        }
        let spec = PolicySpec::parse(&settings.policy).map_err(|error| wrong("policy", &error))?;
        let file = ServerFile::load(&settings.server)?;
        let server = file.model().map_err(|error| wrong("server", &error))?.clone();
        Ok(Some(Self { settings: settings.clone(), spec, server }))
    }
}

fn wrong(key: &str, error: &dyn std::fmt::Display) -> RouterError {
    RouterError::Unfit(format!("[power] {key}: {error}"))
}

/// Puts the governor together, and on platform `scale` what the workers are to run, one for
/// each bell.
pub(super) fn open(
    plan: Plan,
    ports: usize,
    bells: &[Waker],
) -> Result<(Power, Vec<Pacer>), RouterError> {
    let Plan { settings, spec, server } = plan;
    let (settings, server) = (&settings, &server);
    let (driver, pacers) = match settings.platform {
        PowerPlatform::Host => {
            let machine = host_machine(settings, server)?;
            let packet = server.packet_cost(settings.application, MEAN_BYTES);
            let context = BuildContext {
                platform: machine.platform(),
                server: Some(server),
                packet: packet.map(|cost| (cost, MEAN_BYTES)),
                seed: settings.seed.into(),
            };
            let policy = build(&spec, &context).map_err(|error| wrong("policy", &error))?;
            let runner = Runner::start(Governor::new(machine, policy))
                .map_err(|source| RouterError::system("starting the governor", source))?;
            (Driver::Host(runner), Vec::new())
        }
        _ => {
            let setting = Setting {
                server: server.clone(),
                application: settings.application,
                policy: spec,
                mean_bytes: MEAN_BYTES,
                dilation: settings.scale,
                seed: settings.seed.into(),
            };
            // Nobody here can write the tables of those who send to the interfaces.
            let scale = Scale::new(&setting, ports, bells.to_vec(), None);
            let (scale, pacers) = scale.map_err(|error| match error {
                crate::scale::ScaleError::Model(SimError::Policy(error)) => wrong("policy", &error),
                other => wrong("server", &other),
            })?;
            (Driver::Scale(scale), pacers)
        }
    };
    let policy = match &driver {
        Driver::Scale(scale) => scale.look(|governor| governor.policy_name()),
        Driver::Host(runner) => runner.look(|governor| governor.policy_name()),
    };
    let stats = PowerStats { policy, platform: settings.platform, ..PowerStats::default() };
    let last = Mutex::new(Last { before: None, stats, over: false });
    Ok((Power { settings: settings.clone(), policy, driver, last }, pacers))
}

impl Power {
    /// Begins, when the workers run.
    pub fn start(&mut self) -> Result<(), RouterError> {
        let failed =
            |error| RouterError::system("starting the governor", std::io::Error::other(error));
        let start = match &mut self.driver {
            Driver::Scale(scale) => {
                scale.start().map_err(failed)?;
                scale.totals_at(Time::ZERO).map_err(failed)?.0
            }
            Driver::Host(runner) => runner.totals(),
        };
        self.last.lock().unwrap_or_else(PoisonError::into_inner).before = Some(start);
        Ok(())
    }

    /// Takes the last figures while the workers can still answer.
    pub fn finish(&self) {
        self.stats();
        self.last.lock().unwrap_or_else(PoisonError::into_inner).over = true;
    }

    /// What the loop did so far.
    pub fn stats(&self) -> PowerStats {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.over {
            return last.stats.clone();
        }
        let totals = match &self.driver {
            Driver::Scale(scale) => scale.totals_now(PATIENCE).ok(),
            Driver::Host(runner) => Some(runner.totals()),
        };
        let Some(totals) = totals else { return last.stats.clone() };
        let before = last.before.take();
        let recent = Interval::between(before.as_ref().unwrap_or(&totals), &totals);
        let (point, platform, knobs) = match &self.driver {
            Driver::Scale(scale) => scale.look(see),
            Driver::Host(runner) => runner.look(see),
        };
        last.stats = self.compose(&totals, &recent, &point, &platform, knobs);
        if let Driver::Scale(scale) = &self.driver {
            last.stats.disturbance = Some(scale.disturbance());
        }
        last.before = Some(totals);
        last.stats.clone()
    }

    fn compose(
        &self,
        totals: &Totals,
        recent: &Interval,
        point: &OperatingPoint,
        platform: &Platform,
        knobs: Vec<Entry>,
    ) -> PowerStats {
        let emulated = self.settings.platform == PowerPlatform::Scale;
        let energy = &totals.machine.energy;
        let hertz = |index: usize| platform.frequencies.get(index).map_or(0.0, |hertz| hertz.0);
        PowerStats {
            platform: self.settings.platform,
            policy: self.policy,
            server: self.settings.server.clone(),
            application: self.settings.application.name(),
            scale: emulated.then_some(self.settings.scale),
            source: energy.source,
            accuracy: energy.accuracy,
            power_watts: recent.power_watts,
            power_by_component_watts: recent.power_by_component_watts.clone(),
            power_rest_watts: recent.power_rest_watts,
            energy_joules: energy.whole.map(|whole| whole.0),
            energy_by_component_joules: energy.parts.iter().map(|(n, part)| (*n, part.0)).collect(),
            model_seconds: emulated.then(|| totals.at.as_seconds()),
            offered_packets: totals.machine.offered,
            forwarded_packets: totals.machine.forwarded,
            dropped_packets: totals.machine.dropped,
            cores: platform.cores,
            cores_active: point.active.len(),
            frequency_hertz: point.frequencies(platform).map(hertz).collect(),
            transitions: totals.own.core_changes + totals.own.frequency_changes,
            core_changes: totals.own.core_changes,
            frequency_changes: totals.own.frequency_changes,
            decisions: totals.own.decisions,
            entries_moved: totals.machine.entries_moved,
            steps: totals.own.steps,
            steps_altered: totals.own.altered,
            steps_failed: totals.own.failed,
            knobs,
            disturbance: None,
        }
    }
}

fn see<M: Machine>(governor: &mut Governor<M>) -> (OperatingPoint, Platform, Vec<Entry>) {
    let knobs = governor.ledger().entries().cloned().collect();
    (governor.point().clone(), governor.platform().clone(), knobs)
}
