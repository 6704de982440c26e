//! The platform `host` for a router: this machine's knobs for the router's workers, CPUs, queues
//! and interfaces.

use super::background_task::{BackgroundTask, Known, Wanted};
use super::worker_control::WorkerControl;
use std::time::Duration;
use wattline_governor::Governor;
use wattline_governor::account::Totals;
use wattline_governor::lease::{Asked, NOTHING_GOVERNED};
use wattline_governor::machine::Machine as _;
use wattline_governor::runner::Runner;
use wattline_host::{
    BesideXdp, Ending, Forwarded, HostOptions, Layout, Port, Scope, Supervision, TakeOverError,
    ThisMachine, Workers, give_back, hand_back, take_over_by,
};
use wattline_knobs::{Bounded, Machine as Settings, SessionError};
use wattline_linux::privileges::Rights;
use wattline_linux::sysfs::Tree;
use wattline_policy::Latency;
use wattline_policy::{
    BuildContext, NeedsWorkers, Platform, Policy, PolicySpec, SpecError, SpecProblem, build,
};
use wattline_ports::afxdp::Options as RingOptions;
use wattline_router::RouterError;
use wattline_router::config::Config;
use wattline_router::platform::{MEAN_BYTES, Plan, PlatformDriver, Running, Seen};
use wattline_status::{Details, HeldPoint};
use wattline_xdp::ForwardedByCpu;

struct OfRouter {
    plan: Plan,
    /// Access shared by all governors of this router, so that each knows which drivers hang.
    access: Bounded<Settings>,
    /// Present once the workers run, until the machine is restored.
    governed: Option<Governed>,
    /// Work that took too long.
    underway: Option<Underway>,
    /// Failure of a pause that took too long to restore everything.
    unrestored: Option<RouterError>,
    /// True while packets flow: calls must not block then.
    runs: bool,
    /// True if the last attempt failed for a reason that only other ports can change.
    misfit: bool,
}

type Governed = (Runner<ThisMachine>, Supervision);

enum Underway {
    Beginning(BackgroundTask<Result<Governed, NotBegun>>),
    Ending(BackgroundTask<Result<(), TakeOverError>>),
}

/// Reason why no governor starts.
#[derive(Debug, thiserror::Error)]
enum NotBegun {
    #[error(transparent)]
    TakeOver(#[from] TakeOverError),
    #[error(transparent)]
    Thread(std::io::Error),
    #[error("{LATE}")]
    Late,
}

const LATE: &str = "the settings of this machine do not answer";

/// Longest time that a router's control thread waits for a machine to be taken over or restored:
/// meanwhile it neither feeds the service manager's watchdog (10 s) nor follows the kernel's
/// routes.
const LIMIT: Duration = Duration::from_secs(2);
/// Longer, since no traffic depends on the router at its end.
const AT_THE_END: Duration = Duration::from_secs(30);

/// Opens the platform. Knobs are examined only once the workers run, when unneeded capabilities
/// have been dropped.
pub fn open(_config: &Config, plan: Plan) -> Result<Box<dyn PlatformDriver>, RouterError> {
    let access = Bounded::new(Settings::new(&Tree::live()));
    Ok(Box::new(OfRouter::new(plan, access)))
}

impl OfRouter {
    fn new(plan: Plan, access: Bounded<Settings>) -> Self {
        let (governed, underway, unrestored) = (None, None, None);
        Self { plan, access, governed, underway, unrestored, runs: false, misfit: false }
    }

