//! Finds the parts of the kernel's forwarding that Wattline would bypass, and the packets that they
//! concern.

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use wattline_dataplane::port::PortId;
use wattline_linux::netlink::Aggregation;
use wattline_linux::netlink::forward_path::{
    Aggregate, Chain, Concern, Effect, Flowtable, ForwardPath, InterfaceMatch, MasterKind,
    QueueingKind, Stacked,
};
use wattline_rib::Local;
use wattline_status::applications::SourceCheck;
use wattline_xdp::LEFT_PREFIXES_MAX;

/// The routing rule that strongSwan's daemon adds (charon.routing_table). Its table only sends
/// tunnel packets to their policies, which the IPsec application looks up by itself.
const RULE_OF_STRONGSWAN: &str = "220: from all lookup 220";

/// Most rules of a chain that a message names.
const RULES_NAMED: usize = 3;

/// A port and the interfaces that its packets use.
#[derive(Debug, Clone)]
pub(super) struct Interfaces {
    pub port: PortId,
    /// Index and name of its interface, then of the VLAN subinterfaces on top of it.
    pub links: Vec<(u32, String)>,
}

/// A treatment of packets by the kernel that Wattline does not provide.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Reason {
    /// The port whose packets it concerns; `None` if that cannot be determined.
    pub port: Option<PortId>,
    /// If set, it concerns only packets from or to these prefixes.
    pub only: Option<BTreeSet<IpNet>>,
    /// True if it is only reported, unless the configuration forbids any bypass.
    pub is_mild: bool,
    /// True if it is also bypassed by the kernel for packets of a flow in an nftables flowtable.
    pub spares_flows: bool,
    /// Description for the user.
    pub text: String,
}

impl Reason {
    /// Creates a reason that counts and concerns all packets.
    fn weighty(port: Option<PortId>, text: String) -> Self {
        Self { port, only: None, is_mild: false, spares_flows: false, text }
    }

    /// Returns true if it leaves all packets of a family to the kernel, which does not forward
    /// them.
    pub fn is_of_family(&self) -> bool {
        self.only.iter().flatten().any(|prefix| prefix.prefix_len() == 0)
    }
}

/// A flowtable whose flows XDP programs may forward at a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UsableFlowtable {
    /// Its family, table and name.
    name: String,
    /// The address of the bridge to which the port belongs.
    pub bridge: Option<[u8; 6]>,
}

impl std::fmt::Display for UsableFlowtable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "flowtable {}", self.name)
    }
}

/// Other facts that the decision depends on.
pub(super) struct Circumstances<'a> {
    /// True if the router uses the kernel's routes, so that its routing rules count.
    pub follows_kernel: bool,
    /// True if an application carries out IPsec policies.
    pub guards: bool,
    /// Addresses of this machine.
    pub own: &'a [IpAddr],
    /// Local routes.
    pub local: &'a Local,
    /// True if a user has added a local route or a routing rule.
    pub has_own_lookups: bool,
    /// Ports at which Wattline checks source addresses against its routes.
    pub checks: &'a BTreeMap<PortId, SourceCheck>,
    /// True if an interface strips VLAN tags from received frames.
    pub strips_tags: &'a dyn Fn(&str) -> bool,
    /// True if an interface merges received packets (GRO).
    pub merges_packets: &'a dyn Fn(&str) -> bool,
    /// Value of a setting below `/proc/sys/net`, 0 without.
    pub setting: &'a dyn Fn(&str) -> u32,
    /// True if an interface has an address of IPv4.
    pub has_ipv4: &'a dyn Fn(u32) -> bool,
    /// Prefixes of routes whose gateway is in a local route.
    pub by_own_gateways: &'a BTreeSet<IpNet>,
    /// Sources that a loose reverse-path filter drops; `None` for all without a route.
    pub loosely_dropped: Option<&'a BTreeSet<IpNet>>,
    /// The `xmit_hash_policy` of a bond, if it uses more than MAC addresses.
    pub spreads_by: &'a dyn Fn(&str) -> Option<String>,
}

/// Returns everything that would be bypassed.
pub(super) fn judge(
    found: &ForwardPath,
    ports: &[Interfaces],
    circumstances: &Circumstances<'_>,
) -> Vec<Reason> {
    let by_link: ByLink<'_> = ports
        .iter()
        .flat_map(|it| it.links.iter().map(move |(link, name)| (*link, (it, name.as_str()))))
        .collect();
    let mut reasons = judge_filters(found, &by_link, circumstances);
    reasons.extend(judge_rules(found, &by_link, circumstances));
    reasons.extend(judge_local_routes(circumstances));
    reasons.extend(judge_ipsec_policies(found, circumstances));
    let unseen = |what: &String| format!("cannot determine what the kernel does: {what}");
    reasons.extend(found.unread.iter().map(|what| Reason::weighty(None, unseen(what))));
    reasons.extend(judge_programs(found, &by_link));
    reasons.extend(judge_machine(found, circumstances));
    reasons.extend(judge_links(found, &by_link, circumstances));
    for of in ports {
        reasons.extend(judge_stripped_tags(found, of, circumstances));
    }
    for of in ports {
        for (link, name) in &of.links {
            reasons.extend(settings_reasons(found, of, *link, name, circumstances));
        }
    }
    reasons
}

/// Ports and names of their interfaces, by the number of the interface.
type ByLink<'a> = BTreeMap<u32, (&'a Interfaces, &'a str)>;

fn by_name<'a>(by_link: &ByLink<'a>, name: &str) -> Option<&'a Interfaces> {
    by_link.values().find(|(_, it)| *it == name).map(|(it, _)| *it)
}

/// Judges chains of nftables and tables of its predecessors.
fn judge_filters(
    found: &ForwardPath,
    by_link: &ByLink<'_>,
    circumstances: &Circumstances<'_>,
) -> Vec<Reason> {
    let mut reasons = Vec::new();
    for chain in &found.chains {
        for (port, taken) in judge_chain(chain, by_link, circumstances) {
            let text = describe(chain, &taken);
            let only = taken.prefixes;
            if only.as_ref().is_some_and(BTreeSet::is_empty) {
                continue;
            }
            for name in &chain.devices {
                let Some(of) = by_name(by_link, name) else { continue };
                let text = format!("{text} on {name}");
                // Packets of a prefix that leave by the device may come from any port.
                let at = match (chain.hook, &only) {
                    ("egress", Some(_)) => port,
                    _ if port.is_some_and(|port| port != of.port) => continue,
                    _ => Some(of.port),
                };
                reasons.push(Reason { only: only.clone(), ..Reason::weighty(at, text) });
            }
            if chain.devices.is_empty() {
                let spares_flows = !matches!(chain.hook, "ingress" | "egress");
                reasons.push(Reason { only, spares_flows, ..Reason::weighty(port, text) });
            }
        }
    }
    for table in &found.legacy {
        let what = match table.drops {
            Some(chain) => format!("drops packets by the policy of {chain}"),
            None => format!("has {} rules", table.rules),
        };
        let text = format!("{}: table {} {what}", table.program, table.name);
        reasons.push(Reason { spares_flows: true, ..Reason::weighty(None, text) });
    }
    reasons
}

/// Packets that a chain affects.
#[derive(Debug, Default, PartialEq)]
struct Taken<'a> {
    /// The rules that affect them, for users.
    rules: Vec<&'a str>,
    /// True if the policy affects them.
    by_policy: bool,
    /// Prefixes of their addresses; `None` for any.
    prefixes: Option<BTreeSet<IpNet>>,
}

impl Taken<'_> {
    /// Creates an empty set, to which prefixes can be added.
    fn by_prefixes() -> Self {
        Self { prefixes: Some(BTreeSet::new()), ..Self::default() }
    }
}

/// Describes the rules that affect packets, and the remedy.
fn describe(chain: &Chain, Taken { rules: taking, by_policy, prefixes }: &Taken<'_>) -> String {
    let Chain { family, table, name, hook, rules: count, drops, sets_mss, .. } = chain;
    let mut text = format!("nftables: chain {family} {table} {name} (hook {hook})");
    text += &match (count, drops) {
        (0, _) => " drops packets that no rule accepts".to_owned(),
        (1, _) => " has a rule".to_owned(),
        (count, _) => format!(" has {count} rules"),
    };
    if *sets_mss {
        text += ", one for the segment size of TCP, which `clamp_mss` of a [[port]] can replace";
    }
    text += &match (taking.len(), count) {
        (0, _) => String::new(),
        (1, 1) => "; it takes".to_owned(),
        (1, _) => "; 1 of them takes".to_owned(),
        (taking, _) => format!("; {taking} of them take"),
    };
    if !taking.is_empty() {
        let named = taking.iter().take(RULES_NAMED).copied().collect::<Vec<_>>().join(", ");
        let more = if taking.len() > RULES_NAMED { " and others" } else { "" };
        text += &match prefixes.as_ref().map(BTreeSet::len) {
            None => format!(" all packets: {named}{more}"),
            Some(1) => " packets of a prefix".to_owned(),
            Some(prefixes) => format!(" packets of {prefixes} prefixes"),
        };
    }
    if *by_policy && *count > 0 {
        text += "; the policy drops packets that no rule accepts by one interface or address alone";
    }
    text
}

