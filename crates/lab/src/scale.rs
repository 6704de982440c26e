//! The platform `scale` for a router: workers that behave like the cores of a server model.

use std::time::Duration;
use wattline_cores::ModelError;
use wattline_governor::account::Totals;
use wattline_governor::lease::Asked;
use wattline_policy::Latency;
use wattline_ports::waiter::Waker;
use wattline_router::RouterError;
use wattline_router::config::{Config, PortSettings, PowerPlatform, SteerSettings};
use wattline_router::platform::{
    MEAN_BYTES, Plan, PlatformDriver, Platforms, Running, Seen, WorkerLoop,
};
use wattline_scale::steered::{self, Steered};
use wattline_scale::{Redirect, Scale, ScaleError, Setting};
use wattline_status::{Details, HeldPoint};
use wattline_units::Time;
use wattline_xdp::steer::Steering;

/// Platforms of the laboratory.
pub const PLATFORMS: Platforms = &[(PowerPlatform::Scale, open)];

struct ScalePlatform {
    plan: Plan,
    ports: usize,
    /// Indirection tables until the emulation takes them.
    steerings: Vec<Steering>,
    /// Emulation, once the workers are equipped.
    scale: Option<Scale>,
}

/// Attaches indirection tables to the interfaces according to the configuration; dropping the value
/// removes them.
fn open(config: &Config, plan: Plan) -> Result<Box<dyn PlatformDriver>, RouterError> {
    let workers = usize::from(config.router.workers);
    let steered = config.ports.iter().filter_map(|port| Some((port, port.steer.as_ref()?)));
    let attach = |(port, steer): (&PortSettings, &SteerSettings)| {
        let name = &port.name;
        steered::attach(steer.namespace.as_deref(), &steer.interface, workers)
            .map_err(|error| RouterError::Unfit(format!("[[port]] {name}: steer: {error}")))
    };
    let steerings = steered.map(attach).collect::<Result<_, _>>()?;
    Ok(Box::new(ScalePlatform { plan, ports: config.ports.len(), steerings, scale: None }))
}

impl PlatformDriver for ScalePlatform {
    fn equip(&mut self, wakers: &[Waker]) -> Result<Vec<WorkerLoop>, RouterError> {
        let Plan { settings, spec, server } = &self.plan;
        let setting = Setting {
            server: server.clone(),
            application: settings.application,
            policy: spec.clone(),
            mean_bytes: MEAN_BYTES,
            dilation: settings.scale,
            seed: settings.seed.into(),
        };
        let steerings = std::mem::take(&mut self.steerings);
        // Without steering, the tables of the senders to the interfaces cannot be written.
        let steered = (!steerings.is_empty()).then(|| Steered::new(steerings, wakers.len()));
        let redirect = steered.map(|steered| Box::new(steered) as Box<dyn Redirect>);
        let scale = Scale::new(&setting, self.ports, wakers.to_vec(), redirect);
        let (scale, pacers) = scale.map_err(|error| match error {
            ScaleError::Model(ModelError::Policy(error)) => RouterError::power("policy", &error),
            other => RouterError::power("server", &other),
        })?;
        self.scale = Some(scale);
        let run = |pacer: wattline_scale::pacer::Pacer| -> WorkerLoop {
            Box::new(move |worker, waiter| pacer.run(worker, waiter))
        };
        Ok(pacers.into_iter().map(run).collect())
    }

    fn start(&mut self, _router: Running<'_>) -> Result<Option<Totals>, RouterError> {
        let failed =
            |error| RouterError::system("starting the governor", std::io::Error::other(error));
        let Some(scale) = &mut self.scale else { return Ok(None) };
        scale.start().map_err(failed)?;
        Ok(Some(scale.totals_at(Time::ZERO).map_err(failed)?.0))
    }

    fn totals(&self, patience: Duration) -> Option<(Totals, Option<Latency>)> {
        self.scale.as_ref()?.totals_now(patience).ok()
    }

    fn look(&self, _patience: Duration) -> Option<Seen> {
        Some(self.scale.as_ref()?.look(Seen::read))
    }

    fn lease(&self, asked: &Asked, _patience: Duration) -> Result<Option<HeldPoint>, String> {
        let scale = self.scale.as_ref().ok_or("the emulation has not begun")?;
        scale.lease(asked)
    }

    fn has_failed(&self) -> bool {
        self.scale.as_ref().is_some_and(Scale::has_failed)
    }

    fn details(&self) -> Details {
        let Some(scale) = &self.scale else { return Details::default() };
        let (disturbance, holds) = (Some(scale.disturbance()), Some(scale.holds()));
        Details { disturbance, holds, ..Details::default() }
    }
}