    /// Returns the work that starts a governor of this router in its present state.
    fn beginning(
        &self,
        router: Running<'_>,
    ) -> impl FnOnce(&Wanted) -> Result<Governed, NotBegun> + Send + 'static {
        let Running { config, queues, workers, forwarded } = router;
        let queues = |port: usize| queues.get(port).copied().unwrap_or(1);
        // With the present rights of this thread.
        let tree = Tree::live();
        let by_xdp = !forwarded.is_empty();
        let options = options_of(config, &tree, Rights::present(), queues, by_xdp);
        let mut workers: Box<dyn Workers> = Box::new(WorkerControl::new(workers));
        if by_xdp {
            let programs = forwarded.into_iter().map(|program| program.map(counted)).collect();
            workers =
                Box::new(BesideXdp::new(&tree, &options.layout, workers, programs).observing());
        }
        let (access, plan, on_exit) =
            (self.access.clone(), self.plan.clone(), config.power.on_exit);
        move |wanted| {
            let made = |machine: &mut ThisMachine| policy_of(&plan, machine.platform(), by_xdp);
            let begun = take_over_by(access, options, on_exit, workers, made)?;
            let (machine, policy, supervision) = begun;
            if !wanted.still() {
                hand_back(Some(machine), supervision, Ending::Pause)?;
                return Err(NotBegun::Late);
            }
            if by_xdp {
                tracing::info!(
                    "XDP programs forward independently of the governor: it counts their packets \
                     and the time in soft interrupts by CPU"
                );
            }
            let runner = Runner::start(Governor::new(machine, policy), plan.settings.sample)
                .map_err(NotBegun::Thread)?;
            Ok((runner, supervision))
        }
    }

    /// Finishes work that took too long; returns true if none remains. A failure to restore is kept
    /// until a governor starts, which restores the rest, or for the report at the end.
    fn settle(&mut self, patience: Duration) -> bool {
        let ended = match self.underway.take() {
            None => Ok(()),
            Some(Underway::Beginning(task)) => match task.within(patience) {
                Known::Done(Ok(governed)) => {
                    self.governed = Some(governed);
                    self.pause()
                }
                Known::Done(Err(_)) | Known::Died => Ok(()),
                Known::Underway => {
                    self.underway = Some(Underway::Beginning(task));
                    Ok(())
                }
            },
            Some(Underway::Ending(task)) => match task.within(patience) {
                Known::Done(ended) => ended.map_err(not_governed),
                Known::Died => Ok(()),
                Known::Underway => {
                    self.underway = Some(Underway::Ending(task));
                    Ok(())
                }
            },
        };
        self.unrestored = ended.err().or_else(|| self.unrestored.take());
        self.underway.is_none()
    }
}

impl PlatformDriver for OfRouter {
    fn follows_ports(&self) -> bool {
        true
    }

    fn start(&mut self, router: Running<'_>) -> Result<Option<Totals>, RouterError> {
        self.access.hurry(self.runs);
        if !self.settle(Duration::ZERO) {
            return Err(not_begun(NotBegun::Late));
        }
        let begin = self.beginning(router);
        let begun = if self.runs {
            let task = BackgroundTask::start(begin)
                .map_err(|source| RouterError::system("starting the governor", source))?;
            match task.within(LIMIT) {
                Known::Done(begun) => begun,
                Known::Died => return Err(RouterError::Governor),
                Known::Underway => {
                    task.give_up();
                    self.underway = Some(Underway::Beginning(task));
                    Err(NotBegun::Late)
                }
            }
        } else {
            begin(&Wanted::always())
        };
        self.misfit = matches!(
            begun,
            Err(NotBegun::TakeOver(TakeOverError::Policy(_) | TakeOverError::Platform(_)))
        );
        let governed = self.governed.insert(begun.map_err(not_begun)?);
        // The new governor has restored the remains of the last one.
        self.unrestored = None;
        self.runs = true;
        Ok(governed.0.totals(PATIENCE))
    }

    fn is_given_back(&self) -> bool {
        wattline_host::is_given_back(&Tree::live())
    }

    fn waits_for_ports(&self) -> bool {
        self.misfit
    }

    fn totals(&self, patience: Duration) -> Option<(Totals, Option<Latency>)> {
        let (runner, _) = self.governed.as_ref()?;
        runner.totals(patience).map(|totals| (totals, None))
    }

    fn look(&self, patience: Duration) -> Option<Seen> {
        self.governed.as_ref()?.0.look(patience, Seen::read)
    }

