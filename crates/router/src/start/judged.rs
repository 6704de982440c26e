//! Third phase: the applications, and the ports that are left to the kernel because it would do more
//! with their packets than route them.

use super::super::error::RouterError;
use super::super::takeover::{self, Lookout};
use super::known::Known;
use super::settled::{Settled, judging_sections};
use crate::application::{self, Application, Applications};
use crate::config::Config;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;
use wattline_dataplane::port::PortId;

/// Applications, and what they mean for the ports.
pub(super) struct Judged {
    pub applications: Vec<Box<dyn Application>>,
    /// Ports whose packets an application judges, with the sections that say so.
    pub judges: BTreeMap<PortId, String>,
    /// Ports from which no packet may go by the applications.
    pub guarded: BTreeSet<PortId>,
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
        let judged = |port: &PortId| applications.iter().any(|it| it.judges(*port));
        let judges: BTreeMap<_, _> =
            ports().filter(judged).map(|port| (port, judging_sections(config, port))).collect();
        let strictest = |port| applications.iter().filter_map(|it| it.checks_sources(port)).max();
        let checks = ports().filter_map(|port| Some((port, strictest(port)?))).collect();
        let guarded: BTreeSet<PortId> =
            ports().filter(|port| guards || judges.contains_key(port)).collect();
        let mut lookout = settled.has_interfaces.then(|| {
            let mut lookout = Lookout::new(guards, checks, guarded.iter().copied().collect());
            lookout.look_first(config, &known.rib, Instant::now());
            lookout
        });
        if let Some(lookout) = &mut lookout {
            refuse(lookout, config, &judges)?;
            lookout.tell_first(config);
        }
        Ok(Self { applications, judges, guarded, lookout })
    }

    /// Returns the reason for which a port is left to the kernel, if it is.
    pub fn left(&self, port: PortId) -> Option<&str> {
        self.lookout.as_ref()?.left(port)
    }
}

/// Ports that are judged are never left, and with `takeover = "refuse"` none is.
fn refuse(
    lookout: &Lookout,
    config: &Config,
    judges: &BTreeMap<PortId, String>,
) -> Result<(), RouterError> {
    if let Some(refusal) = lookout.refusal(config) {
        return Err(RouterError::Obstructed(refusal));
    }
    let left: Vec<String> = judges
        .iter()
        .filter_map(|(port, what)| {
            let name = &config.ports[usize::from(port.0)].name;
            Some(takeover::judged_and_left(name, what, lookout.left(*port)?))
        })
        .collect();
    if left.is_empty() { Ok(()) } else { Err(RouterError::Obstructed(left.join("\n"))) }
}