/// Returns the packets that a chain affects, by ingress port (`None` for any).
fn judge_chain<'a>(
    chain: &'a Chain,
    by_link: &ByLink<'_>,
    circumstances: &Circumstances<'_>,
) -> BTreeMap<Option<PortId>, Taken<'a>> {
    let effects = match &chain.effects {
        Ok(effects) => effects,
        Err(unknown) => {
            let rules = unknown.iter().map(String::as_str).collect();
            return BTreeMap::from([(None, Taken { rules, ..Taken::default() })]);
        }
    };
    // The router's own packets pass only these two hooks.
    let own = match chain.hook {
        "postrouting" | "egress" => circumstances.own,
        _ => &[],
    };
    let mut taken: BTreeMap<Option<PortId>, Taken<'a>> = BTreeMap::new();
    for Effect { concern, rule } in effects {
        for port in concerned_ports(concern, by_link) {
            let prefixes = [&concern.source, &concern.destination];
            let only = only(prefixes.map(|it| it.as_deref().unwrap_or_default()), own);
            let Taken { rules, prefixes, .. } =
                taken.entry(port).or_insert_with(Taken::by_prefixes);
            match prefixes {
                Some(prefixes) if !only.is_empty() => prefixes.extend(only),
                Some(_) => (*rules, *prefixes) = (Vec::new(), None),
                None if !only.is_empty() => continue,
                None => {}
            }
            rules.push(rule);
        }
    }
    if chain.drops {
        drop_the_rest(chain, by_link, &mut taken);
    }
    taken
}

/// Adds the packets that a chain's policy drops: all that no rule certainly accepts.
fn drop_the_rest(
    chain: &Chain,
    by_link: &ByLink<'_>,
    taken: &mut BTreeMap<Option<PortId>, Taken<'_>>,
) {
    let ports: BTreeMap<PortId, &Interfaces> =
        by_link.values().map(|(of, _)| (of.port, *of)).collect();
    let is_judged = matches!(chain.hook, "prerouting" | "forward") && chain.devices.is_empty();
    let dropped = |of| if is_judged { dropped_by_policy(chain, of, by_link) } else { None };
    let dropped: Vec<_> = ports.iter().map(|(port, of)| (*port, dropped(of))).collect();
    let all = || Taken { by_policy: true, ..Taken::default() };
    if dropped.iter().all(|(_, prefixes)| prefixes.is_none()) {
        taken.insert(None, all());
        return;
    }
    for (port, dropped) in
        dropped.into_iter().filter(|(_, it)| it.as_ref() != Some(&BTreeSet::new()))
    {
        let known = taken.entry(Some(port)).or_insert_with(Taken::by_prefixes);
        match (&mut known.prefixes, dropped) {
            (Some(prefixes), Some(dropped)) => {
                prefixes.extend(dropped);
                known.by_policy = true;
            }
            (Some(_), None) => *known = all(),
            (None, _) => {}
        }
    }
}

/// Returns the prefixes of one address of each packet that a chain's policy drops at a port; `None`
/// if the address may be any.
fn dropped_by_policy(
    chain: &Chain,
    of: &Interfaces,
    by_link: &ByLink<'_>,
) -> Option<BTreeSet<IpNet>> {
    let is_in = |them: &Option<Vec<InterfaceMatch>>, index: u32, name: &str| {
        them.as_ref().is_none_or(|them| them.iter().any(|it| it.contains(index, name)))
    };
    let is_here = |it: &&Concern| {
        of.links.iter().all(|(index, name)| is_in(&it.input, *index, name))
            && by_link.iter().all(|(index, (_, name))| is_in(&it.output, *index, name))
            // Other hooks know no output interface.
            && (it.output.is_none() || chain.hook == "forward")
    };
    let accepted: Vec<&Concern> = chain.accepted.iter().filter(is_here).collect();
    let both = [IpNet::V4(Ipv4Net::default()), IpNet::V6(Ipv6Net::default())];
    let is_seen = |family: &&IpNet| match chain.family {
        "ip" => family.addr().is_ipv4(),
        "ip6" => family.addr().is_ipv6(),
        _ => true,
    };
    let mut dropped = BTreeSet::new();
    for family in both.iter().filter(is_seen) {
        // Packets are left to the kernel by either address, so rules about the same address can be
        // combined.
        let any = std::slice::from_ref(family);
        let outside = [false, true].map(|by_destination| {
            let inside = accepted.iter().filter_map(|it| {
                match (by_destination, &it.source, &it.destination) {
                    (false, known, None) | (true, None, known) => Some(known.as_deref()),
                    _ => None,
                }
            });
            let inside = inside.flat_map(|known| known.unwrap_or(any)).copied();
            outside(*family, &inside.collect::<Vec<_>>())
        });
        let addresses = |prefixes: &Vec<IpNet>| -> f64 {
            prefixes.iter().map(|it| 0.5_f64.powi(it.prefix_len().into())).sum()
        };
        dropped.extend(outside.into_iter().min_by(|a, b| addresses(a).total_cmp(&addresses(b)))?);
    }
    let is_all =
        both.iter().flat_map(|family| outside(*family, &[])).all(|it| dropped.contains(&it));
    (!is_all).then_some(dropped)
}

/// Lists the prefixes within `within` that contain no address of `inside`; both halves if `inside`
/// is empty.
fn outside(within: IpNet, inside: &[IpNet]) -> Vec<IpNet> {
    if inside.iter().any(|it| it.contains(&within)) {
        return Vec::new();
    }
    let halves = within.subnets(within.prefix_len() + 1).into_iter().flatten();
    let rest = halves.flat_map(|half| {
        let inside: Vec<IpNet> =
            inside.iter().filter(|it| it.contains(&half) || half.contains(*it)).copied().collect();
        if inside.is_empty() { vec![half] } else { outside(half, &inside) }
    });
    rest.collect()
}

/// Returns the ingress ports of a concern's packets (`None` for any); empty if the packets use no
/// port as ingress or egress.
fn concerned_ports(concern: &Concern, by_link: &ByLink<'_>) -> BTreeSet<Option<PortId>> {
    let ports_of = |them: &Vec<InterfaceMatch>| -> BTreeSet<Option<PortId>> {
        let is_one = |index, name| them.iter().any(|it| it.contains(index, name));
        let links = by_link.iter().filter(|(index, (_, name))| is_one(**index, name));
        links.map(|(_, (of, _))| Some(of.port)).collect()
    };
    if concern.output.as_ref().is_some_and(|them| ports_of(them).is_empty()) {
        return BTreeSet::new();
    }
    concern.input.as_ref().map_or_else(|| BTreeSet::from([None]), ports_of)
}

/// Judges rules of policy routing that packets from ports can match.
fn judge_rules(
    found: &ForwardPath,
    by_link: &ByLink<'_>,
    circumstances: &Circumstances<'_>,
) -> Vec<Reason> {
    let of_ike = |text: &str| circumstances.guards && text == RULE_OF_STRONGSWAN;
    let counted = |text: &str| circumstances.follows_kernel && !of_ike(text);
    let mut reasons = Vec::new();
    for rule in found.rules.iter().filter(|rule| counted(&rule.text)) {
        let family = if rule.ipv6 { "-6 " } else { "" };
        let text = format!("policy routing: `ip {family}rule` has `{}`", rule.text);
        let prefixes = [rule.source.as_slice(), rule.destination.as_slice()];
        let only = only_these(only(prefixes, circumstances.own));
        let port = match &rule.input {
            None => None,
            Some(input) => match by_name(by_link, input) {
                Some(of) => Some(of.port),
                // Packets from other interfaces do not reach Wattline.
                None => continue,
            },
        };
        reasons.push(Reason { only, spares_flows: true, ..Reason::weighty(port, text) });
    }
    reasons
}

/// Judges local routes as sources. With an application for IPsec, a prefix would block a whole
/// port.
fn judge_local_routes(circumstances: &Circumstances<'_>) -> Vec<Reason> {
    let Circumstances { follows_kernel, local, has_own_lookups, guards, by_own_gateways, .. } =
        circumstances;
    if !follows_kernel {
        return Vec::new();
    }
    let by_own = by_own_gateways.iter().map(|prefix| {
        let text = format!("route {prefix}: a gateway is, or was, in a local route");
        let only = Some(BTreeSet::from([*prefix]));
        Reason { only, is_mild: *guards, ..Reason::weighty(None, text) }
    });
    if !has_own_lookups {
        return by_own.collect();
    }
    let text = |which: &str| format!("{which}: the kernel drops packets from there");
    let reason = |only: BTreeSet<IpNet>, text| Reason {
        only: Some(only),
        spares_flows: true,
        is_mild: *guards,
        ..Reason::weighty(None, text)
    };
    let added = local.added.iter();
    let added = added.map(|it| reason(BTreeSet::from([*it]), text(&format!("local route {it}"))));
    let shared = text("broadcast addresses, because of added local routes or rules");
    let shared = (!local.shared.is_empty()).then(|| reason(local.shared.clone(), shared));
    added.chain(shared).chain(by_own).collect()
}