    fn lease(&self, asked: &Asked, patience: Duration) -> Result<Option<HeldPoint>, String> {
        let (runner, _) = self.governed.as_ref().ok_or_else(|| NOTHING_GOVERNED.to_owned())?;
        runner.lease(asked, patience)
    }

    fn has_failed(&self) -> bool {
        self.governed.as_ref().is_some_and(|(runner, _)| runner.has_failed())
    }

    fn details(&self) -> Details {
        let status = self.governed.as_ref().map(|(_, supervision)| supervision.status());
        Details { host: status, ..Details::default() }
    }

    fn holds_machine(&self) -> bool {
        self.governed.is_some()
    }

    fn pause(&mut self) -> Result<(), RouterError> {
        let Some((runner, supervision)) = self.governed.take() else { return Ok(()) };
        let end = move |_: &Wanted| give_back(runner, supervision, Ending::Pause);
        let task = BackgroundTask::start(end)
            .map_err(|source| RouterError::system("giving the machine back", source))?;
        match task.within(LIMIT) {
            Known::Done(ended) => ended.map_err(not_governed),
            Known::Died => Err(RouterError::Governor),
            Known::Underway => {
                tracing::warn!("{LATE}: they are restored while the ports change");
                self.underway = Some(Underway::Ending(task));
                Ok(())
            }
        }
    }

    fn give_back(&mut self) -> Result<(), RouterError> {
        self.access.hurry(false);
        let settled = self.settle(AT_THE_END);
        let Some((runner, supervision)) = self.governed.take() else {
            let late = (!settled).then(|| not_begun(NotBegun::Late));
            return late.or_else(|| self.unrestored.take()).map_or(Ok(()), Err);
        };
        give_back(runner, supervision, Ending::Final).map_err(not_governed)
    }
}

/// Returns the policy of the plan, if it can work on such a platform.
fn policy_of(plan: &Plan, platform: &Platform, by_xdp: bool) -> Result<Box<dyn Policy>, SpecError> {
    let Plan { settings, spec, server } = plan;
    let packet = server.packet_cost(settings.application, MEAN_BYTES);
    let context = BuildContext {
        platform,
        server: Some(server),
        packet: packet.map(|cost| (cost, MEAN_BYTES)),
        seed: settings.seed.into(),
    };
    if by_xdp {
        fit(spec, &context)?;
    }
    build(spec, &context)
}

/// Time within which a governor answers unless its knobs hang.
const PATIENCE: Duration = Duration::from_secs(1);

/// Returns the options for both the router and its plan; `queues` returns the receive queues of a
/// port.
pub(super) fn options_of(
    config: &Config,
    tree: &Tree,
    rights: Rights,
    queues: impl Fn(usize) -> u32,
    by_xdp: bool,
) -> HostOptions {
    let ports =
        config.ports.iter().enumerate().map(|(number, port)| match port.kind.taken_over() {
            Some(name) => {
                let interface = Some(name.to_owned());
                Port { interface, queues: queues(number), cores: Vec::new() }
            }
            // A removed interface receives nothing.
            None => {
                Port { interface: None, queues: u32::from(!port.is_vacant()), cores: Vec::new() }
            }
        });
    let router = &config.router;
    let layout = Layout {
        workers: usize::from(router.workers),
        cpus: router.cpus.iter().map(|cpu| u32::from(*cpu)).collect(),
        ports: ports.collect(),
    };
    HostOptions {
        tree: tree.clone(),
        layout,
        ring_size: Some(RingOptions::default().ring as usize),
        busy_poll: router.busy_poll,
        sample: config.power.sample.into(),
        uncore: config.power.uncore,
        meters: true,
        rights,
        override_limits: false,
        may_raise: config.power.may_raise,
        preferences: false,
        scope: if by_xdp { Scope::XDP_ROUTER } else { Scope::ROUTER },
    }
}

/// Wraps a program's counter for the governor's thread.
fn counted(program: ForwardedByCpu) -> Forwarded {
    Box::new(move |frames| program.add_to(frames).is_ok())
}

