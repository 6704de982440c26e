//! The platform `host` for a router: this machine's knobs, as far as its workers, CPUs, queues and
//! interfaces go.

use super::worker_control::WorkerControl;
use serde_json::{Map, Value, json};
use std::time::Duration;
use wattline_cores::Latency;
use wattline_governor::Governor;
use wattline_governor::account::Totals;
use wattline_governor::machine::Machine;
use wattline_governor::runner::Runner;
use wattline_host::{
    BesideXdp, Forwarded, HostOptions, Layout, Port, Scope, Supervision, TakeOverError,
    ThisMachine, Workers, give_back, hand_back, take_over,
};
use wattline_knobs::SessionError;
use wattline_linux::privileges::Rights;
use wattline_linux::sysfs::Tree;
use wattline_policy::{BuildContext, NeedsWorkers, PolicySpec, SpecError, SpecProblem, build};
use wattline_ports::afxdp::Options as RingOptions;
use wattline_router::RouterError;
use wattline_router::config::Config;
use wattline_router::platform::{MEAN_BYTES, Plan, PlatformDriver, Running, Seen};
use wattline_xdp::ForwardedByCpu;

struct OfRouter {
    plan: Plan,
    /// Once the workers run, and until the machine is given back.
    governed: Option<(Runner<ThisMachine>, Supervision)>,
}

/// Nothing is looked at before the workers run: then what is not needed has been given up.
pub fn open(_config: &Config, plan: Plan) -> Result<Box<dyn PlatformDriver>, RouterError> {
    Ok(Box::new(OfRouter { plan, governed: None }))
}

impl PlatformDriver for OfRouter {
    fn follows_ports(&self) -> bool {
        true
    }

    fn start(&mut self, router: Running<'_>) -> Result<Option<Totals>, RouterError> {
        let Running { config, queues, workers, forwarded } = router;
        let queues = |port: usize| queues.get(port).copied().unwrap_or(1);
        // Of this thread as it is now.
        let tree = Tree::live();
        let by_xdp = !forwarded.is_empty();
        let options = options_of(config, &tree, Rights::present(), queues, by_xdp);
        let mut workers: Box<dyn Workers> = Box::new(WorkerControl::new(workers));
        if by_xdp {
            tracing::info!(
                "XDP programs forward beside the governor: it counts their packets and the time in \
                 soft interrupts by CPU"
            );
            let programs = forwarded.into_iter().map(|program| program.map(counted)).collect();
            workers = Box::new(BesideXdp::new(&tree, &options.layout, workers, programs));
        }
        let (machine, supervision) =
            take_over(options, config.power.on_exit, workers).map_err(not_governed)?;
        let Plan { settings, spec, server } = &self.plan;
        let packet = server.packet_cost(settings.application, MEAN_BYTES);
        let context = BuildContext {
            platform: machine.platform(),
            server: Some(server),
            packet: packet.map(|cost| (cost, MEAN_BYTES)),
            seed: settings.seed.into(),
        };
        let fits = if by_xdp { fit(spec, &context) } else { Ok(()) };
        let policy = match fits.and_then(|()| build(spec, &context)) {
            Ok(policy) => policy,
            Err(error) => {
                hand_back(Some(machine), supervision).map_err(not_governed)?;
                return Err(RouterError::power("policy", &error));
            }
        };
        let runner = Runner::start(Governor::new(machine, policy), settings.sample)
            .map_err(|source| RouterError::system("starting the governor", source))?;
        let before = runner.totals(PATIENCE);
        self.governed = Some((runner, supervision));
        Ok(before)
    }

    fn totals(&self, patience: Duration) -> Option<(Totals, Option<Latency>)> {
        let (runner, _) = self.governed.as_ref()?;
        runner.totals(patience).map(|totals| (totals, None))
    }

    fn look(&self, patience: Duration) -> Option<Seen> {
        self.governed.as_ref()?.0.look(patience, super::seen::seen)
    }

    fn has_failed(&self) -> bool {
        self.governed.as_ref().is_some_and(|(runner, _)| runner.has_failed())
    }

    fn details(&self) -> Map<String, Value> {
        let Some((_, supervision)) = &self.governed else { return Map::new() };
        Map::from_iter([("host".to_owned(), json!(supervision.status()))])
    }

    fn holds_machine(&self) -> bool {
        self.governed.is_some()
    }

    fn give_back(&mut self) -> Result<(), RouterError> {
        let Some((runner, supervision)) = self.governed.take() else { return Ok(()) };
        give_back(runner, supervision).map_err(not_governed)
    }
}

/// A governor whose knobs do not hang answers within so long.
const PATIENCE: Duration = Duration::from_secs(1);

/// What the governor of a router may touch, for the router and for its plan alike; `queues` gives
/// the receive queues of a port.
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
            // In the place of one that was removed nothing arrives.
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
        scope: if by_xdp { Scope::XDP_ROUTER } else { Scope::ROUTER },
    }
}

/// A program's counter, for the governor's thread.
fn counted(program: ForwardedByCpu) -> Forwarded {
    Box::new(move |frames| program.add_to(frames).is_ok())
}

/// Refuses a policy that cannot work where XDP programs forward.
fn fit(spec: &PolicySpec, context: &BuildContext<'_>) -> Result<(), SpecError> {
    let needs = NeedsWorkers::of(&mut *build(spec, context)?, context.platform);
    let why = match needs {
        None => return Ok(()),
        Some(NeedsWorkers::OfferedRate) => {
            "it needs the offered rate, which only a simulator knows"
        }
        Some(NeedsWorkers::Batches) => {
            "it decides at batches of packets, and XDP programs forward without any: set [router] \
             xdp_forward = \"off\", or use ondemand, conservative, schedutil or performance"
        }
        Some(NeedsWorkers::Polling) => {
            "it lets cores poll, and XDP programs forward in soft interrupts: set [router] \
             xdp_forward = \"off\", or use ondemand, conservative, schedutil or performance"
        }
    };
    let problems = vec![SpecProblem::Unsupported(why.to_owned())];
    Err(SpecError { text: spec.to_string(), problems })
}

fn not_governed(error: TakeOverError) -> RouterError {
    match error {
        TakeOverError::Session(SessionError::Busy { .. }) | TakeOverError::Platform(_) => {
            RouterError::Unfit(format!("[power] {error}"))
        }
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

    /// The system has to be looked at; changing the configuration would not help.
    #[test]
    fn what_could_not_be_given_back_is_no_fault_of_the_configuration() {
        let error = not_governed(TakeOverError::Unrestored(Report::default()));
        assert_eq!(error.remedy(), Remedy::System);
        assert!(error.to_string().contains("wattline restore"), "{error}");
    }
}