/// Judges policies of the kernel's IPsec, unless an application carries them out.
fn judge_ipsec_policies(found: &ForwardPath, circumstances: &Circumstances<'_>) -> Vec<Reason> {
    if found.ipsec_policies.is_empty() || circumstances.guards {
        return Vec::new();
    }
    let count = found.ipsec_policies.len();
    let of_each = found.ipsec_policies.iter().map(|of| {
        only(of.each_ref().map(std::slice::from_ref), circumstances.own).first().copied()
    });
    // A policy for all packets makes the others redundant.
    let only = of_each.collect::<Option<BTreeSet<_>>>();
    let text = format!(
        "IPsec: the kernel has {count} policies (`ip xfrm policy`) for packets that it sends or \
         forwards, and there is no section [ipsec]"
    );
    vec![Reason { only, ..Reason::weighty(None, text) }]
}

/// Judges foreign BPF programs at interfaces and in netfilter.
fn judge_programs(found: &ForwardPath, by_link: &ByLink<'_>) -> Vec<Reason> {
    let mut reasons = Vec::new();
    for program in &found.programs {
        let (port, place, shown) = match program.link {
            None => (None, String::new(), "link"),
            Some(link) => match by_link.get(&link) {
                Some((of, name)) => (Some(of.port), format!(" of {name}"), "net"),
                None => continue,
            },
        };
        let text =
            format!("BPF: there is a program at {}{place} (`bpftool {shown}`)", program.hook);
        reasons.push(Reason::weighty(port, text));
    }
    let mild = |text: &str| Reason { is_mild: true, ..Reason::weighty(None, text.to_owned()) };
    reasons.extend(found.unseen.as_deref().map(mild));
    reasons
}

/// Judges settings and services of the whole machine.
fn judge_machine(found: &ForwardPath, circumstances: &Circumstances<'_>) -> Vec<Reason> {
    let mut reasons = Vec::new();
    for direction in &found.ipsec_blocks {
        let text = format!(
            "IPsec: packets without a policy are dropped (`ip xfrm policy getdefault`: {direction} block)"
        );
        reasons.push(Reason::weighty(None, text));
    }
    if found.virtual_services > 0 {
        let text =
            format!("IPVS: there are {} virtual services (`ipvsadm`)", found.virtual_services);
        reasons.push(Reason::weighty(None, text));
    }
    if (circumstances.setting)("ipv4/ip_forward_use_pmtu") != 0 {
        let text = "forwarded packets obey path MTUs (net.ipv4.ip_forward_use_pmtu = 1)";
        reasons.push(Reason::weighty(None, text.to_owned()));
    }
    reasons
}

/// Judges bridges, VRFs and bonds of interfaces, and their queueing.
fn judge_links(
    found: &ForwardPath,
    by_link: &ByLink<'_>,
    circumstances: &Circumstances<'_>,
) -> Vec<Reason> {
    let mut reasons = Vec::new();
    for master in &found.masters {
        let Some((of, name)) = by_link.get(&master.link) else { continue };
        let (what, consequence) = match &master.kind {
            MasterKind::Bridge(_) => ("bridge", "whose packets are not for a router"),
            MasterKind::Vrf => ("VRF", "whose table of routes is not followed"),
            MasterKind::Other(kind) => (kind.as_str(), "to which its packets belong"),
        };
        let text = format!("{name} belongs to the {what} {}, {consequence}", master.name);
        let spares_flows = matches!(master.kind, MasterKind::Bridge(_));
        reasons.push(Reason { spares_flows, ..Reason::weighty(Some(of.port), text) });
    }
    for aggregate in &found.aggregates {
        if let Some((of, name)) = by_link.get(&aggregate.link) {
            reasons.extend(judge_aggregate(aggregate, of, name, circumstances));
        }
    }
    for strange in &found.strange {
        let Some((of, name)) = by_link.get(&strange.link) else { continue };
        reasons.push(Reason::weighty(Some(of.port), strange.text.replace('%', name)));
    }
    for queueing in &found.queueing {
        let Some((of, name)) = by_link.get(&queueing.link) else { continue };
        let text = match &queueing.kind {
            QueueingKind::Filters => format!("traffic control: {name} has filters (`tc filter`)"),
            QueueingKind::Discipline(kind) => {
                format!("traffic control: {name} has the queueing discipline {kind}")
            }
        };
        reasons.push(Reason::weighty(Some(of.port), text));
    }
    reasons
}

/// Judges an interface that strips VLAN tags before a program sees the frame.
fn judge_stripped_tags(
    found: &ForwardPath,
    of: &Interfaces,
    circumstances: &Circumstances<'_>,
) -> Option<Reason> {
    // The interface itself, before its subinterfaces.
    let [(link, name), subinterfaces @ ..] = &of.links[..] else { return None };
    let is_aggregate = found.aggregates.iter().any(|it| it.link == *link);
    let strips = !subinterfaces.is_empty() && !is_aggregate && (circumstances.strips_tags)(name);
    let text = format!(
        "{name} has VLANs and strips their tags before Wattline sees the frames \
         (`ethtool -K {name} rxvlan off` changes that)"
    );
    strips.then(|| Reason::weighty(Some(of.port), text))
}

/// Judges settings (sysctl) of a port's interface.
fn settings_reasons(
    found: &ForwardPath,
    of: &Interfaces,
    link: u32,
    name: &str,
    circumstances: &Circumstances<'_>,
) -> Vec<Reason> {
    let mut reasons = Vec::new();
    let families = [IpNet::V4(Ipv4Net::default()), IpNet::V6(Ipv6Net::default())];
    for (family, whole) in ["IPv4", "IPv6"].into_iter().zip(families) {
        let settings = found.settings.for_link(link, whole.addr().is_ipv6());
        // Without the kernel's routes, its setting does not matter.
        let off = settings.off_because.filter(|_| circumstances.follows_kernel);
        reasons.extend(off.map(|setting| Reason {
            port: Some(of.port),
            only: Some(BTreeSet::from([whole])),
            is_mild: false,
            spares_flows: false,
            text: format!("{family} is not forwarded: {}", setting.replace('%', name)),
        }));
        for (number, value) in settings.not_understood {
            let text = format!(
                "{family}: {name} has the setting {number} with the value {value}, which Wattline does \
                 not know (include/uapi/linux/netconf.h)"
            );
            let only = Some(BTreeSet::from([whole]));
            reasons.push(Reason { only, ..Reason::weighty(Some(of.port), text) });
        }
    }
    if let Some(mtu) = found.settings.for_link(link, true).mtu {
        let text =
            format!("packets of IPv6 leave {name} up to {mtu} bytes (net.ipv6.conf.{name}.mtu)");
        reasons.push(Reason::weighty(Some(of.port), text));
    }
    for (setting, needs_both, what) in [
        ("accept_local", false, "forwards packets that have a source address of this machine"),
        ("route_localnet", false, "forwards packets of 127.0.0.0/8"),
        ("accept_redirects", true, "changes routes by received redirects"),
    ] {
        let value = |whose: &str| (circumstances.setting)(&format!("ipv4/conf/{whose}/{setting}"));
        let (own, all) = (value(name) != 0, value("all") != 0);
        // If IPv4 is not forwarded, redirects are accepted by default, and have no effect.
        if found.settings.for_link(link, false).off_because.is_none()
            && if needs_both { own && all } else { own || all }
        {
            let text = format!("{name} {what} (net.ipv4.conf.{name}.{setting} and that of all)");
            reasons.push(Reason::weighty(Some(of.port), text));
        }
    }
    let filter = found.settings.for_link(link, false).reverse_path;
    reasons.extend(reverse_path_reasons(filter, of, link, name, circumstances));
    reasons
}

/// Judges the reverse-path filter of an interface. With a default route, a loose filter drops only
/// sources that a route discards.
fn reverse_path_reasons(
    filter: u32,
    of: &Interfaces,
    link: u32,
    name: &str,
    circumstances: &Circumstances<'_>,
) -> Vec<Reason> {
    let (check, kind) = match filter {
        0 => return Vec::new(),
        1 => (SourceCheck::Strict, "strict"),
        _ => (SourceCheck::Loose, "loose"),
    };
    if circumstances.checks.get(&of.port).is_some_and(|here| *here >= check) {
        return Vec::new();
    }
    let text = format!(
        "the reverse-path filter of {name} is {kind} (net.ipv4.conf.{name}.rp_filter and that of \
         all; the larger counts)"
    );
    let reason = Reason { spares_flows: true, ..Reason::weighty(Some(of.port), text) };
    match circumstances.loosely_dropped {
        Some(dropped) if check == SourceCheck::Loose && (circumstances.has_ipv4)(link) => {
            let only = (!dropped.is_empty()).then(|| dropped.clone());
            only.into_iter().map(|only| Reason { only: Some(only), ..reason.clone() }).collect()
        }
        _ => vec![reason],
    }
}

