//! Decides whether Wattline may take packets to which the kernel would apply more than routing.
//!
//! A program that forwards in the kernel's place bypasses filters, address translation, rules of
//! policy routing and the like. They are searched at the start, when the kernel announces a change,
//! and every few seconds, as the kernel does not announce all changes. The configuration determines
//! the treatment of the ports ([`Takeover`]).

#[cfg(test)]
mod hooks;
mod judge;

use crate::config::{Config, Takeover};
use ipnet::IpNet;
pub(super) use judge::UsableFlowtable;
use judge::{Circumstances, Interfaces, Reason};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::net::IpAddr;
use std::time::{Duration, Instant};
use wattline_dataplane::port::PortId;
use wattline_linux::ethtool;
use wattline_linux::netlink::forward_path::{self, ForwardPath, Watch};
use wattline_rib::Rib;
use wattline_status::applications::SourceCheck;

/// Time between two checks: a hundred times the duration of a check, within these limits.
const CHECK_EVERY: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(5)];
/// Delay of a check after a change, since changes come in bursts.
const SETTLE: Duration = Duration::from_millis(50);
/// Most reasons that are logged one by one.
const MOST_LOGGED: usize = 20;
/// Reason why packets of a guarded port are not left to the kernel.
pub(super) const UNJUDGED: &str =
    "the kernel would also filter or translate them, but no application would check them there";

/// Monitor of the kernel's treatments of packets other than routing, and the ports that are left to
/// the kernel because of them.
pub(super) struct ForwardPathMonitor {
    watch: Watch,
    due: Instant,
    guards: bool,
    checks: BTreeMap<PortId, SourceCheck>,
    reasons: Vec<Reason>,
    left: BTreeMap<PortId, String>,
    /// Prefixes whose packets are left, by port, if the others are not.
    prefixes: BTreeMap<PortId, BTreeSet<IpNet>>,
    /// By port that is left, the flowtable whose flows XDP programs may forward, or the obstacle.
    flows: BTreeMap<PortId, Result<UsableFlowtable, String>>,
    /// Ports that leave no packet to the kernel which it would forward.
    guarded: BTreeSet<PortId>,
    /// True once a user has added a local route or a routing rule, which affects the kernel even
    /// after its removal.
    had_own_lookups: bool,
    /// See [`Rib::local_changes`].
    local_changes: u64,
    /// Interfaces stacked on guarded ports, and the logged ones.
    cut_off: Vec<String>,
    cut_off_logged: BTreeSet<String>,
}

impl ForwardPathMonitor {
    /// Creates a monitor whose first check is due. `guards` is true if an application carries out
    /// IPsec policies, `checks` are the source checks of ports, and `guarded` the ports that leave
    /// no packet to the kernel which it would forward.
    pub fn new(
        guards: bool,
        checks: BTreeMap<PortId, SourceCheck>,
        guarded: BTreeSet<PortId>,
    ) -> Self {
        Self {
            watch: Watch::new(),
            due: Instant::now(),
            guards,
            checks,
            reasons: Vec::new(),
            left: BTreeMap::new(),
            prefixes: BTreeMap::new(),
            flows: BTreeMap::new(),
            guarded,
            had_own_lookups: false,
            local_changes: 0,
            cut_off: Vec::new(),
            cut_off_logged: BTreeSet::new(),
        }
    }

    /// Returns the watch, readable when a check is due.
    pub fn watch(&self) -> &Watch {
        &self.watch
    }

    /// Returns the time by which [`Self::poll`] has to be called.
    pub fn deadline(&self) -> Instant {
        self.due
    }

    /// Adds a port, and judges it at once; the next check, which is due, logs the result. `check`
    /// is the check of its packets' source addresses.
    pub fn add(
        &mut self,
        port: PortId,
        guarded: bool,
        check: Option<SourceCheck>,
        (config, rib): (&Config, &Rib),
    ) {
        self.checks.extend(check.map(|check| (port, check)));
        if guarded {
            self.guarded.insert(port);
        }
        self.judge(config, rib, Instant::now());
        self.hurry();
    }

    /// Removes a port, whether or not it was added.
    pub fn remove(&mut self, port: PortId) {
        self.guarded.remove(&port);
        self.checks.remove(&port);
        self.left.remove(&port);
        self.prefixes.remove(&port);
        self.flows.remove(&port);
        self.reasons.retain(|reason| reason.port != Some(port));
        self.hurry();
    }

    /// Makes the next check due now, as the configuration has changed.
    pub fn hurry(&mut self) {
        self.due = Instant::now();
    }

    /// Has the next check, which is due, log all reasons again: their effects have changed.
    pub fn log_again(&mut self) {
        self.reasons.clear();
        self.hurry();
    }

    /// Runs the first check, as the router starts, and logs nothing: if the router refuses to
    /// start, no packet is forwarded, and the refusal names the reasons ([`Self::refusal`]).
    pub fn check_first(&mut self, config: &Config, rib: &Rib, now: Instant) {
        let reasons = self.judge(config, rib, now);
        self.reasons = reasons;
    }

