//! The governor of the running router.

use super::error::RouterError;
use super::platform::{Plan, PlatformDriver, Platforms, Running, Seen, WorkerLoop};
use super::queues::Interface;
use super::recent::Recent;
use super::workers::Workers;
use crate::config::{Config, PowerPlatform};
use crate::stats::PowerStats;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use wattline_governor::account::{Interval, Totals};
use wattline_governor::decisions::log;
use wattline_policy::PolicySpec;
use wattline_ports::waiter::Waker;
use wattline_server::ServerFile;
use wattline_xdp::ForwardedByCpu;

/// Workers, and a governor whose knobs do not hang, answer within so long, or the last figures are given once more.
const PATIENCE: Duration = Duration::from_secs(1);
/// The control thread has other things to do: a tick without an answer is left out.
const IN_THE_LOOP: Duration = Duration::from_millis(100);

/// The loop of a router, and what it last said of itself.
pub(super) struct Power {
    plan: Plan,
    driver: Box<dyn PlatformDriver>,
    last: Mutex<Last>,
}

/// What statistics are reckoned from.
struct Last {
    recent: Recent,
    /// The number of the last change that was logged.
    logged: u64,
    stats: PowerStats,
    over: bool,
}

impl Plan {
    /// `None` when nothing is to be governed.
    pub(super) fn read(config: &Config) -> Result<Option<Self>, RouterError> {
        let settings = &config.power;
        if settings.platform == PowerPlatform::None {
            return Ok(None);
        }
        let policy = |error| RouterError::power("policy", &error);
        let spec = PolicySpec::parse(&settings.policy).map_err(policy)?;
        let file = ServerFile::load(&settings.server)?;
        let server = file.model().map_err(|error| RouterError::power("server", &error))?.clone();
        Ok(Some(Self { settings: settings.clone(), spec, server }))
    }
}

/// Refuses indirection tables where no platform writes them.
pub(super) fn check_steered(config: &Config) -> Result<(), RouterError> {
    let steered = config.ports.iter().find(|port| port.steer.is_some());
    match steered {
        Some(port) if config.power.platform != PowerPlatform::Scale => Err(RouterError::Unfit(
            format!("[[port]] {}: steer is for [power] platform = \"scale\" only", port.name),
        )),
        _ => Ok(()),
    }
}

impl Power {
    /// Opens the platform that the configuration names; nothing is governed yet.
    pub fn open(plan: Plan, config: &Config, platforms: Platforms) -> Result<Self, RouterError> {
        let platform = plan.settings.platform;
        let known = platforms.iter().find(|(known, _)| *known == platform);
        let (_, open) = known.ok_or_else(|| {
            RouterError::Unfit("[power] platform: this program has no such platform".to_owned())
        })?;
        let driver = open(config, plan.clone())?;
        let policy = plan.spec.policy.name;
        let stats = PowerStats { policy, platform, ..PowerStats::default() };
        let last = Mutex::new(Last { recent: Recent::default(), logged: 0, stats, over: false });
        Ok(Self { plan, driver, last })
    }

    /// What the workers are to run in place of their own loops.
    pub fn equip(&mut self, bells: &[Waker]) -> Result<Vec<WorkerLoop>, RouterError> {
        self.driver.equip(bells)
    }

    /// Begins, when the workers run.
    pub fn start(
        &mut self,
        config: &Config,
        interfaces: &[Interface],
        workers: &Workers,
        forwarded: Vec<Option<ForwardedByCpu>>,
    ) -> Result<(), RouterError> {
        let mut queues = vec![1; config.ports.len()];
        for interface in interfaces {
            queues[usize::from(interface.port.0)] = interface.queues;
        }
        let workers = workers.handles();
        let before = self.driver.start(Running { config, queues, workers, forwarded })?;
        self.last().recent.tick(Instant::now(), before);
        Ok(())
    }

    /// Gives this machine back, before packets take the kernel's way again: that needs its speed
    /// and all its queues.
    ///
    /// # Errors
    /// [`RouterError::Platform`] when some of it could not be.
    pub fn give_back(&mut self) -> Result<(), RouterError> {
        if self.driver.holds_machine() {
            self.finish();
        }
        self.driver.give_back()
    }