/// Lists interfaces of the kernel that receive frames of guarded ports, in sentences. Frames that
/// it would forward from there are dropped.
pub(super) fn cut_off(
    found: &ForwardPath,
    ports: &[Interfaces],
    guarded: &BTreeSet<PortId>,
) -> Vec<String> {
    let guarded = || ports.iter().filter(|of| guarded.contains(&of.port));
    let of_port = |link: u32| guarded().flat_map(|of| &of.links).find(|(it, _)| *it == link);
    let cut_off = found.stacked.iter().filter(|it| of_port(it.link).is_none());
    let text = |it: &Stacked| {
        let (_, lower) = of_port(it.lower)?;
        let (kind, name) = (&it.kind, &it.name);
        Some(format!(
            "the {kind} {name} is on top of {lower}, whose packets are judged: of the frames for {name}, \
             only those for this machine are received (verdicts station_dropped, tags_dropped and \
             protocol_dropped count the others)"
        ))
    };
    cut_off.filter_map(text).collect()
}

/// Judges a bond or team.
fn judge_aggregate(
    aggregate: &Aggregate,
    of: &Interfaces,
    name: &str,
    circumstances: &Circumstances<'_>,
) -> Vec<Reason> {
    let reason = |is_mild, text| Reason { is_mild, ..Reason::weighty(Some(of.port), text) };
    if aggregate.kind == Aggregation::Team {
        let text = format!("{name} is a team, with which Wattline has not been tested: use a bond");
        return vec![reason(false, text)];
    }
    let mut reasons = Vec::new();
    if of.links.len() > 1 {
        let text = format!(
            "{name} is a bond with VLANs: the kernel strips their tags at the members, before \
             Wattline sees the frames"
        );
        reasons.push(reason(false, text));
    }
    // Merged packets have lost their checksums.
    for member in aggregate.members.iter().filter(|it| (circumstances.merges_packets)(it)) {
        let text = format!(
            "{name} is a bond, and its member {member} merges packets before Wattline sees them \
             (`ethtool -K {member} gro off rx-gro-hw off` changes that)"
        );
        reasons.push(reason(false, text));
    }
    if let Some(policy) = (circumstances.spreads_by)(name) {
        let text = format!(
            "{name} chooses the member that sends a packet by {policy} (`xmit_hash_policy`), but for \
             packets of workers by their MAC addresses alone: all to one neighbour leave by one member"
        );
        reasons.push(reason(true, text));
    }
    reasons
}

/// Returns the source or the destination prefixes, whichever are longer, so that the fewest packets
/// are left to the kernel. Prefixes with an address of this machine are not used: they would also
/// concern the router's own packets, such as ICMP errors, which workers send.
fn only<'a>(prefixes: [&'a [IpNet]; 2], own: &[IpAddr]) -> &'a [IpNet] {
    let is_others = |prefix: &IpNet| !own.iter().any(|own| prefix.contains(own));
    let is_narrow = |prefix: &IpNet| prefix.prefix_len() > 0 && is_others(prefix);
    let narrow = prefixes.into_iter().filter(|these| these.iter().all(is_narrow));
    narrow.max_by_key(|these| these.iter().map(IpNet::prefix_len).min()).unwrap_or_default()
}

/// Returns prefixes in the form of a [`Reason`]: an empty list stands for any address.
fn only_these(prefixes: &[IpNet]) -> Option<BTreeSet<IpNet>> {
    (!prefixes.is_empty()).then(|| prefixes.iter().copied().collect())
}

/// Returns the prefixes whose packets are left to the kernel, by port; on a guarded port they are
/// dropped. Ports in `whole` have only prefixes of whole families: for other prefixes such a port
/// is left, or blocked, as a whole.
pub(super) fn left_prefixes(
    reasons: &[Reason],
    ports: &[Interfaces],
    whole: &BTreeSet<PortId>,
) -> BTreeMap<PortId, BTreeSet<IpNet>> {
    let of = |port: PortId| {
        let counts = |reason: &&Reason| !reason.is_mild && reason.port.is_none_or(|of| of == port);
        let of_reasons = reasons.iter().filter(counts).filter_map(|reason| reason.only.as_ref());
        let mut prefixes: BTreeSet<IpNet> = of_reasons.flatten().copied().collect();
        if whole.contains(&port) || prefixes.len() > LEFT_PREFIXES_MAX as usize {
            prefixes.retain(|prefix| prefix.prefix_len() == 0);
        }
        (!prefixes.is_empty()).then_some((port, prefixes))
    };
    ports.iter().filter_map(|it| of(it.port)).collect()
}

/// Lists ports that leave all packets to the kernel, and why. Reasons that `prefixes` covers do not
/// count.
pub(super) fn left(
    reasons: &[Reason],
    ports: &[Interfaces],
    prefixes: &BTreeMap<PortId, BTreeSet<IpNet>>,
) -> BTreeMap<PortId, String> {
    let of = |port: PortId| {
        let texts: Vec<String> = whole_port(reasons, port, prefixes).map(in_full).collect();
        (!texts.is_empty()).then(|| (port, texts.join("; ")))
    };
    ports.iter().filter_map(|it| of(it.port)).collect()
}

/// Describes a reason to leave all packets of a port, and why its prefixes alone are not enough.
fn in_full(reason: &Reason) -> String {
    match reason.only.as_ref().map_or(0, BTreeSet::len) {
        prefixes if prefixes > LEFT_PREFIXES_MAX as usize => format!(
            "{} (packets of {prefixes} prefixes; a port leaves at most {LEFT_PREFIXES_MAX} without all others)",
            reason.text
        ),
        _ => reason.text.clone(),
    }
}

/// Returns the reasons to leave all packets of a port.
fn whole_port<'a>(
    reasons: &'a [Reason],
    port: PortId,
    prefixes: &'a BTreeMap<PortId, BTreeSet<IpNet>>,
) -> impl Iterator<Item = &'a Reason> {
    let alone =
        move |these: &BTreeSet<IpNet>| prefixes.get(&port).is_some_and(|of| of.is_superset(these));
    reasons.iter().filter(move |reason| {
        let is_here = reason.port.is_none_or(|of| of == port);
        !reason.is_mild && is_here && !reason.only.as_ref().is_some_and(alone)
    })
}

/// Considers ports that are left only for reasons that the kernel itself bypasses for packets of a
/// flow in a flowtable. Returns the flowtable of each whose flows XDP programs may forward, or the
/// obstacle.
pub(super) fn flows(
    found: &ForwardPath,
    reasons: &[Reason],
    ports: &[Interfaces],
    prefixes: &BTreeMap<PortId, BTreeSet<IpNet>>,
) -> BTreeMap<PortId, Result<UsableFlowtable, String>> {
    let spares = |of: &&Interfaces| {
        let mut reasons = whole_port(reasons, of.port, prefixes).peekable();
        reasons.peek().is_some() && reasons.all(|reason| reason.spares_flows)
    };
    let sparing: Vec<&Interfaces> = ports.iter().filter(spares).collect();
    let names: Vec<&str> =
        sparing.iter().filter_map(|of| Some(of.links.first()?.1.as_str())).collect();
    let of_port = |of: &&Interfaces| {
        let (link, name) = of.links.first()?;
        let bridge = found.masters.iter().find_map(|it| match it.kind {
            MasterKind::Bridge(address) if it.link == *link => Some(address),
            _ => None,
        });
        let tables = || found.flowtables.iter().filter(|it| it.devices.contains(name));
        let usable = |it: &Flowtable| UsableFlowtable {
            name: format!("{} {} {}", it.family, it.table, it.name),
            bridge,
        };
        let used = match tables().next() {
            None => Err(lines_for_flowtable(found, &names)?),
            Some(first) => match tables().find_map(unusable_for) {
                None => Ok(usable(first)),
                Some(why) => Err(format!("{} is not used by XDP programs: {why}", usable(first))),
            },
        };
        Some((of.port, used))
    };
    sparing.iter().filter_map(of_port).collect()
}

/// Returns why flows of a flowtable are left to the kernel, if so.
fn unusable_for(table: &Flowtable) -> Option<&'static str> {
    if table.counts {
        return Some(
            "its `counter` would miss what they forward, since the kernel lets no BPF program count packets \
             of a connection",
        );
    }
    if table.offloads {
        return Some("with `flags offload` the kernel hides its flows from them");
    }
    (!table.is_understood).then_some("Wattline does not know all of its flags")
}