    /// Logs the reasons of the first check, once it is certain that the router starts.
    pub fn log_first(&mut self, config: &Config) {
        let reasons = std::mem::take(&mut self.reasons);
        self.log_changes(&reasons, config);
        self.log_cut_off();
        self.reasons = reasons;
    }

    /// Runs a check if it is due, and logs changes. Returns true if the ports that are left to the
    /// kernel, or the reasons, have changed.
    pub fn poll(&mut self, config: &Config, rib: &Rib, now: Instant) -> bool {
        let local_changes = rib.local_changes();
        if std::mem::replace(&mut self.local_changes, local_changes) != local_changes
            || self.watch.has_changed()
        {
            self.due = self.due.min(now + SETTLE);
        }
        if now < self.due {
            return false;
        }
        let state = |of: &Self| (of.left.clone(), of.prefixes.clone(), of.flows.clone());
        let before = state(self);
        let reasons = self.judge(config, rib, now);
        self.log_changes(&reasons, config);
        self.log_cut_off();
        self.reasons = reasons;
        before != state(self)
    }

    /// Returns everything that forwarding would bypass now, and stores the packets that are left to
    /// the kernel for it.
    fn judge(&mut self, config: &Config, rib: &Rib, now: Instant) -> Vec<Reason> {
        let ports = interfaces(config, rib);
        let began = Instant::now();
        let found = forward_path::read();
        self.due = now + (began.elapsed() * 100).clamp(CHECK_EVERY[0], CHECK_EVERY[1]);
        self.had_own_lookups |= has_own_lookups(&found, rib);
        let lookups = self.had_own_lookups;
        let reasons = reasons(&found, config, rib, &ports, self.guards, &self.checks, lookups);
        self.cut_off = judge::cut_off(&found, &ports, &self.guarded);
        (self.left, self.prefixes, self.flows) = match config.router.takeover {
            Takeover::Force => Default::default(),
            // A running router leaves packets to the kernel rather than end.
            Takeover::Narrow | Takeover::Strict => {
                // Packets out of tunnels have other addresses than the received ones.
                let none = BTreeSet::new();
                let whole = if self.guards { &self.guarded } else { &none };
                let prefixes = judge::left_prefixes(&reasons, &ports, whole);
                let mut flows = judge::flows(&found, &reasons, &ports, &prefixes);
                flows.retain(|port, _| !self.guarded.contains(port));
                (judge::left(&reasons, &ports, &prefixes), prefixes, flows)
            }
        };
        reasons
    }

    /// Logs each interface on top of a guarded port once.
    fn log_cut_off(&mut self) {
        self.cut_off_logged.retain(|logged| self.cut_off.contains(logged));
        for text in &self.cut_off {
            if self.cut_off_logged.insert(text.clone()) {
                tracing::warn!("{text}");
            }
        }
    }

    fn log_changes(&self, reasons: &[Reason], config: &Config) {
        let forces = config.router.takeover == Takeover::Force;
        let new = without(reasons, &self.reasons);
        for reason in new.iter().take(MOST_LOGGED) {
            let prefix = port_prefix(reason, config);
            let alone = reason.only.as_ref().filter(|_| !self.guards);
            let of = alone.and_then(|only| {
                let others = only.len() - 1;
                let others = if others > 0 { format!(" and {others} more") } else { String::new() };
                Some(format!(" from and to {}{others}", only.first()?))
            });
            let of = of.unwrap_or_default();
            let is_off = reason.is_of_family();
            let fate = match (forces || reason.is_mild, reason.port) {
                (true, _) if is_off => "Wattline forwards such packets anyway".to_owned(),
                (true, _) => "Wattline forwards packets without it".to_owned(),
                (false, _) if is_off => {
                    "such packets of this port are left to the kernel".to_owned()
                }
                (false, Some(port)) if self.guarded.contains(&port) => {
                    format!("the packets{of} of this port are dropped: {UNJUDGED}")
                }
                (false, Some(_)) => format!("the kernel forwards the packets{of} of this port"),
                (false, None) if self.guarded.is_empty() => {
                    format!("the kernel forwards the packets{of} of all ports")
                }
                (false, None) => format!(
                    "the kernel forwards the packets{of} of all ports, but for those that an application \
                     guards: there they are dropped: {UNJUDGED}"
                ),
            };
            tracing::warn!("{prefix}{}: {fate}", reason.text);
        }
        if new.len() > MOST_LOGGED {
            tracing::warn!("and {} more reasons of this kind", new.len() - MOST_LOGGED);
        }
        for reason in without(&self.reasons, reasons).iter().take(MOST_LOGGED) {
            tracing::info!("{}{}: no longer the case", port_prefix(reason, config), reason.text);
        }
    }

    /// Returns why the router must not start: everything that it would bypass, if the configuration
    /// forbids it. A family that the kernel does not forward is no reason.
    pub fn refusal(&self, config: &Config) -> Option<String> {
        let bypassed = self.reasons.iter().filter(|it| !it.is_of_family());
        let mut lines: Vec<String> = bypassed.map(|it| sentence(it, config)).collect();
        if config.router.takeover != Takeover::Strict || lines.is_empty() {
            return None;
        }
        lines.insert(0, "Wattline would bypass what the kernel does:".into());
        lines.push(
            "remove these features, or choose: [router] takeover = \"narrow\" leaves such ports to \
             the kernel, \"force\" forwards anyway"
                .into(),
        );
        Some(lines.join("\n"))
    }

