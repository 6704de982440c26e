//! Third phase: the applications, and the ports that are left to the kernel because it would do more
//! with their packets than route them.

use super::super::error::RouterError;
use super::super::takeover::{self, Lookout};
use super::known::Known;
use super::settled::{Settled, judging_sections};
use crate::application::{self, Application, Applications};
use crate::config::Config;
use crate::port::guard::Guard;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;
use wattline_dataplane::port::PortId;

/// Applications, and what they mean for the ports.
pub(super) struct Judged {
    pub applications: Vec<Box<dyn Application>>,
    /// Guards of the ports.
    pub guards: BTreeMap<PortId, Guard>,
    /// The kernel's work beside routing, where there are interfaces.
    pub lookout: Option<Lookout>,
}

impl Judged {
    /// Starts the applications and looks at the kernel's work beside routing.
    ///
    /// # Errors
    /// When an application is wrong, or a port that may not be left would have to be.
    pub fn new(
        settled: &Settled,
        known: &Known,
        applications: Applications,
    ) -> Result<Self, RouterError> {
        let config = &settled.config;
        let applications = application::start(applications, config)?;
        let guards = applications.iter().any(|it| it.guards());
        let ports = || (0..config.ports.len() as u16).map(PortId);
        let by_port: BTreeMap<_, _> =
            ports().map(|port| (port, Guard::new(config, port, &applications))).collect();
        let strictest = |port| applications.iter().filter_map(|it| it.checks_sources(port)).max();
        let checks = ports().filter_map(|port| Some((port, strictest(port)?))).collect();
        let mut lookout = settled.has_interfaces.then(|| {
            let mut lookout = Lookout::new(guards, checks, guarded(&by_port));
            lookout.look_first(config, &known.rib, Instant::now());
            lookout
        });
        if let Some(lookout) = &mut lookout {
            refuse(lookout, config)?;
            lookout.tell_first(config);
        }
        Ok(Self { applications, guards: by_port, lookout })
    }

    /// Returns the reason for which a port is left to the kernel, if it is.
    pub fn left(&self, port: PortId) -> Option<&str> {
        self.lookout.as_ref()?.left(port)
    }
}

/// Returns the ports of which the kernel may forward no frame.
fn guarded(guards: &BTreeMap<PortId, Guard>) -> BTreeSet<PortId> {
    guards.iter().filter(|(_, guard)| guard.is_guarded()).map(|(port, _)| *port).collect()
}

/// Refuses to start with a port that lists or source checks judge and that would be left to the
/// kernel, and, with `takeover = "refuse"`, with any port that would be.
fn refuse(lookout: &Lookout, config: &Config) -> Result<(), RouterError> {
    if let Some(refusal) = lookout.refusal(config) {
        return Err(RouterError::Obstructed(refusal));
    }
    let left: Vec<String> = (0..)
        .map(PortId)
        .zip(&config.ports)
        .filter_map(|(port, settings)| {
            let what = judging_sections(config, port);
            let why = lookout.left(port).filter(|_| !what.is_empty())?;
            Some(takeover::judged_and_left(&settings.name, &what, why))
        })
        .collect();
    if left.is_empty() { Ok(()) } else { Err(RouterError::Obstructed(left.join("\n"))) }
}