    /// Why the router cannot continue: nobody governs it any more, and it would stay as it was
    /// governed last.
    pub fn failure(&self) -> Option<RouterError> {
        self.driver.has_failed().then_some(RouterError::Governor)
    }

    /// Takes the last figures while the workers can still answer: they are of the whole run.
    pub fn finish(&self) {
        let mut last = self.last();
        if !last.over {
            self.look(&mut last, Recent::whole);
            last.over = true;
        }
    }

    /// When [`Self::tick`] is due; `None` where nothing runs.
    pub fn due(&self) -> Option<Instant> {
        let last = self.last();
        if last.over { None } else { last.recent.due() }
    }

    /// Moves the stretch on of which power and latency are told.
    pub fn tick(&self, now: Instant) {
        let mut last = self.last();
        if !last.over && last.recent.due().is_some_and(|due| due <= now) {
            let (totals, latency) = self.driver.totals(IN_THE_LOOP).unzip();
            last.recent.add(latency.flatten().as_ref());
            last.recent.tick(now, totals);
            if tracing::enabled!(tracing::Level::DEBUG)
                && let Some(seen) = self.driver.look(IN_THE_LOOP)
            {
                last.logged = log(&seen.decisions, last.logged);
            }
        }
    }

    /// What the loop did so far. Asking changes nothing for the next who asks.
    pub fn stats(&self) -> PowerStats {
        let mut last = self.last();
        if !last.over {
            self.look(&mut last, Recent::interval);
        }
        last.stats.clone()
    }

    fn last(&self) -> MutexGuard<'_, Last> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Brings the figures up to date, as far as the loop answers.
    fn look(&self, last: &mut Last, stretch: fn(&Recent, &Totals) -> Interval) {
        let Some((totals, latency)) = self.driver.totals(PATIENCE) else {
            last.stats.details.extend(self.driver.details());
            return;
        };
        last.recent.add(latency.as_ref());
        let recent = stretch(&last.recent, &totals);
        let Some(seen) = self.driver.look(PATIENCE) else {
            last.stats.details.extend(self.driver.details());
            return;
        };
        last.stats = self.compose(&totals, &recent, seen);
        last.stats.latency_histogram = last.recent.histogram();
        last.stats.details = self.driver.details();
    }

    fn compose(&self, totals: &Totals, recent: &Interval, seen: Seen) -> PowerStats {
        let Seen { point, platform, knobs, decisions } = seen;
        let settings = &self.plan.settings;
        let emulated = settings.platform == PowerPlatform::Scale;
        let energy = &totals.machine.energy;
        let hertz = |index: usize| platform.frequencies.get(index).map_or(0.0, |hertz| hertz.0);
        PowerStats {
            platform: settings.platform,
            policy: self.plan.spec.policy.name,
            server: settings.server.clone(),
            application: settings.application.name(),
            scale: emulated.then_some(settings.scale),
            source: energy.source,
            accuracy: energy.accuracy,
            power_watts: recent.power_watts,
            power_by_component_watts: recent.power_by_component_watts.clone(),
            power_rest_watts: recent.power_rest_watts,
            latency: recent.latency,
            latency_histogram: None,
            energy_joules: energy.whole.map(|whole| whole.0),
            energy_by_component_joules: energy.parts.iter().map(|(n, part)| (*n, part.0)).collect(),
            energy_unmetered_seconds: energy.unmetered.as_seconds(),
            model_seconds: emulated.then(|| totals.at.as_seconds()),
            offered_packets: totals.machine.offered,
            forwarded_packets: totals.machine.forwarded,
            dropped_packets: totals.machine.dropped,
            cores: platform.cores,
            cores_active: point.active.len(),
            frequency_hertz: point.frequencies(&platform).map(hertz).collect(),
            transitions: totals.own.core_changes + totals.own.frequency_changes,
            core_changes: totals.own.core_changes,
            frequency_changes: totals.own.frequency_changes,
            decisions: totals.own.decisions,
            reason: decisions.last().map(|last| last.reason.clone()),
            last_changes: decisions,
            entries_moved: totals.machine.entries_moved,
            steps: totals.own.steps,
            steps_altered: totals.own.altered,
            steps_failed: totals.own.failed,
            knobs,
            details: serde_json::Map::new(),
        }
    }
}