    /// Returns why a port is left to the kernel, if it is.
    pub fn left(&self, port: PortId) -> Option<&str> {
        self.left.get(&port).map(String::as_str)
    }

    /// Returns the flowtable whose flows XDP programs may forward at a port that is left to the
    /// kernel, or the obstacle.
    pub fn flows(&self, port: PortId) -> Option<&Result<UsableFlowtable, String>> {
        self.flows.get(&port)
    }

    /// Returns true if an application judges the packets of a port, so that packets left to the
    /// kernel are not forwarded.
    pub fn is_guarded(&self, port: PortId) -> bool {
        self.guarded.contains(&port)
    }

    /// Lists, in sentences, the reasons why a port leaves all packets of a family to the kernel.
    pub fn left_families(&self, port: PortId) -> impl Iterator<Item = &str> {
        let of = move |it: &&Reason| it.port == Some(port) && it.is_of_family();
        let left = self.prefixes.contains_key(&port);
        self.reasons.iter().filter(of).filter(move |_| left).map(|it| it.text.as_str())
    }

    /// Returns the prefixes whose packets a port leaves to the kernel, if it does not leave all.
    pub fn left_prefixes(&self, port: PortId) -> Option<&BTreeSet<IpNet>> {
        self.prefixes.get(&port)
    }

    /// Lists the reasons for [`Self::left_prefixes`].
    pub fn prefixes_because(&self, port: PortId) -> Vec<String> {
        let of = |it: &&Reason| it.port.is_none_or(|whose| whose == port) && !it.is_mild;
        let mut texts = Vec::new();
        if self.prefixes.get(&port).is_some_and(|it| !it.is_empty()) {
            texts.extend(self.reasons.iter().filter(of).map(|it| it.text.clone()));
            texts.dedup();
        }
        texts
    }

    /// Lists everything that is, or would be, bypassed, in sentences.
    pub fn bypassed(&self, config: &Config) -> Vec<String> {
        self.reasons.iter().map(|it| sentence(it, config)).collect()
    }
}

/// Returns the message that a port cannot be served: the kernel would forward its packets, for the
/// reason `why`, without the checks of the sections `judges`.
pub(super) fn judged_and_left(name: &str, judges: &str, why: &str) -> String {
    format!(
        "[[port]] {name}: {judges} would not hold, as the port would be left to the kernel: {why}; \
         remove that, or set [router] takeover = \"force\" to forward without it"
    )
}

/// Returns true if a user has added a local route or a routing rule of IPv4.
fn has_own_lookups(found: &ForwardPath, rib: &Rib) -> bool {
    found.rules.iter().any(|rule| !rule.ipv6) || !rib.local().added.is_empty()
}

/// Returns the detected kernel features other than routing.
fn reasons(
    found: &ForwardPath,
    config: &Config,
    rib: &Rib,
    ports: &[Interfaces],
    guards: bool,
    checks: &BTreeMap<PortId, SourceCheck>,
    has_own_lookups: bool,
) -> Vec<Reason> {
    let own: Vec<IpAddr> = rib.own_networks().map(|network| network.addr()).collect();
    let dropped = rib.loosely_dropped();
    let circumstances = Circumstances {
        setting: &forward_path::setting,
        has_ipv4: &|link| rib.has_ipv4(link),
        loosely_dropped: dropped.as_ref(),
        by_own_gateways: rib.by_own_gateways(),
        follows_kernel: config.router.kernel_routes,
        guards,
        own: &own,
        local: &rib.local(),
        has_own_lookups,
        checks,
        strips_tags: &|name| ethtool::strips_vlan_tags(name).unwrap_or(false),
        merges_packets: &|name| ethtool::merges_packets(name).unwrap_or(false),
        spreads_by: &forward_path::spread_of_bond,
    };
    judge::judge(found, ports, &circumstances)
}

/// Returns the reasons that are not among `others`.
fn without<'a>(reasons: &'a [Reason], others: &[Reason]) -> Vec<&'a Reason> {
    let others: HashSet<&Reason> = others.iter().collect();
    reasons.iter().filter(|reason| !others.contains(reason)).collect()
}

fn sentence(reason: &Reason, config: &Config) -> String {
    format!("{}{}", port_prefix(reason, config), reason.text)
}

fn port_prefix(reason: &Reason, config: &Config) -> String {
    let port = reason.port.and_then(|port| config.ports.get(usize::from(port.0)));
    port.map_or(String::new(), |port| format!("port {}: ", port.name))
}

fn interfaces(config: &Config, rib: &Rib) -> Vec<Interfaces> {
    let of = |port| {
        let links = rib.interfaces_of(port);
        (!links.is_empty()).then_some(Interfaces { port, links })
    };
    (0..config.ports.len() as u16).map(PortId).filter_map(of).collect()
}