/// Returns the lines that add a flowtable for these interfaces to this ruleset; `None` without
/// chains.
fn lines_for_flowtable(found: &ForwardPath, names: &[&str]) -> Option<String> {
    let is_for_all = |chain: &&Chain| chain.devices.is_empty();
    found.chains.iter().find(is_for_all)?;
    let is_forward =
        |chain: &&Chain| is_for_all(chain) && chain.hook == "forward" && chain.family != "ip6";
    let chain = found.chains.iter().find(is_forward);
    let of = |chain: &Chain| (chain.family, chain.table.clone(), chain.name.clone());
    let (family, table, name) =
        chain.map_or_else(|| ("inet", "wattline".to_owned(), "forward".to_owned()), of);
    let mut lines = Vec::new();
    if chain.is_none() {
        lines.push(format!("nft add table {family} {table}"));
        lines.push(format!(
            "nft 'add chain {family} {table} {name} {{ type filter hook forward priority filter; }}'"
        ));
    }
    let devices = names.join(", ");
    lines.push(format!(
        "nft 'add flowtable {family} {table} wattline {{ hook ingress priority filter; devices = {{ \
         {devices} }}; }}'"
    ));
    lines.push(format!(
        "nft 'insert rule {family} {table} {name} meta l4proto {{ tcp, udp }} ct state established \
         flow add @wattline'"
    ));
    Some(format!(
        "a flowtable gives established connections the kernel's fast path, which bypasses these \
         chains; to add one: {}",
        lines.join(" && ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattline_linux::netlink::forward_path::{
        AttachedProgram, LegacyTable, LinkSettings, Master, Queueing, Rule, Strange,
    };

    fn ports() -> Vec<Interfaces> {
        let of = |port, links: &[(u32, &str)]| Interfaces {
            port: PortId(port),
            links: links.iter().map(|(link, name)| (*link, (*name).to_owned())).collect(),
        };
        vec![of(0, &[(1, "eth0"), (7, "eth0.7")]), of(1, &[(2, "eth1")])]
    }

    /// Describes a router that follows the kernel, with nothing of note about its ports.
    fn plain() -> Circumstances<'static> {
        static NO_GATEWAYS: BTreeSet<IpNet> = BTreeSet::new();
        static NO_LOCAL: Local = Local { added: BTreeSet::new(), shared: BTreeSet::new() };
        static NO_CHECKS: BTreeMap<PortId, SourceCheck> = BTreeMap::new();
        Circumstances {
            follows_kernel: true,
            guards: false,
            own: &[],
            local: &NO_LOCAL,
            has_own_lookups: false,
            checks: &NO_CHECKS,
            strips_tags: &|_| false,
            merges_packets: &|_| false,
            spreads_by: &|_| None,
            setting: &|_| 0,
            has_ipv4: &|_| true,
            loosely_dropped: None,
            by_own_gateways: &NO_GATEWAYS,
        }
    }

    fn judged(found: &ForwardPath) -> Vec<(Option<u16>, String)> {
        let reasons = judge(found, &ports(), &plain());
        reasons.into_iter().map(|it| (it.port.map(|port| port.0), it.text)).collect()
    }

    fn chain(devices: &[&str]) -> ForwardPath {
        let devices = devices.iter().map(|it| (*it).to_owned()).collect();
        let (table, name) = ("t".to_owned(), "c".to_owned());
        let (hook, rules, drops, effects) = ("forward", 2, false, Err(Vec::new()));
        let chain = Chain {
            family: "ip",
            table,
            name,
            hook,
            rules,
            drops,
            devices,
            sets_mss: false,
            effects,
            accepted: Vec::new(),
        };
        ForwardPath { chains: vec![chain], ..ForwardPath::default() }
    }

    fn rule(input: Option<&str>) -> ForwardPath {
        let input = input.map(str::to_owned);
        let text = "9: from all lookup 7".to_owned();
        let rule = Rule { ipv6: false, input, source: None, destination: None, text };
        ForwardPath { rules: vec![rule], ..ForwardPath::default() }
    }

    fn set(settings: &[(u32, bool, LinkSettings)]) -> ForwardPath {
        let mut found = ForwardPath::default();
        for (link, ipv6, settings) in settings {
            found.settings.set(*link, *ipv6, settings.clone());
        }
        found
    }

    fn filter(reverse_path: u32) -> LinkSettings {
        LinkSettings { reverse_path, ..LinkSettings::default() }
    }

    #[test]
    fn reasons_leave_only_the_ports_they_concern() {
        assert_eq!(judged(&ForwardPath::default()), []);
        let of = |found: &ForwardPath| -> Vec<Option<u16>> {
            judged(found).into_iter().map(|(port, _)| port).collect()
        };
        assert_eq!(of(&chain(&[])), [None]);
        assert_eq!(of(&chain(&["eth1", "eth9"])), [Some(1)]);
        assert_eq!(of(&rule(None)), [None]);
        assert_eq!(of(&rule(Some("eth0.7"))), [Some(0)]);
        assert_eq!(of(&rule(Some("eth9"))), [], "by which nothing comes in here");
        let master = |link| Master { link, kind: MasterKind::Vrf, name: "red".to_owned() };
        let masters = vec![master(2), master(7), master(9)];
        assert_eq!(of(&ForwardPath { masters, ..Default::default() }), [Some(1), Some(0)]);
        let kind = QueueingKind::Discipline("htb".to_owned());
        let queueing =
            vec![Queueing { link: 2, kind }, Queueing { link: 3, kind: QueueingKind::Filters }];
        let found = judged(&ForwardPath { queueing, ..Default::default() });
        assert_eq!(found.len(), 1);
        assert!(found[0].1.contains("eth1") && found[0].1.contains("htb"), "{found:?}");
        let name = "filter".to_owned();
        let legacy = vec![LegacyTable { program: "iptables-legacy", name, rules: 1, drops: None }];
        assert_eq!(of(&ForwardPath { legacy, ..Default::default() }), [None]);
        let all: [IpNet; 2] = ["0.0.0.0/0".parse().unwrap(); 2];
        assert_eq!(of(&ForwardPath { ipsec_policies: vec![all], ..Default::default() }), [None]);
        let unread = vec!["it: denied".to_owned()];
        assert_eq!(of(&ForwardPath { unread, ..Default::default() }), [None]);
    }

    fn aggregate(link: u32, kind: Aggregation) -> Aggregate {
        Aggregate { link, kind, members: vec!["m0".to_owned(), "m1".to_owned()] }
    }

    #[test]
    fn team_and_members_of_a_bond_are_left() {
        let aggregates = vec![aggregate(2, Aggregation::Team), aggregate(9, Aggregation::Bond)];
        let bond = MasterKind::Other("bond".to_owned());
        let masters = vec![Master { link: 1, kind: bond, name: "bond7".to_owned() }];
        let found = judged(&ForwardPath { aggregates, masters, ..Default::default() });
        assert_eq!(found.iter().map(|(port, _)| *port).collect::<Vec<_>>(), [Some(0), Some(1)]);
        assert!(found[0].1.contains("eth0 belongs to the bond bond7"), "{found:?}");
        assert!(found[1].1.contains("eth1 is a team"), "{found:?}");
    }

    /// Frames reach a bond after the kernel has processed them at its member.
    #[test]
    fn bond_is_left_if_its_members_change_received_frames() {
        let around = Circumstances {
            // The bond's own settings do not apply to its members.
            strips_tags: &|name| name.starts_with("eth"),
            merges_packets: &|name| name != "m0",
            ..plain()
        };
        let of = |link| {
            let aggregates = vec![aggregate(link, Aggregation::Bond)];
            let found = ForwardPath { aggregates, ..Default::default() };
            judge(&found, &ports(), &around).into_iter().filter(|it| it.port == Some(PortId(1)))
        };
        let texts: Vec<String> = of(2).map(|it| it.text).collect();
        assert_eq!(texts.len(), 1, "{texts:?}");
        assert!(texts[0].contains("`ethtool -K m1 gro off rx-gro-hw off`"), "{texts:?}");
        let quiet = Circumstances { merges_packets: &|_| false, ..around };
        let judged = |link| {
            let aggregates = vec![aggregate(link, Aggregation::Bond)];
            let found = ForwardPath { aggregates, ..Default::default() };
            left(&judge(&found, &ports(), &quiet), &ports(), &BTreeMap::new())
        };
        let left = judged(1);
        assert!(left[&PortId(0)].contains("eth0 is a bond with VLANs"), "{left:?}");
        assert!(!left[&PortId(0)].contains("rxvlan"), "rxvlan would not help: {left:?}");
        assert!(!judged(2).contains_key(&PortId(1)), "nothing speaks against it");
    }

    #[test]
    fn spread_of_a_bond_is_reported_and_leaves_nothing() {
        let around = Circumstances {
            spreads_by: &|name| (name == "eth1").then(|| "layer3+4".to_owned()),
            ..plain()
        };
        let aggregates = vec![aggregate(1, Aggregation::Bond), aggregate(2, Aggregation::Bond)];
        let found = ForwardPath { aggregates, ..Default::default() };
        let reasons = judge(&found, &ports(), &around);
        let mild: Vec<_> = reasons.iter().filter(|it| it.is_mild).collect();
        assert_eq!(mild.len(), 1, "{reasons:?}");
        assert!(mild[0].port == Some(PortId(1)) && mild[0].text.contains("layer3+4"), "{mild:?}");
    }

    #[test]
    fn local_routes_leave_packets_from_them() {
        let net = |text: &str| -> IpNet { text.parse().unwrap() };
        let local = Local {
            added: BTreeSet::from([net("10.9.0.0/16")]),
            shared: BTreeSet::from([net("198.18.0.255/32")]),
        };
        let without = Circumstances { local: &local, ..plain() };
        let with = Circumstances { has_own_lookups: true, ..without };
        let left = |around: &Circumstances<'_>| {
            let reasons = judge(&ForwardPath::default(), &ports(), around);
            left_prefixes(&reasons, &ports(), &BTreeSet::new()).remove(&PortId(0))
        };
        assert_eq!(left(&without), None, "the kernel compares its own addresses alone");
        let both = local.added.union(&local.shared).copied().collect();
        assert_eq!(left(&with), Some(both));
        assert_eq!(
            left(&Circumstances { guards: true, ..with }),
            None,
            "IPsec would block the port"
        );
        assert_eq!(left(&Circumstances { follows_kernel: false, ..with }), None);
        let by_own = BTreeSet::from([net("10.20.0.0/16")]);
        let with_gateway = Circumstances { by_own_gateways: &by_own, ..without };
        assert_eq!(left(&with_gateway), Some(by_own.clone()));
    }

    #[test]
    fn circumstances_make_some_reasons_harmless() {
        let around = Circumstances { follows_kernel: false, guards: true, ..plain() };
        let mut found = rule(None);
        found.ipsec_policies = vec![["10.0.0.0/8".parse().unwrap(); 2]; 3];
        assert_eq!(judge(&found, &ports(), &around), []);
        // The rule of strongSwan is harmless if IPsec policies are followed; others are not.
        found.rules[0].text = RULE_OF_STRONGSWAN.to_owned();
        let follows = Circumstances { follows_kernel: true, ..around };
        assert_eq!(judge(&found, &ports(), &follows), []);
        let without = Circumstances { guards: false, ..follows };
        assert_eq!(judge(&found, &ports(), &without).len(), 2);
        found.rules[0].text = "221: from all lookup 220".to_owned();
        let with = Circumstances { guards: true, ..without };
        assert_eq!(judge(&found, &ports(), &with).len(), 1);
    }

    #[test]
    fn loose_filter_leaves_packets_that_it_drops() {
        let found = set(&[(1, false, filter(2)), (2, false, filter(1))]);
        let judged = |around: &Circumstances<'_>| {
            let reasons = judge(&found, &ports(), around);
            let prefixes = left_prefixes(&reasons, &ports(), &BTreeSet::new());
            (left(&reasons, &ports(), &prefixes), prefixes)
        };
        let (whole, _) = judged(&plain());
        assert!(whole[&PortId(0)].contains("eth0 is loose"), "{whole:?}");
        assert!(whole[&PortId(1)].contains("eth1 is strict"), "{whole:?}");
        // With a default route.
        let dropped = BTreeSet::from(["10.66.0.0/16".parse().unwrap()]);
        let around = Circumstances { loosely_dropped: Some(&dropped), ..plain() };
        let (whole, prefixes) = judged(&around);
        assert_eq!(whole.keys().collect::<Vec<_>>(), [&PortId(1)]);
        assert_eq!(prefixes, BTreeMap::from([(PortId(0), dropped.clone())]));
        let (whole, _) = judged(&Circumstances { has_ipv4: &|_| false, ..around });
        assert_eq!(
            whole.len(),
            2,
            "without an address the kernel takes the default route for none"
        );
    }

    /// Each row has the finding, the port that it leaves (`None` for all) and a word of its reason.
    #[test]
    fn each_mechanism_leaves_its_packets() {
        let program = |link, hook: &str| ForwardPath {
            programs: vec![AttachedProgram { link, hook: hook.to_owned() }],
            ..Default::default()
        };
        let strange = |text: &str| ForwardPath {
            strange: vec![Strange { link: 2, text: text.to_owned() }],
            ..Default::default()
        };
        let policy = |drops| {
            let (program, name) = ("ip6tables-legacy", "filter".to_owned());
            let legacy = vec![LegacyTable { program, name, rules: 0, drops }];
            ForwardPath { legacy, ..Default::default() }
        };
        let mtu = LinkSettings { mtu: Some(1280), ..filter(0) };
        let blocks = ForwardPath { ipsec_blocks: vec!["fwd"], ..Default::default() };
        let services = ForwardPath { virtual_services: 1, ..Default::default() };
        for (found, port, word) in [
            (program(Some(2), "tcx at ingress"), Some(1), "tcx at ingress of eth1"),
            (program(None, "netfilter at forward of IPv4"), None, "netfilter at forward"),
            (strange("% has the attribute 80"), Some(1), "eth1 has the attribute 80"),
            (policy(Some("FORWARD")), None, "ip6tables-legacy: table filter drops"),
            (set(&[(2, true, mtu)]), Some(1), "net.ipv6.conf.eth1.mtu"),
            (blocks, None, "fwd block"),
            (services, None, "IPVS"),
        ] {
            let judged = judged(&found);
            assert_eq!(judged.len(), 1, "{judged:?}");
            assert_eq!(judged[0].0, port, "{judged:?}");
            assert!(judged[0].1.contains(word), "{judged:?}");
        }
        assert!(judged(&program(Some(9), "tcx at ingress")).is_empty(), "no interface of a port");
        for (setting, port) in [
            ("ipv4/ip_forward_use_pmtu", None),
            ("ipv4/conf/eth1/accept_local", Some(PortId(1))),
            ("ipv4/conf/eth1/route_localnet", Some(PortId(1))),
        ] {
            let is_set = |path: &str| u32::from(path == setting);
            let around = Circumstances { setting: &is_set, ..plain() };
            let reasons = judge(&ForwardPath::default(), &ports(), &around);
            assert_eq!(reasons.iter().map(|it| it.port).collect::<Vec<_>>(), [port], "{setting}");
        }
        let unseen = ForwardPath { unseen: Some("it".to_owned()), ..Default::default() };
        let reasons = judge(&unseen, &ports(), &plain());
        assert!(reasons.len() == 1 && reasons[0].is_mild, "{reasons:?}");
    }

    /// Honours checks that are as strict as the kernel's.
    #[test]
    fn equally_strict_source_check_replaces_the_kernels() {
        let judged = |check, value: u32| {
            let checks = BTreeMap::from([(PortId(0), check)]);
            let around = Circumstances { checks: &checks, ..plain() };
            judge(&set(&[(1, false, filter(value))]), &ports(), &around).len()
        };
        use SourceCheck::{Loose, Strict};
        assert_eq!([judged(Strict, 1), judged(Strict, 2), judged(Loose, 2)], [0, 0, 0]);
        assert_eq!(judged(Loose, 1), 1, "the kernel is stricter");
    }

    #[test]
    fn family_that_is_not_forwarded_or_has_an_unknown_setting_is_left_by_port() {
        let off = LinkSettings { off_because: Some("net.ipv4.conf.%.forwarding = 0"), ..filter(0) };
        let unknown = LinkSettings { not_understood: vec![(77, 3)], ..filter(0) };
        // Only a VLAN of the first port, which the program does not distinguish from the others.
        let found = set(&[(7, false, off), (2, true, unknown)]);
        let reasons = judge(&found, &ports(), &plain());
        for guarded in [BTreeSet::new(), BTreeSet::from([PortId(0), PortId(1)])] {
            let prefixes = left_prefixes(&reasons, &ports(), &guarded);
            let names = |port| prefixes[&PortId(port)].iter().map(ToString::to_string).collect();
            let names: [Vec<String>; 2] = [names(0), names(1)];
            assert_eq!(names, [["0.0.0.0/0"], ["::/0"]], "{guarded:?}");
            assert_eq!(left(&reasons, &ports(), &prefixes), BTreeMap::new());
        }
        assert!(reasons[0].text.contains("net.ipv4.conf.eth0.7.forwarding = 0"), "{reasons:?}");
        assert!(reasons[1].text.contains("setting 77 with the value 3"), "{reasons:?}");
        let alone = Circumstances { follows_kernel: false, ..plain() };
        assert_eq!(judge(&found, &ports(), &alone).len(), 1, "routes of the configuration alone");
    }

    #[test]
    fn filter_is_judged_by_the_packets_that_its_rules_concern() {
        let named = |name: &str| Some(vec![InterfaceMatch::Name(name.to_owned())]);
        let net = |text: &str| Some(BTreeSet::from([text.parse::<IpNet>().unwrap()]));
        let nets = |text: &str| net(text).map(Vec::from_iter);
        let none = Concern::default;
        let own = [IpAddr::from([192, 0, 2, 1])];
        let around = Circumstances { own: &own, ..plain() };
        let judged_on = |devices: &[&str], hook, concern: Concern| {
            let mut found = chain(devices);
            found.chains[0].hook = hook;
            found.chains[0].effects =
                Ok(vec![Effect { concern, rule: "handle 4 (`drop`)".to_owned() }]);
            let reasons = judge(&found, &ports(), &around);
            reasons.into_iter().map(|it| (it.port.map(|it| it.0), it.only)).collect::<Vec<_>>()
        };
        let judged = |hook, concern| judged_on(&[], hook, concern);
        assert_eq!(judged("forward", none()), [(None, None)]);
        let from = Concern { source: nets("192.0.2.0/24"), ..none() };
        assert_eq!(judged("forward", from.clone()), [(None, net("192.0.2.0/24"))]);
        assert_eq!(judged("postrouting", from.clone()), [(None, None)], "own packets meet it, too");
        let at_vlan = Concern { input: named("eth0.7"), ..from };
        assert_eq!(judged("prerouting", at_vlan), [(Some(0), net("192.0.2.0/24"))]);
        let at_index = Concern { input: Some(vec![InterfaceMatch::Index(2)]), ..none() };
        assert_eq!(judged("forward", at_index), [(Some(1), None)]);
        let elsewhere = Concern { input: named("eth9"), ..none() };
        assert_eq!(judged("forward", elsewhere), []);
        let to = |name| Concern { output: named(name), destination: nets("10.0.0.0/8"), ..none() };
        assert_eq!(judged("forward", to("eth9")), []);
        assert_eq!(judged("forward", to("eth1")), [(None, net("10.0.0.0/8"))]);
        let from = Concern { source: nets("203.0.113.0/24"), ..none() };
        let leaving = judged_on(&["eth0"], "egress", from.clone());
        assert_eq!(leaving, [(None, net("203.0.113.0/24"))], "they come in by any port");
        assert_eq!(judged_on(&["eth0"], "ingress", from), [(Some(0), net("203.0.113.0/24"))]);
        assert_eq!(judged_on(&["eth0"], "egress", none()), [(Some(0), None)]);
        let across = Concern { input: named("eth1"), ..none() };
        assert_eq!(judged_on(&["eth0"], "ingress", across), []);
    }

    #[test]
    fn reason_of_a_chain_names_the_rules_to_change() {
        let mut found = chain(&[]);
        let text = |found: &ForwardPath| judged(found)[0].1.clone();
        found.chains[0].effects = Err(vec!["handle 4 (`ct`)".to_owned()]);
        assert!(
            text(&found).ends_with("has 2 rules; 1 of them takes all packets: handle 4 (`ct`)")
        );
        let effect = |concern| Effect { concern, rule: "handle 5 (`log`)".to_owned() };
        found.chains[0].effects = Ok(vec![effect(Concern::default()); 2]);
        assert!(text(&found).contains("; 2 of them take all packets: handle 5 (`log`), handle 5"));
        let source = Some(vec!["10.0.0.0/9".parse().unwrap(), "10.128.0.0/9".parse().unwrap()]);
        found.chains[0].effects = Ok(vec![effect(Concern { source, ..Concern::default() })]);
        assert!(text(&found).ends_with("has 2 rules; 1 of them takes packets of 2 prefixes"));
        found.chains[0].drops = true;
        found.chains[0].accepted = vec![Concern::default()];
        assert!(text(&found).ends_with("packets of 2 prefixes"), "the policy drops none");
        found.chains[0].accepted.clear();
        let policy = "has 2 rules; the policy drops packets that no rule accepts by one interface";
        assert!(judged(&found).iter().any(|(_, text)| text.contains(policy)));
    }

    /// Packets that no rule accepts by interface and address alone are left.
    #[test]
    fn policy_to_drop_leaves_packets_that_no_rule_accepts() {
        let names = |names: &[&str]| {
            Some(names.iter().map(|it| InterfaceMatch::Name((*it).to_owned())).collect::<Vec<_>>())
        };
        let nets = |texts: &[&str]| {
            Some(texts.iter().map(|it| it.parse::<IpNet>().unwrap()).collect::<Vec<_>>())
        };
        let none = Concern::default;
        let from = |name: &str| Concern { input: names(&[name]), ..none() };
        let judged = |family, hook, accepted: &[&Concern]| {
            let mut found = chain(&[]);
            let effects = Ok(vec![]);
            let of = Chain { family, hook, drops: true, effects, ..found.chains.remove(0) };
            found
                .chains
                .push(Chain { accepted: accepted.iter().copied().cloned().collect(), ..of });
            let reasons = judge(&found, &ports(), &plain());
            reasons.into_iter().map(|it| (it.port.map(|it| it.0), it.only)).collect::<Vec<_>>()
        };
        let inet = |accepted: &[&Concern]| judged("inet", "forward", accepted);
        assert_eq!(inet(&[]), [(None, None)]);
        assert_eq!(inet(&[&none()]), []);
        assert_eq!(judged("inet", "postrouting", &[&none()]), [(None, None)], "own packets, too");
        // The first port has a VLAN as well.
        assert_eq!(inet(&[&from("eth0"), &from("eth1")]), [(Some(0), None)]);
        let vlan = Concern { input: names(&["eth0", "eth0.7"]), ..none() };
        assert_eq!(inet(&[&vlan]), [(Some(1), None)]);
        assert_eq!(inet(&[&vlan, &from("eth1")]), []);
        // The packets could leave by another port.
        let out = |names| Concern { output: names, ..none() };
        assert_eq!(inet(&[&out(names(&["eth0", "eth1"]))]), [(None, None)]);
        let anywhere = out(names(&["eth0", "eth1", "eth0.7"]));
        assert_eq!(inet(&[&anywhere]), []);
        assert_eq!(judged("inet", "prerouting", &[&anywhere]), [(None, None)], "none is known yet");
        // Half of one family.
        let half = Concern { source: nets(&["0.0.0.0/1"]), ..none() };
        let all = |prefixes: &[&str]| {
            let these: BTreeSet<IpNet> = prefixes.iter().map(|it| it.parse().unwrap()).collect();
            [(Some(0), Some(these.clone())), (Some(1), Some(these))]
        };
        assert_eq!(judged("ip", "forward", &[&half]), all(&["128.0.0.0/1"]));
        assert_eq!(inet(&[&half]), all(&["128.0.0.0/1", "::/1", "8000::/1"]));
        // Prefixes are left by source and destination at once.
        let other = Concern { destination: nets(&["128.0.0.0/1"]), ..none() };
        assert_eq!(judged("ip", "forward", &[&half, &other]).len(), 2);
        let both = Concern { destination: other.destination, ..half };
        assert_eq!(judged("ip", "forward", &[&both]), all(&["0.0.0.0/1", "128.0.0.0/1"]));
        let inside = nets(&["10.0.0.0/8", "10.1.0.0/16", "192.168.0.0/16"]);
        let left = judged("ip", "prerouting", &[&Concern { destination: inside, ..none() }]);
        let counts = left.iter().flat_map(|(_, only)| only).map(BTreeSet::len);
        assert_eq!(counts.collect::<Vec<_>>(), [22, 22], "{left:?}");
    }

    /// Tagged frames would look untagged, and be forwarded as such.
    #[test]
    fn port_with_stripped_vlan_tags_is_left() {
        let around = Circumstances { strips_tags: &|name| name.starts_with("eth"), ..plain() };
        let reasons = judge(&ForwardPath::default(), &ports(), &around);
        let left = left(&reasons, &ports(), &BTreeMap::new());
        assert_eq!(left.keys().collect::<Vec<_>>(), [&PortId(0)], "the other has no VLANs");
        assert!(left[&PortId(0)].contains("ethtool -K eth0 rxvlan off"), "{left:?}");
    }

    /// Only the packets of a prefix are left, if that includes all packets of the rule.
    #[test]
    fn reason_for_prefixes_leaves_only_their_packets() {
        let prefix = |text: &str| -> IpNet { text.parse().unwrap() };
        let judged = |source: Option<&str>, destination: Option<&str>, input: Option<&str>| {
            let mut found = rule(input);
            found.rules[0].source = source.map(prefix);
            found.rules[0].destination = destination.map(prefix);
            let around = Circumstances { own: &[IpAddr::from([192, 0, 2, 1])], ..plain() };
            judge(&found, &ports(), &around)
        };
        let of = |reasons: &[Reason], guarded: &[u16]| {
            let guarded = guarded.iter().map(|port| PortId(*port)).collect();
            let prefixes = left_prefixes(reasons, &ports(), &guarded);
            let left: Vec<u16> = left(reasons, &ports(), &prefixes).keys().map(|it| it.0).collect();
            let prefixes = prefixes.into_iter().flat_map(|(port, of)| {
                of.into_iter().map(move |prefix| (port.0, prefix.to_string()))
            });
            (left, prefixes.collect::<Vec<_>>())
        };
        let both = |text: &str| vec![(0, text.to_owned()), (1, text.to_owned())];
        let from = judged(Some("10.9.0.0/16"), None, None);
        assert_eq!(of(&from, &[]), (vec![], both("10.9.0.0/16")));
        assert_eq!(
            of(&from, &[1]),
            (vec![1], vec![(0, "10.9.0.0/16".to_owned())]),
            "a guarded port"
        );
        let narrower = judged(Some("10.9.0.0/16"), Some("10.8.7.0/24"), None);
        assert_eq!(of(&narrower, &[]), (vec![], both("10.8.7.0/24")), "the longer of both");
        let by_port = judged(Some("10.9.0.0/16"), None, Some("eth1"));
        assert_eq!(of(&by_port, &[]), (vec![], vec![(1, "10.9.0.0/16".to_owned())]));
        for (source, destination) in
            [(None, None), (Some("192.0.2.0/24"), None), (Some("0.0.0.0/0"), None)]
        {
            let all = judged(source, destination, None);
            assert_eq!(of(&all, &[]), (vec![0, 1], vec![]), "{source:?}");
        }
        let own = judged(Some("192.0.2.0/24"), Some("10.8.0.0/16"), None);
        assert_eq!(of(&own, &[]), (vec![], both("10.8.0.0/16")));
        // With another reason that concerns all packets.
        let mut reasons = from.clone();
        reasons.extend(judged(None, None, None));
        assert_eq!(of(&reasons, &[]).0, [0, 1]);
        // Policies of IPsec, by their selectors.
        let policies = [
            ("10.1.0.0/16", "10.2.0.0/16"),
            ("10.2.0.0/16", "10.1.0.0/16"),
            ("192.0.2.1/32", "10.3.0.0/16"),
        ];
        let policy = |(from, to): (&str, &str)| [prefix(from), prefix(to)];
        let mut found =
            ForwardPath { ipsec_policies: policies.map(policy).to_vec(), ..Default::default() };
        let around = Circumstances { own: &[IpAddr::from([192, 0, 2, 1])], ..plain() };
        let (left, prefixes) = of(&judge(&found, &ports(), &around), &[]);
        assert!(left.is_empty());
        // Both directions of one tunnel, and the peer of this machine's own packets.
        assert_eq!(prefixes[..prefixes.len() / 2].len(), 3, "{prefixes:?}");
        found.ipsec_policies.push(policy(("192.0.2.0/24", "0.0.0.0/0")));
        assert_eq!(of(&judge(&found, &ports(), &around), &[]), (vec![0, 1], vec![]));
        // More than the program has room for.
        let address = |number: u32| IpAddr::from((0x0a09_0000 + number).to_be_bytes()).into();
        let many = (0..=LEFT_PREFIXES_MAX).map(address).collect();
        let many = [Reason { only: Some(many), ..from[0].clone() }];
        assert_eq!(of(&many, &[]), (vec![0, 1], vec![]));
        let text = &super::left(&many, &ports(), &BTreeMap::new())[&PortId(0)];
        assert!(
            text.ends_with(
                "(packets of 1025 prefixes; a port leaves at most 1024 without all others)"
            ),
            "{text}"
        );
    }

    /// One reason for all prefixes of a rule: reasons are compared at each check.
    #[test]
    fn many_addresses_are_one_reason() {
        let addresses = |step: u32| -> Vec<IpNet> {
            (0..4_000)
                .map(|at| IpAddr::from((0x0a00_0000 + at * step).to_be_bytes()).into())
                .collect()
        };
        let named = Concern { source: Some(addresses(3)), ..Concern::default() };
        let mut found = chain(&[]);
        found.chains[0].effects =
            Ok(vec![Effect { concern: named.clone(), rule: "handle 4 (`drop`)".to_owned() }]);
        assert_eq!(judge(&found, &ports(), &plain()).len(), 1);
        found.chains[0].effects = Ok(Vec::new());
        (found.chains[0].drops, found.chains[0].accepted) = (true, vec![named]);
        let reasons = judge(&found, &ports(), &plain());
        assert_eq!(reasons.len(), 2, "one for each port");
        let left = left(&reasons, &ports(), &left_prefixes(&reasons, &ports(), &BTreeSet::new()));
        assert!(left.values().all(|text| text.len() < 300), "{left:?}");
    }

    /// Returns the ports at which flows may be forwarded, or the obstacle.
    fn flows_of(found: &ForwardPath) -> BTreeMap<u16, Result<String, String>> {
        let reasons = judge(found, &ports(), &plain());
        let prefixes = left_prefixes(&reasons, &ports(), &BTreeSet::new());
        let flows = flows(found, &reasons, &ports(), &prefixes);
        let text = |it: UsableFlowtable| format!("{it}{:?}", it.bridge.unwrap_or_default());
        flows.into_iter().map(|(port, flows)| (port.0, flows.map(text))).collect()
    }

    #[test]
    fn flows_are_forwarded_only_at_ports_of_a_plain_flowtable() {
        let table = |devices: &[&str]| Flowtable {
            family: "ip",
            table: "t".to_owned(),
            name: "f".to_owned(),
            devices: devices.iter().map(|it| (*it).to_owned()).collect(),
            offloads: false,
            counts: false,
            is_understood: true,
        };
        let with = |tables: Vec<Flowtable>| ForwardPath { flowtables: tables, ..chain(&[]) };
        let plain = table(&["eth0", "eth1"]);
        let both = flows_of(&with(vec![plain.clone()]));
        assert_eq!(both[&0], Ok("flowtable ip t f[0, 0, 0, 0, 0, 0]".to_owned()));
        assert_eq!(both[&1], both[&0]);
        // Without a reason to leave a port, flows get no special treatment.
        let flowtables = vec![plain.clone()];
        assert!(flows_of(&ForwardPath { flowtables, ..ForwardPath::default() }).is_empty());

        let others = [
            (Flowtable { counts: true, ..plain.clone() }, "`counter`"),
            (Flowtable { offloads: true, ..plain.clone() }, "`flags offload`"),
            (Flowtable { is_understood: false, ..plain.clone() }, "flags"),
        ];
        for (other, why) in others {
            // The kernel uses only one of several tables.
            for tables in [vec![other.clone()], vec![plain.clone(), other]] {
                let flows = flows_of(&with(tables));
                assert!(flows[&0].as_ref().is_err_and(|it| it.contains(why)), "{flows:?}");
            }
        }
        // Another reason, which also applies to flows.
        let queueing = vec![Queueing { link: 1, kind: QueueingKind::Filters }];
        let shaped = ForwardPath { queueing, ..with(vec![plain.clone()]) };
        assert_eq!(flows_of(&shaped).into_keys().collect::<Vec<_>>(), [1]);
        // A port of a bridge gets frames for the bridge's address.
        let kind = MasterKind::Bridge([2; 6]);
        let masters = vec![Master { link: 1, kind, name: "br0".to_owned() }];
        let bridged = flows_of(&ForwardPath { masters, ..with(vec![plain.clone()]) });
        assert_eq!(bridged[&0], Ok("flowtable ip t f[2, 2, 2, 2, 2, 2]".to_owned()));
        assert_eq!(bridged[&1], both[&1]);
        let ingress = Chain { hook: "ingress", ..chain(&[]).chains.remove(0) };
        assert!(flows_of(&ForwardPath { chains: vec![ingress], ..with(vec![plain]) }).is_empty());

        let some = flows_of(&with(vec![table(&["eth1"])]));
        assert!(some[&0].is_err() && some[&1].is_ok(), "{some:?}");
    }

    #[test]
    fn lines_for_a_flowtable_fit_the_ruleset() {
        let lines = |found: &ForwardPath| flows_of(found)[&0].clone().unwrap_err();
        let known = lines(&chain(&[]));
        assert!(
            known.ends_with(
                "nft 'add flowtable ip t wattline { hook ingress priority filter; devices = { eth0, eth1 }; \
                 }' && nft 'insert rule ip t c meta l4proto { tcp, udp } ct state established flow add \
                 @wattline'"
            ),
            "{known}"
        );
        let mut translation = chain(&[]);
        translation.chains[0].hook = "postrouting";
        let made = lines(&translation);
        assert!(
            made.contains("nft add table inet wattline && nft 'add chain inet wattline"),
            "{made}"
        );
        // The ruleset's chain at the hook sees packets of only one family.
        let ipv6 = Chain { family: "ip6", ..chain(&[]).chains.remove(0) };
        assert!(
            lines(&ForwardPath { chains: vec![ipv6], ..chain(&[]) }).contains("add table inet")
        );
    }

    #[test]
    fn interface_on_top_of_a_guarded_port_is_reported() {
        let stacked = |link, lower, kind: &str, name: &str| Stacked {
            link,
            lower,
            kind: kind.to_owned(),
            name: name.to_owned(),
        };
        let stacked = vec![
            stacked(7, 1, "vlan", "eth0.7"),
            stacked(8, 1, "macvlan", "vrrp7"),
            stacked(9, 7, "vlan", "eth0.7.9"),
            stacked(10, 2, "macvlan", "vrrp8"),
        ];
        let found = ForwardPath { stacked, ..ForwardPath::default() };
        let reported = cut_off(&found, &ports(), &[PortId(0)].into());
        assert_eq!(reported.len(), 2, "{reported:?}");
        assert!(reported[0].contains("macvlan vrrp7"), "{reported:?}");
        assert!(reported[1].contains("eth0.7.9"), "{reported:?}");
        assert_eq!(cut_off(&found, &ports(), &BTreeSet::new()), [""; 0]);
        assert!(judge(&found, &ports(), &plain()).is_empty());
    }
}
