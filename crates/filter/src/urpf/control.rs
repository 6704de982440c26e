//! The reverse-path check on the control thread.

use super::UrpfSettings;
use super::node::{self, Checks, Dropped};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use wattline_daemon::metrics::{Exposition, Kind};
use wattline_dataplane::counters::Counter;
use wattline_dataplane::feature::Feature;
use wattline_dataplane::port::PortId;
use wattline_router::RouterError;
use wattline_router::application::{Application, SourceCheck};
use wattline_router::config::Config;

/// Nothing is ever due.
const SELDOM: Duration = Duration::from_secs(3600);

/// The check in one router.
struct Urpf {
    checks: Checks,
    names: Vec<String>,
    /// By worker.
    dropped: Vec<Dropped>,
}

/// Starts what the configuration asks for.
pub(crate) fn start(config: &Config) -> Result<Vec<Box<dyn Application>>, RouterError> {
    let Some(settings) = config.of::<UrpfSettings>() else { return Ok(Vec::new()) };
    let check = |port| settings.checks.iter().find(|(of, _)| *of == port).map(|(_, check)| *check);
    let checks: Checks = (0..config.ports.len()).map(check).collect();
    let names: Vec<String> = config.ports.iter().map(|port| port.name.clone()).collect();
    for (port, check) in &settings.checks {
        tracing::info!("port {}: source addresses are checked, {}", names[*port], name(*check));
    }
    Ok(vec![Box::new(Urpf { checks, names, dropped: Vec::new() })])
}

fn name(check: SourceCheck) -> &'static str {
    match check {
        SourceCheck::Loose => "loose",
        SourceCheck::Strict => "strict",
    }
}

impl Urpf {
    /// Ports that check, with their names and what they dropped.
    fn ports(&self) -> impl Iterator<Item = (&str, SourceCheck, u64)> {
        let checked = self.checks.iter().enumerate().filter_map(|(port, it)| Some((port, (*it)?)));
        checked.map(|(port, check)| (self.names[port].as_str(), check, self.dropped(port)))
    }

    fn dropped(&self, port: usize) -> u64 {
        self.dropped.iter().filter_map(|worker| worker.get(port)).map(Counter::get).sum()
    }
}

impl Application for Urpf {
    fn name(&self) -> &'static str {
        "urpf"
    }

    fn features(&mut self, _worker: u16) -> Vec<Feature> {
        let dropped: Dropped = self.names.iter().map(|_| Counter::default()).collect();
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
        self.checks.get(usize::from(port.0)).copied().flatten()
    }

    fn says_of(&self, port: PortId) -> Option<String> {
        let check = self.checks_sources(port)?;
        let dropped = self.dropped(usize::from(port.0));
        Some(format!("source addresses {} ([urpf]), {dropped} packets dropped", name(check)))
    }

    fn stats(&self) -> Value {
        let ports: Vec<Value> = self
            .ports()
            .map(|(port, check, dropped)| {
                json!({ "port": port, "check": name(check), "dropped_packets": dropped })
            })
            .collect();
        json!({ "ports": ports })
    }

    fn metrics(&self, to: &mut Exposition) {
        let help = "Packets that a port dropped since no route leads back to their source address.";
        to.family("wattline_urpf_dropped_packets_total", Kind::Counter, help);
        for (port, check, dropped) in self.ports() {
            to.sample(&[("port", port), ("check", name(check))], dropped as f64);
        }
    }

    fn finish(&mut self, _: bool) {}
}
