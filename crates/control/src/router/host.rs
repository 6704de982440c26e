//! The platform `host` for a router: which CPUs, queues and interfaces its governor may touch.

use super::error::RouterError;
use crate::config::{Config, PortKind};
use wattline_host::{HostOptions, Layout, Port, TakeOverError};
use wattline_knobs::SessionError;
use wattline_linux::privileges::Rights;
use wattline_linux::sysfs::Tree;
use wattline_ports::afxdp::Options as RingOptions;

/// What the governor of a router may touch, for the router and for its plan alike; `queues` gives
/// the receive queues of a port.
pub(super) fn options_of(
    config: &Config,
    tree: &Tree,
    rights: Rights,
    queues: impl Fn(usize) -> u32,
) -> HostOptions {
    let ports = config.ports.iter().enumerate().map(|(number, port)| match &port.kind {
        PortKind::Interface(name) => Port { interface: Some(name.clone()), queues: queues(number) },
        PortKind::Capture { .. } => Port { interface: None, queues: 1 },
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
        uncore: config.power.uncore,
        meters: true,
        rights,
    }
}

impl From<TakeOverError> for RouterError {
    fn from(error: TakeOverError) -> Self {
        match error {
            TakeOverError::Session(SessionError::Busy { .. }) | TakeOverError::Platform(_) => {
                Self::Unfit(format!("[power] {error}"))
            }
            TakeOverError::Session(error) => Self::system("[power]", std::io::Error::other(error)),
            TakeOverError::Watchdog(error) => {
                Self::system("starting the watchdog of [power]", error)
            }
            TakeOverError::Unrestored(report) => Self::Unrestored(report),
        }
    }
}