/// Refuses a policy that cannot work where XDP programs forward.
fn fit(spec: &PolicySpec, context: &BuildContext<'_>) -> Result<(), SpecError> {
    const INSTEAD: &str = "set [router] xdp_forward = \"off\", or use ondemand, conservative, \
                           schedutil or performance";
    let needs = NeedsWorkers::and_ask(&mut *build(spec, context)?, context.platform);
    let why = match needs {
        Ok(ask) => match ask.on_streak.check_polls() {
            Ok(()) => return Ok(()),
            Err(why) => format!("{why}: {INSTEAD}"),
        },
        Err(NeedsWorkers::OfferedRate) => {
            "it needs the offered rate, which only a simulator knows".to_owned()
        }
        Err(NeedsWorkers::Batches) => format!(
            "it decides at batches of packets, and where XDP programs forward only streaks of polls \
             are counted, with CAP_BPF, CAP_PERFMON and the kernel's BTF: {INSTEAD}"
        ),
        Err(NeedsWorkers::Polling) => {
            format!("it lets cores poll, and XDP programs forward in soft interrupts: {INSTEAD}")
        }
    };
    let problems = vec![SpecProblem::Unsupported(why)];
    Err(SpecError { text: spec.to_string(), problems })
}

fn not_begun(error: NotBegun) -> RouterError {
    match error {
        NotBegun::TakeOver(error) => not_governed(error),
        NotBegun::Thread(source) => RouterError::system("starting the governor", source),
        NotBegun::Late => RouterError::Platform(LATE.to_owned()),
    }
}

fn not_governed(error: TakeOverError) -> RouterError {
    match error {
        TakeOverError::Policy(error) => RouterError::power("policy", &error),
        // The other holder may end: another attempt can succeed.
        TakeOverError::Session(SessionError::Busy { .. }) => {
            RouterError::Obstructed(format!("[power] {error}"))
        }
        TakeOverError::Platform(_) => RouterError::Unfit(format!("[power] {error}")),
        TakeOverError::Session(error) => {
            RouterError::system("[power]", std::io::Error::other(error))
        }
        TakeOverError::Watchdog(error) => {
            RouterError::system("starting the watchdog of [power]", error)
        }
        TakeOverError::Unrestored(_) => RouterError::Platform(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattline_knobs::restore::Report;
    use wattline_router::Remedy;

    /// The operator has to examine the system; changing the configuration would not help.
    #[test]
    fn unrestored_machine_is_a_system_error() {
        let error = not_governed(TakeOverError::Unrestored(Report::default()));
        assert_eq!(error.remedy(), Remedy::System);
        assert!(error.to_string().contains("wattline restore"), "{error}");
    }

    /// The router continues meanwhile, and reports the failure when it ends, whether or not another
    /// governor was tried.
    #[test]
    fn failure_of_a_late_pause_is_reported_at_the_end() {
        let capture = "[[port]]\nname = \"a\"\ncapture = { read = \"x\" }\n";
        let config = Config::parse(capture, "test").unwrap();
        let server = wattline_server::ServerFile::load("westmere-2010").unwrap();
        let plan = Plan {
            settings: config.power,
            spec: wattline_policies::POLICIES.parse("performance").unwrap(),
            server: server.model().unwrap().clone(),
        };
        let late = || {
            let access = Bounded::new(Settings::new(&Tree::at("/nonexistent")));
            let mut driver = OfRouter::new(plan.clone(), access);
            let ending =
                BackgroundTask::start(|_| Err(TakeOverError::Unrestored(Report::default())));
            driver.underway = Some(Underway::Ending(ending.unwrap()));
            driver
        };
        assert!(late().give_back().is_err());
        let mut tried = late();
        assert!(tried.settle(Duration::from_secs(60)), "nothing is underway any more");
        assert!(tried.settle(Duration::ZERO));
        assert_eq!(tried.give_back().unwrap_err().remedy(), Remedy::System);
        assert!(tried.give_back().is_ok(), "once");
    }
}
