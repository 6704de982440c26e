//! The governor of the running router.

use super::error::RouterError;
use super::platform::{Plan, PlatformDriver, Platforms, Running, WorkerLoop};
use super::workers::Workers;
use crate::config::{Config, PowerPlatform};
use crate::stats::PowerStats;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use wattline_daemon::socket::Answer;
use wattline_governor::figures::{Figures, Window};
use wattline_governor::lease::Asked;
use wattline_policy::tables::check_tables;
use wattline_policy::{SpecError, SpecProblem, Waits};
use wattline_ports::waiter::Waker;
use wattline_server::ServerFile;
use wattline_xdp::ForwardedByCpu;

/// Longest wait for an answer. Workers, and a governor whose knobs do not hang, answer within it;
/// otherwise the last figures are repeated.
const PATIENCE: Duration = Duration::from_secs(1);
/// Longest wait in the control thread, which has other work: a tick without an answer is skipped.
const IN_THE_LOOP: Duration = Duration::from_millis(100);

/// Time between two tries to start a governor: an obstacle, such as another process that sets the
/// same knobs or a driver that hangs, may disappear without an event.
const TRY_AGAIN: Duration = Duration::from_secs(10);

/// The governor of a router, and its last figures.
pub(super) struct Power {
    driver: Box<dyn PlatformDriver>,
    /// The number of queues by port with which it was last started.
    queues: Vec<u32>,
    /// Reason why it does not govern, and time of the next try; without a time it waits for new
    /// ports.
    waits: Option<(String, Option<Instant>)>,
    /// Failure to restore settings at a pause, if they have not been restored since.
    unrestored: Option<RouterError>,
    /// The figures, and true once they are final.
    figures: Mutex<(Figures, bool)>,
}

/// Settings of the section `[router]` that a governor controls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Rules {
    /// Wait mode of workers: `mode` and `idle`.
    pub waiting: bool,
    /// Their batch size.
    pub batch: bool,
}

impl Plan {
    /// Reads the plan; `None` if nothing is to be governed.
    pub(super) fn read(config: &Config) -> Result<Option<Self>, RouterError> {
        let settings = &config.power;
        if settings.platform == PowerPlatform::None {
            return Ok(None);
        }
        let policy = |error| RouterError::power("policy", &error);
        let spec = settings.policies.parse(&settings.policy).map_err(policy)?;
        let file = ServerFile::load(&settings.server)?;
        let server = file.model().map_err(|error| RouterError::power("server", &error))?.clone();
        Ok(Some(Self { settings: settings.clone(), spec, server }))
    }
}

/// Refuses a server model, a policy or its tables if they cannot be read, which fails on any
/// machine.
pub(super) fn check(config: &Config) -> Result<(), RouterError> {
    let Some(plan) = Plan::read(config)? else { return Ok(()) };
    check_tables(&plan.spec).map_err(|why| {
        let problems = vec![SpecProblem::Unsupported(why)];
        let error = SpecError { text: plan.spec.to_string(), problems };
        RouterError::power("policy", &error)
    })
}

