//! Control of the reverse-path check.

use super::UrpfSettings;
use super::node::{self, Checks, Dropped};
use std::time::{Duration, Instant};
use wattline_daemon::metrics::{Exposition, Kind};
use wattline_dataplane::counters::Counter;
use wattline_dataplane::feature::Feature;
use wattline_dataplane::port::PortId;
use wattline_router::RouterError;
use wattline_router::application::{Application, SourceCheck};
use wattline_router::config::{Config, Settings};
use wattline_status::applications::{ApplicationStats, UrpfPort, UrpfStats};

/// Interval of the tick, which does nothing.
const SELDOM: Duration = Duration::from_secs(3600);

/// The check in one router.
struct Urpf {
    checks: Checks,
    names: Vec<String>,
    /// Dropped packets, by worker.
    dropped: Vec<Dropped>,
    /// By port, packets that were dropped by a former port in its place.
    before: Vec<u64>,
}

/// Starts the application if the configuration has checks.
pub(crate) fn start(config: &Config) -> Result<Vec<Box<dyn Application>>, RouterError> {
    let Some(settings) = config.of::<UrpfSettings>() else { return Ok(Vec::new()) };
    let checks = Checks::none(config.ports.len() + config.spare_ports());
    let names = names_of(config);
    for (port, check) in &settings.checks {
        checks.set(*port, Some(*check));
        tracing::info!("port {}: source addresses are checked, {}", names[*port], check.name());
    }
    Ok(vec![Box::new(Urpf { before: vec![0; checks.len()], checks, names, dropped: Vec::new() })])
}

fn names_of(config: &Config) -> Vec<String> {
    config.ports.iter().map(|port| port.name.clone()).collect()
}

impl Urpf {
    /// Returns true if the existing ports of another configuration keep their checks.
    fn checks_stay(&self, new: &Config, settings: &UrpfSettings) -> bool {
        let mut ports = new.ports.iter().enumerate();
        ports.all(|(place, port)| {
            let is_new = self.names.get(place) != Some(&port.name);
            port.is_vacant() || is_new || self.checks.get(place) == settings.check(place)
        })
    }

    /// Returns the ports with a check, and the packets that they dropped.
    fn ports(&self) -> impl Iterator<Item = UrpfPort> {
        let ports = self.names.iter().enumerate().filter(|(_, name)| !name.is_empty());
        ports.filter_map(|(port, name)| {
            let (check, dropped_packets) = (self.checks.get(port)?, self.dropped(port));
            Some(UrpfPort { port: name.clone(), check, dropped_packets })
        })
    }

    fn dropped(&self, port: usize) -> u64 {
        self.counted(port) - self.before.get(port).copied().unwrap_or_default()
    }

    fn counted(&self, port: usize) -> u64 {
        self.dropped.iter().filter_map(|worker| worker.get(port)).map(Counter::get).sum()
    }
}

impl Application for Urpf {
    fn name(&self) -> &'static str {
        "urpf"
    }

    fn features(&mut self, _worker: u16) -> Vec<Feature> {
        let dropped: Dropped = (0..self.checks.len()).map(|_| Counter::default()).collect();
        self.dropped.push(dropped.clone());
        node::features(&self.checks, &dropped)
    }

    fn tick(&mut self, now: Instant) -> Instant {
        now + SELDOM
    }

    fn judges(&self, port: PortId) -> bool {
        self.checks_sources(port).is_some()
    }

    fn checks_sources(&self, port: PortId) -> Option<SourceCheck> {
        self.checks.get(usize::from(port.0))
    }

    fn will_check(&self, port: PortId, new: &Config) -> Option<SourceCheck> {
        new.of::<UrpfSettings>()?.check(usize::from(port.0))
    }

    fn refuses_ports(&self, new: &Config) -> Option<String> {
        let why = match new.of::<UrpfSettings>() {
            None => "[urpf] was removed, which needs a restart",
            Some(settings) if !self.checks_stay(new, settings) => {
                "[urpf] changes the check of an existing port, which needs a restart"
            }
            Some(_) => return None,
        };
        Some(why.to_owned())
    }

    fn reload(&mut self, config: &Config) -> Option<&'static str> {
        let settings = config.of::<UrpfSettings>()?;
        if !self.checks_stay(config, settings) {
            return None;
        }
        // A removed port still checks the packets in its queues.
        for (place, port) in config.ports.iter().enumerate().filter(|(_, it)| !it.is_vacant()) {
            if self.names.get(place) != Some(&port.name) {
                self.checks.set(place, settings.check(place));
                let counted = self.counted(place);
                self.before.iter_mut().skip(place).take(1).for_each(|it| *it = counted);
            }
        }
        self.names = names_of(config);
        Some(settings.heading())
    }

    fn says_of(&self, port: PortId) -> Option<String> {
        let check = self.checks_sources(port)?;
        let dropped = self.dropped(usize::from(port.0));
        Some(format!("source addresses {} ([urpf]), {dropped} packets dropped", check.name()))
    }

    fn stats(&self, to: &mut ApplicationStats) {
        to.urpf = Some(UrpfStats { ports: self.ports().collect() });
    }

    fn metrics(&self, to: &mut Exposition) {
        let help = "Packets that a port dropped since no route leads back to their source address.";
        to.family("wattline_urpf_dropped_packets_total", Kind::Counter, help);
        for UrpfPort { port, check, dropped_packets } in self.ports() {
            to.sample(&[("port", &port), ("check", check.name())], dropped_packets as f64);
        }
    }

    fn finish(&mut self, _: bool) {}
}
