//! Control of the access lists.

use super::AclSettings;
use super::lists::{Counted, Lists};
use super::node;
use arc_swap::ArcSwap;
use ipnet::IpNet;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wattline_daemon::metrics::{Exposition, Kind};
use wattline_dataplane::feature::Feature;
use wattline_dataplane::port::PortId;
use wattline_router::RouterError;
use wattline_router::application::{Application, RuleNames};
use wattline_router::config::{Config, Settings};
use wattline_status::applications::{AclRule, AclStats, AclTable, ApplicationStats, Unmatched};

/// Interval of the tick, which does nothing.
const SELDOM: Duration = Duration::from_secs(3600);

/// The access lists of one router.
struct Acl {
    lists: Arc<ArcSwap<Lists>>,
    names: Vec<String>,
    workers: u16,
}

/// Starts the application if the configuration has access lists.
pub(crate) fn start(config: &Config) -> Result<Vec<Box<dyn Application>>, RouterError> {
    let Some(settings) = config.of::<AclSettings>() else { return Ok(Vec::new()) };
    let workers = config.router.workers;
    let lists = Lists::new(&settings.rules, config.ports.len(), workers, None);
    let names = names_of(config);
    for port in &settings.ports {
        let count = settings.rules.iter().filter(|rule| rule.holds_on(*port)).count();
        tracing::info!(
            "port {}: {count} rules of [[acl]] judge what comes in; packets that none matches are \
             dropped",
            names[*port]
        );
    }
    Ok(vec![Box::new(Acl { lists: Arc::new(ArcSwap::from_pointee(lists)), names, workers })])
}

fn names_of(config: &Config) -> Vec<String> {
    config.ports.iter().map(|port| port.name.clone()).collect()
}

impl Acl {
    /// Returns true if the existing ports of another configuration keep rules or stay without: the
    /// path of their packets, through workers or not, is fixed when a port is opened.
    fn ports_with_rules_stay(&self, new: &Config, settings: &AclSettings, before: &Lists) -> bool {
        let mut ports = new.ports.iter().enumerate();
        ports.all(|(place, port)| {
            port.is_vacant()
                || self.names.get(place) != Some(&port.name)
                || before.has(place) == settings.ports.contains(&place)
        })
    }

    /// Returns the ports with rules, with the packets that no rule matched.
    fn unmatched(&self, lists: &Lists) -> Vec<Unmatched> {
        let ports = self.names.iter().zip(&lists.unmatched).enumerate();
        let with_rules = ports.filter(|(port, _)| lists.has(*port));
        let counted = with_rules.map(|(_, (port, counts))| {
            let (packets, bytes) = counts.total();
            Unmatched { port: port.clone(), packets, bytes }
        });
        counted.collect()
    }

    /// Returns the counters, with at most `most` rules.
    fn counted(&self, most: usize) -> AclStats {
        let lists = self.lists.load();
        let rule = |it: &Counted| {
            let rule = &it.rule;
            let (packets, bytes) = it.counts.total();
            let on = rule.on.iter().filter_map(|port| self.names.get(*port));
            AclRule {
                name: rule.name.clone(),
                on: on.cloned().collect(),
                action: rule.action.name().to_owned(),
                source: rule.sources.iter().map(IpNet::to_string).collect(),
                destination: rule.destinations.iter().map(IpNet::to_string).collect(),
                protocol: rule.protocols.clone(),
                source_ports: rule.source_ports.iter().map(range).collect(),
                destination_ports: rule.destination_ports.iter().map(range).collect(),
                packets,
                bytes,
            }
        };
        AclStats {
            rules: lists.rules.iter().take(most).map(rule).collect(),
            total: lists.rules.len(),
            unmatched: self.unmatched(&lists),
        }
    }
}

/// Returns a range of ports as in the configuration.
fn range(ports: &RangeInclusive<u16>) -> String {
    match (ports.start(), ports.end()) {
        (low, high) if low == high => low.to_string(),
        (low, high) => format!("{low}-{high}"),
    }
}

impl Application for Acl {
    fn name(&self) -> &'static str {
        "acl"
    }

    fn features(&mut self, worker: u16) -> Vec<Feature> {
        node::features(&self.lists, worker)
    }

    fn tick(&mut self, now: Instant) -> Instant {
        now + SELDOM
    }

    fn judges(&self, port: PortId) -> bool {
        self.lists.load().has(usize::from(port.0))
    }

    fn reload(&mut self, config: &Config) -> Option<&'static str> {
        let settings = config.of::<AclSettings>()?;
        let before = self.lists.load_full();
        if !self.ports_with_rules_stay(config, settings, &before) {
            return None;
        }
        let ports = config.ports.len();
        let mut lists = Lists::new(&settings.rules, ports, self.workers, Some(&before));
        for (place, port) in config.ports.iter().enumerate() {
            if port.is_vacant() {
                lists.keep(place, &before);
            } else if self.names.get(place) != Some(&port.name) {
                lists.begin(place, self.workers);
            }
        }
        self.names = names_of(config);
        self.lists.store(Arc::new(lists));
        Some(settings.heading())
    }

    fn refuses_ports(&self, new: &Config) -> Option<String> {
        let stay = |settings| self.ports_with_rules_stay(new, settings, &self.lists.load());
        let why = match new.of::<AclSettings>() {
            None => "[[acl]] was removed, which needs a restart",
            Some(settings) if !stay(settings) => {
                "[[acl]] adds the first rule of an existing port or removes its last one, which \
                 needs a restart"
            }
            Some(_) => return None,
        };
        Some(why.to_owned())
    }

    fn says_of(&self, port: PortId) -> Option<String> {
        let lists = self.lists.load();
        let port = usize::from(port.0);
        let count = lists.rules.iter().filter(|it| it.rule.holds_on(port)).count();
        lists.has(port).then(|| format!("{count} rules of [[acl]]"))
    }

    fn rule_names(&self) -> Option<RuleNames> {
        let lists = self.lists.clone();
        Some(Box::new(move |number| lists.load().name(number).map(str::to_owned)))
    }

    fn stats(&self, to: &mut ApplicationStats) {
        to.acl = Some(self.counted(usize::MAX));
    }

    fn rules(&self, most: usize) -> Option<AclTable> {
        Some(AclTable { acl: self.counted(most), ..AclTable::default() })
    }

    fn metrics(&self, to: &mut Exposition) {
        let lists = self.lists.load();
        let help = "Packets that a rule of an access list matched.";
        to.family("wattline_acl_packets_total", Kind::Counter, help);
        for it in &lists.rules {
            let labels = [("rule", it.rule.name.as_str()), ("action", it.rule.action.name())];
            to.sample(&labels, it.counts.total().0 as f64);
        }
        let help =
            "Packets of a port with an access list that no rule matched, and that were dropped.";
        to.family("wattline_acl_unmatched_packets_total", Kind::Counter, help);
        for Unmatched { port, packets, .. } in self.unmatched(&lists) {
            to.sample(&[("port", &port)], packets as f64);
        }
    }

    fn finish(&mut self, _: bool) {}
}
