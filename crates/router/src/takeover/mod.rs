//! Decides whether Wattline may take packets to which the kernel would apply more than routing.
//!
//! A program that forwards in the kernel's place bypasses filters, address translation, rules of
//! policy routing and the like. They are looked for at the start, when the kernel announces a
//! change, and every few seconds, as the kernel does not announce all changes. The configuration
//! says what becomes of the ports ([`Takeover`]).

#[cfg(test)]
mod hooks;
mod judge;

use crate::application::SourceCheck;
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

/// Time between two looks: a hundred times the duration of a look, within these limits.
const LOOK_EVERY: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(5)];
/// Changes come in crowds: a look waits for so long.
const SETTLE: Duration = Duration::from_millis(50);
/// So many reasons are told one by one.
const MOST_TOLD: usize = 20;
/// Reason for which packets of a guarded port are not left to the kernel.
pub(super) const UNJUDGED: &str =
    "the kernel would also filter or translate them, but no application would check them there";

/// The kernel's work beside routing, and the ports that are left to the kernel for it.
pub(super) struct ForwardPathMonitor {
    watch: Watch,
    due: Instant,
    guards: bool,
    checks: BTreeMap<PortId, SourceCheck>,
    reasons: Vec<Reason>,
    left: BTreeMap<PortId, String>,
    /// By port, the prefixes whose packets alone are left.
    prefixes: BTreeMap<PortId, BTreeSet<IpNet>>,
    /// The flowtable of each port that is left, whose flows XDP programs may forward, or the obstacle.
    flows: BTreeMap<PortId, Result<UsableFlowtable, String>>,
    /// Ports that leave nothing to the kernel that it would forward.
    guarded: BTreeSet<PortId>,
    /// Whether a user has added a local route or a routing rule, which the kernel does not forget.
    had_own_lookups: bool,
    /// See [`Rib::local_changes`].
    local_changes: u64,
    /// Interfaces stacked on guarded ports, and those that were logged.
    cut_off: Vec<String>,
    cut_off_logged: BTreeSet<String>,
}

impl ForwardPathMonitor {
    /// Begins to look; `guards` says whether an application does what policies of IPsec ask for,
    /// `checks` at which ports source addresses are compared with the routes, `guarded` which ports
    /// leave nothing to the kernel that it would forward.
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

    /// Returns the watch, readable when a look is due.
    pub fn watch(&self) -> &Watch {
        &self.watch
    }

    /// When [`Self::look`] wants to be called at the latest.
    pub fn deadline(&self) -> Instant {
        self.due
    }

    /// Adds a port, and judges it at once; the next look, which is due, logs the result. `check` says how the source addresses of its packets are checked.
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

    /// Removes a port, also one that was not added after all.
    pub fn remove(&mut self, port: PortId) {
        self.guarded.remove(&port);
        self.checks.remove(&port);
        self.left.remove(&port);
        self.prefixes.remove(&port);
        self.flows.remove(&port);
        self.reasons.retain(|reason| reason.port != Some(port));
        self.hurry();
    }

    /// Makes the next look due now, as the configuration has changed.
    pub fn hurry(&mut self) {
        self.due = Instant::now();
    }

    /// Has all reasons reported anew with the next look, which is due: their effects have changed.
    pub fn tell_again(&mut self) {
        self.reasons.clear();
        self.hurry();
    }

    /// Looks for the first time, as the router starts, and tells nothing: where it then refuses to
    /// start, no packet is forwarded, and the refusal says why ([`Self::refusal`]).
    pub fn look_first(&mut self, config: &Config, rib: &Rib, now: Instant) {
        let reasons = self.judge(config, rib, now);
        self.reasons = reasons;
    }

    /// Tells what the first look found, once it is sure that the router starts.
    pub fn tell_first(&mut self, config: &Config) {
        let reasons = std::mem::take(&mut self.reasons);
        self.tell(&reasons, config);
        self.log_cut_off();
        self.reasons = reasons;
    }

    /// Looks where that is due, and tells what has changed. True where other ports are left to the
    /// kernel than before, or for other reasons.
    pub fn look(&mut self, config: &Config, rib: &Rib, now: Instant) -> bool {
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
        self.tell(&reasons, config);
        self.log_cut_off();
        self.reasons = reasons;
        before != state(self)
    }

