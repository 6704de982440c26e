//! The governor of the running router.

use super::error::RouterError;
use super::host::{self, Beside, ThisMachine};
use super::queues::Interface;
use super::workers::Workers;
use crate::config::{Config, PortSettings, PowerPlatform, PowerSettings, SteerSettings};
use crate::governor::Governor;
use crate::governor::account::{Interval, Totals};
use crate::governor::ledger::Entry;
use crate::governor::machine::Machine;
use crate::governor::runner::Runner;
use crate::scale::pacer::Pacer;
use crate::scale::steered::{self, Steered};
use crate::scale::{Redirect, Scale, Setting};
use crate::stats::PowerStats;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use wattline_kernel::steer::Steering;
use wattline_policy::{BuildContext, OperatingPoint, Platform, PolicySpec, build};
use wattline_ports::waiter::Waker;
use wattline_server::{ServerFile, ServerModel};
use wattline_sim::SimError;
use wattline_units::Time;

/// Mean length of a packet that policies reckon with: a backbone's mean, the traffic of a live
/// router is not known beforehand.
const MEAN_BYTES: u32 = 600;
/// Workers, and a governor whose knobs do not hang, answer within so long, or the last figures are given once more.
const PATIENCE: Duration = Duration::from_secs(1);

/// The loop of a router, and what it last said of itself.
pub(super) struct Power {
    settings: PowerSettings,
    spec: PolicySpec,
    server: ServerModel,
    policy: &'static str,
    driver: Driver,
    last: Mutex<Last>,
}

enum Driver {
    Scale(Scale),
    /// This machine, once the workers run: then what it is made from is gone.
    Host(Option<(Runner<ThisMachine>, Beside)>),
}

/// What statistics are reckoned from.
struct Last {
    /// When they were asked for last, at first when the router was started.
    before: Option<Totals>,
    stats: PowerStats,
    over: bool,
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

/// Puts redirect tables where the configuration asks for them; they go with the values.
pub(super) fn steer(config: &Config) -> Result<Vec<Steering>, RouterError> {
    let workers = usize::from(config.router.workers);
    let steered = config.ports.iter().filter_map(|port| Some((port, port.steer.as_ref()?)));
    let attach = |(port, steer): (&PortSettings, &SteerSettings)| {
        let name = &port.name;
        if config.power.platform != PowerPlatform::Scale {
            return Err(RouterError::Unfit(format!(
                "[[port]] {name}: steer is for [power] platform = \"scale\" only"
            )));
        }
        steered::attach(steer.namespace.as_deref(), &steer.interface, workers)
            .map_err(|error| RouterError::Unfit(format!("[[port]] {name}: steer: {error}")))
    };
    steered.map(attach).collect()
}

/// Puts the governor together, and on platform `scale` what the workers are to run, one for
/// each bell.
pub(super) fn open(
    plan: Plan,
    ports: usize,
    bells: &[Waker],
    steerings: Vec<Steering>,
) -> Result<(Power, Vec<Pacer>), RouterError> {
    let Plan { settings, spec, server } = plan;
    let (settings, server) = (&settings, &server);
    let policy = spec.policy.name;
    let made = spec.clone();
    let (driver, pacers) = match settings.platform {
        PowerPlatform::Host => (Driver::Host(None), Vec::new()),
        _ => {
            let setting = Setting {
                server: server.clone(),
                application: settings.application,
                policy: spec,
                mean_bytes: MEAN_BYTES,
                dilation: settings.scale,
                seed: settings.seed.into(),
            };
            // Elsewhere nobody can write the tables of those who send to the interfaces.
            let steered = (!steerings.is_empty()).then(|| Steered::new(steerings, bells.len()));
            let redirect = steered.map(|steered| Box::new(steered) as Box<dyn Redirect>);
            let scale = Scale::new(&setting, ports, bells.to_vec(), redirect);
            let (scale, pacers) = scale.map_err(|error| match error {
                crate::scale::ScaleError::Model(SimError::Policy(error)) => wrong("policy", &error),
                other => wrong("server", &other),
            })?;
            (Driver::Scale(scale), pacers)
        }
    };
    let stats = PowerStats { policy, platform: settings.platform, ..PowerStats::default() };
    let last = Mutex::new(Last { before: None, stats, over: false });
    let (settings, server) = (settings.clone(), server.clone());
    Ok((Power { settings, spec: made, server, policy, driver, last }, pacers))
}

impl Power {
    /// Begins, when the workers run.
    pub fn start(
        &mut self,
        config: &Config,
        interfaces: &[Interface],
        workers: &Workers,
    ) -> Result<(), RouterError> {
        let before = match &mut self.driver {
            Driver::Scale(scale) => {
                let failed = |error| {
                    RouterError::system("starting the governor", std::io::Error::other(error))
                };
                scale.start().map_err(failed)?;
                Some(scale.totals_at(Time::ZERO).map_err(failed)?.0)
            }
            Driver::Host(_) => self.take_over(config, interfaces, workers)?,
        };
        self.last.lock().unwrap_or_else(PoisonError::into_inner).before = before;
        Ok(())
    }