/// Refuses indirection tables if no platform writes them.
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
            RouterError::Unfit(
                "[power] platform: this program has no such platform; start the router by `wattline run`"
                    .to_owned(),
            )
        })?;
        let settings = &plan.settings;
        let stats = PowerStats {
            policy: plan.spec.policy.name.to_owned(),
            platform,
            server: Some(settings.server.clone()),
            application: Some(settings.application.name().to_owned()),
            scale: (platform == PowerPlatform::Scale).then_some(settings.scale),
            ..PowerStats::default()
        };
        let driver = open(config, plan)?;
        let figures = Mutex::new((Figures::new(stats), false));
        Ok(Self { driver, queues: Vec::new(), waits: None, unrestored: None, figures })
    }

    /// Returns the loops that the workers are to run in place of their own.
    pub fn equip(&mut self, wakers: &[Waker]) -> Result<Vec<WorkerLoop>, RouterError> {
        self.driver.equip(wakers)
    }

    /// Starts the governor, once the workers run, with this many queues by port.
    pub fn start(
        &mut self,
        config: &Config,
        queues: Vec<u32>,
        workers: &Workers,
        forwarded: Vec<Option<ForwardedByCpu>>,
    ) -> Result<(), RouterError> {
        self.queues.clone_from(&queues);
        let workers = workers.handles();
        let before = self.driver.start(Running { config, queues, workers, forwarded })?;
        self.figures().0.tick(Instant::now(), before.map(|before| (before, None)));
        Ok(())
    }

    /// Returns true if ports can change while it is paused ([`Self::pause`], [`Self::resume`]).
    pub fn follows_ports(&self) -> bool {
        self.driver.follows_ports()
    }

    /// Returns true if it governs now.
    pub fn governs(&self) -> bool {
        self.waits.is_none()
    }

    /// Returns why it waits, if so.
    pub fn waits_because(&self) -> Option<&str> {
        self.waits.as_ref().map(|(why, _)| why.as_str())
    }

    /// Returns the settings of the router that it controls now.
    pub fn rules(&self) -> Rules {
        if !self.governs() {
            return Rules::default();
        }
        let can = self.driver.look(IN_THE_LOOP).map(|seen| seen.platform.can);
        // A governor that does not answer may have set anything.
        can.map_or(Rules { waiting: true, batch: true }, |can| Rules {
            waiting: can.waits != Waits::NONE,
            batch: can.set_batch,
        })
    }

    /// Returns true if it has to be restarted: the queues have changed, or the next try is due.
    pub fn is_out_of_date(&self, queues: &[u32], now: Instant) -> bool {
        let retries = self.waits.as_ref().is_some_and(|(_, next)| next.is_some_and(|at| at <= now));
        self.follows_ports() && (retries || self.queues != queues)
    }

    /// Ends the governor, and restores the machine, before ports change. [`Self::resume`] has to
    /// follow.
    pub fn pause(&mut self) {
        if !self.governs() {
            return;
        }
        let mut figures = self.figures();
        self.update(&mut figures.0, Window::LastSeconds);
        figures.0.end_of_governor();
        drop(figures);
        if let Err(error) = self.driver.pause() {
            tracing::error!("the governor ends, as ports change: {error}");
            self.unrestored = Some(error);
        }
        self.waits = Some(("the ports change".to_owned(), Some(Instant::now())));
    }

    /// Starts again with the present ports. If that fails, the router continues without a governor
    /// and tries again later.
    pub fn resume(
        &mut self,
        config: &Config,
        queues: Vec<u32>,
        workers: &Workers,
        forwarded: Vec<Option<ForwardedByCpu>>,
    ) {
        match self.start(config, queues, workers, forwarded) {
            Ok(()) => {
                // It has restored all remaining settings, or would not have started.
                (self.waits, self.unrestored) = (None, None);
            }
            Err(error) => {
                let why = error.to_string();
                if self.waits_because() != Some(&why) {
                    tracing::warn!(
                        "the governor waits, and the router continues without it: {why}"
                    );
                }
                let next = Instant::now() + TRY_AGAIN;
                self.waits = Some((why, (!self.driver.waits_for_ports()).then_some(next)));
            }
        }
    }

    /// Restores this machine before the kernel forwards again, which needs full speed and all
    /// queues.
    ///
    /// # Errors
    /// [`RouterError::Platform`] when some settings could not be restored.
    pub fn give_back(&mut self) -> Result<(), RouterError> {
        if self.driver.holds_machine() {
            self.finish();
        }
        let given_back = self.driver.give_back();
        let unrestored = self.unrestored.take().filter(|_| !self.driver.is_given_back());
        unrestored.map_or(given_back, Err)
    }

    /// Lets a client hold an operating point in place of the policy, or ends that.
    pub fn lease(&self, asked: &Asked) -> Answer {
        Answer::from_result(self.driver.lease(asked, IN_THE_LOOP))
    }

    /// Returns why the router cannot continue, if so: its governor has failed, and the last
    /// operating point would remain.
    pub fn failure(&self) -> Option<RouterError> {
        self.driver.has_failed().then_some(RouterError::Governor)
    }

    /// Takes the final figures, of the whole run, while the workers can still answer.
    pub fn finish(&self) {
        let (figures, over) = &mut *self.figures();
        // If the governor does not answer, the last counts stand for the whole run.
        if !*over && !self.update(figures, Window::WholeRun) {
            figures.close();
        }
        *over = true;
    }

    /// Returns the time of the next [`Self::tick`]; `None` if no governor runs.
    pub fn due(&self) -> Option<Instant> {
        let (figures, over) = &*self.figures();
        figures.due().filter(|_| !over)
    }

    /// Adds the counts of the last second.
    pub fn tick(&self, now: Instant) {
        let (figures, over) = &mut *self.figures();
        if !*over && figures.due().is_some_and(|due| due <= now) {
            figures.tick(now, self.driver.totals(IN_THE_LOOP));
            if tracing::enabled!(tracing::Level::DEBUG)
                && let Some(seen) = self.driver.look(IN_THE_LOOP)
            {
                figures.log(&seen.decisions);
            }
        }
    }

    /// Returns the figures so far. A call does not affect later calls.
    pub fn stats(&self) -> PowerStats {
        let (figures, over) = &mut *self.figures();
        match (*over, self.governs()) {
            (true, _) => {}
            (false, true) => {
                self.update(figures, Window::LastSeconds);
            }
            (false, false) => figures.wait(),
        }
        PowerStats {
            waits_because: self.waits_because().map(str::to_owned),
            ..figures.power().clone()
        }
    }

    fn figures(&self) -> MutexGuard<'_, (Figures, bool)> {
        self.figures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Brings the figures up to date, as far as the governor answers; returns true if it did.
    fn update(&self, figures: &mut Figures, over: Window) -> bool {
        let answer = self.driver.totals(PATIENCE);
        let seen = answer.as_ref().and_then(|_| self.driver.look(PATIENCE));
        if self.governs() {
            figures.take_details(self.driver.details());
        }
        figures.take(answer, seen, over)
    }
}