    /// Returns what forwarding would bypass now, and stores what is left to the kernel for it.
    fn judge(&mut self, config: &Config, rib: &Rib, now: Instant) -> Vec<Reason> {
        let ports = interfaces(config, rib);
        let began = Instant::now();
        let found = forward_path::read();
        self.due = now + (began.elapsed() * 100).clamp(LOOK_EVERY[0], LOOK_EVERY[1]);
        self.had_own_lookups |= has_own_lookups(&found, rib);
        let lookups = self.had_own_lookups;
        let reasons = reasons(&found, config, rib, &ports, self.guards, &self.checks, lookups);
        self.cut_off = judge::cut_off(&found, &ports, &self.guarded);
        (self.left, self.prefixes, self.flows) = match config.router.takeover {
            Takeover::Force => Default::default(),
            // A router that runs leaves packets to the kernel rather than to nobody.
            Takeover::Narrow | Takeover::Strict => {
                // What comes out of tunnels has other addresses than what came in.
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

    fn tell(&self, reasons: &[Reason], config: &Config) {
        let forces = config.router.takeover == Takeover::Force;
        let new = without(reasons, &self.reasons);
        for reason in new.iter().take(MOST_TOLD) {
            let whose = whose(reason, config);
            let alone = reason.only.as_ref().filter(|_| !self.guards);
            let of = alone.and_then(|only| {
                let others = only.len() - 1;
                let others = if others > 0 { format!(" and {others} more") } else { String::new() };
                Some(format!(" from and to {}{others}", only.first()?))
            });
            let of = of.unwrap_or_default();
            let is_off = reason.is_of_family();
            let fate = match (forces || reason.is_mild, reason.port) {
                (true, _) if is_off => "Wattline forwards such packets all the same".to_owned(),
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
            tracing::warn!("{whose}{}: {fate}", reason.text);
        }
        if new.len() > MOST_TOLD {
            tracing::warn!("and {} more reasons of this kind", new.len() - MOST_TOLD);
        }
        for reason in without(&self.reasons, reasons).iter().take(MOST_TOLD) {
            tracing::info!("{}{}: no longer the case", whose(reason, config), reason.text);
        }
    }

    /// Says why the router must not start: everything that it would bypass, if the configuration
    /// forbids it. A family that the kernel does not forward is no reason.
    pub fn refusal(&self, config: &Config) -> Option<String> {
        let passed_by = self.reasons.iter().filter(|it| !it.is_of_family());
        let mut lines: Vec<String> = passed_by.map(|it| sentence(it, config)).collect();
        if config.router.takeover != Takeover::Strict || lines.is_empty() {
            return None;
        }
        lines.insert(0, "Wattline would bypass what the kernel does:".into());
        lines.push(
            "remove these features, or choose: [router] takeover = \"narrow\" leaves such ports to \
             the kernel, \"force\" forwards all the same"
                .into(),
        );
        Some(lines.join("\n"))
    }

    /// Says why a port is left to the kernel.
    pub fn left(&self, port: PortId) -> Option<&str> {
        self.left.get(&port).map(String::as_str)
    }

    /// Returns the flowtable whose flows XDP programs may forward at a port that is left to the kernel, or
    /// what stands against that.
    pub fn flows(&self, port: PortId) -> Option<&Result<UsableFlowtable, String>> {
        self.flows.get(&port)
    }

    /// Returns true if an application judges the packets of a port, so that nobody forwards what is
    /// left of it.
    pub fn is_guarded(&self, port: PortId) -> bool {
        self.guarded.contains(&port)
    }

    /// Lists, in sentences, the reasons for which a port leaves all packets of a family to the kernel.
    pub fn left_families(&self, port: PortId) -> impl Iterator<Item = &str> {
        let of = move |it: &&Reason| it.port == Some(port) && it.is_of_family();
        let left = self.prefixes.contains_key(&port);
        self.reasons.iter().filter(of).filter(move |_| left).map(|it| it.text.as_str())
    }

    /// The prefixes whose packets alone a port leaves to the kernel.
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

    /// Everything that is, or would be, passed by, in sentences.
    pub fn passed_by(&self, config: &Config) -> Vec<String> {
        self.reasons.iter().map(|it| sentence(it, config)).collect()
    }
}

/// Says that a port cannot be served: the kernel would forward its packets, for `why`, without the
/// checks of the sections `judges`.
pub(super) fn judged_and_left(name: &str, judges: &str, why: &str) -> String {
    format!(
        "[[port]] {name}: {judges} would not hold, as the port would be left to the kernel: {why}; \
         remove that, or say [router] takeover = \"force\" to forward without it"
    )
}

/// Whether a user has added a local route or a routing rule of IPv4.
fn has_own_lookups(found: &ForwardPath, rib: &Rib) -> bool {
    found.rules.iter().any(|rule| !rule.ipv6) || !rib.local().added.is_empty()
}

/// Kernel features beside routing that were found.
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

/// The reasons that are not among others.
fn without<'a>(reasons: &'a [Reason], others: &[Reason]) -> Vec<&'a Reason> {
    let others: HashSet<&Reason> = others.iter().collect();
    reasons.iter().filter(|reason| !others.contains(reason)).collect()
}

fn sentence(reason: &Reason, config: &Config) -> String {
    format!("{}{}", whose(reason, config), reason.text)
}

fn whose(reason: &Reason, config: &Config) -> String {
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