    /// Puts the governor in charge of this machine; gives what is counted at the start.
    fn take_over(
        &mut self,
        config: &Config,
        interfaces: &[Interface],
        workers: &Workers,
    ) -> Result<Option<Totals>, RouterError> {
        let (machine, beside) = host::take_over(config, interfaces, workers)?;
        let packet = self.server.packet_cost(self.settings.application, MEAN_BYTES);
        let context = BuildContext {
            platform: machine.platform(),
            server: Some(&self.server),
            packet: packet.map(|cost| (cost, MEAN_BYTES)),
            seed: self.settings.seed.into(),
        };
        let policy = build(&self.spec, &context).map_err(|error| wrong("policy", &error))?;
        let runner = Runner::start(Governor::new(machine, policy), self.settings.sample)
            .map_err(|source| RouterError::system("starting the governor", source))?;
        // Without an answer the first interval begins with the first question.
        let before = runner.totals(PATIENCE);
        self.driver = Driver::Host(Some((runner, beside)));
        Ok(before)
    }

    /// Gives this machine back, before packets take the kernel's way again: that needs its speed
    /// and all its queues.
    ///
    /// # Errors
    /// [`RouterError::Unrestored`] when some of it could not be.
    pub fn give_back(&mut self) -> Result<(), RouterError> {
        if let Driver::Host(Some(_)) = self.driver {
            self.finish();
        }
        let Driver::Host(driver) = &mut self.driver else { return Ok(()) };
        driver.take().map_or(Ok(()), |(runner, beside)| host::give_back(runner, beside))
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
            Driver::Host(driver) => {
                let totals = driver.as_ref().and_then(|(runner, _)| runner.totals(PATIENCE));
                totals.map(|totals| (totals, None))
            }
        };
        let Some((totals, latency)) = totals else {
            if let Driver::Host(Some((_, beside))) = &self.driver {
                last.stats.host = Some(beside.status());
            }
            return last.stats.clone();
        };
        let mut recent = Interval::between(last.before.as_ref().unwrap_or(&totals), &totals);
        recent.latency = latency;
        let seen = match &self.driver {
            Driver::Scale(scale) => Some(scale.look(see)),
            Driver::Host(driver) => {
                driver.as_ref().and_then(|(runner, _)| runner.look(PATIENCE, see))
            }
        };
        let Some((point, platform, knobs)) = seen else { return last.stats.clone() };
        last.stats = self.compose(&totals, &recent, &point, &platform, knobs);
        if let Driver::Scale(scale) = &self.driver {
            last.stats.disturbance = Some(scale.disturbance());
            last.stats.holds = Some(scale.holds());
        }
        if let Driver::Host(Some((_, beside))) = &self.driver {
            last.stats.host = Some(beside.status());
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
            latency: recent.latency,
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
            holds: None,
            host: None,
        }
    }
}

fn see<M: Machine>(governor: &mut Governor<M>) -> (OperatingPoint, Platform, Vec<Entry>) {
    let knobs = governor.ledger().entries().cloned().collect();
    (governor.point().clone(), governor.platform().clone(), knobs)
}
            energy_unmetered_seconds: energy.unmetered.as_seconds(),
