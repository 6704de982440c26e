//! What of the kernel's forwarding would be passed by, and for whose packets.

use crate::application::SourceCheck;
use std::collections::BTreeMap;
use wattline_dataplane::port::PortId;
use wattline_linux::netlink::forward_path::{ForwardPath, MasterKind, QueueingKind};

/// The rule of strongSwan's daemon (charon.routing_table): its table leads packets of tunnels to
/// their policies, which the application of IPsec follows by itself.
const RULE_OF_STRONGSWAN: &str = "220: from all lookup 220";

/// A port, and what its packets come in and go out by.
#[derive(Debug, Clone)]
pub(super) struct Interfaces {
    pub port: PortId,
    /// Numbers and names of its interface and of the VLAN subinterfaces on that.
    pub links: Vec<(u32, String)>,
}

/// Something that the kernel would do with packets and that is not done here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reason {
    /// The port whose packets it is about; `None` where that cannot be told.
    pub port: Option<PortId>,
    /// Whether it is said and no more, unless the configuration wants nothing to be passed by.
    pub is_mild: bool,
    /// In a sentence.
    pub text: String,
}

/// What else has to be known.
pub(super) struct Circumstances<'a> {
    /// Whether packets go by the kernel's routes, and so should heed its rules.
    pub follows_kernel: bool,
    /// Whether an application does what policies of IPsec ask for.
    pub guards: bool,
    /// Ports at which source addresses are compared with the routes here.
    pub checks: &'a BTreeMap<PortId, SourceCheck>,
    /// The reverse-path filter in force on an interface.
    pub reverse_path: &'a dyn Fn(&str) -> u8,
    /// Whether an interface takes tags off the frames that it receives.
    pub strips_tags: &'a dyn Fn(&str) -> bool,
}

/// Everything that would be passed by.
pub(super) fn judge(
    found: &ForwardPath,
    ports: &[Interfaces],
    circumstances: &Circumstances<'_>,
) -> Vec<Reason> {
    let mut reasons = Vec::new();
    let mut add = |port: Option<PortId>, text: String| {
        reasons.push(Reason { port, is_mild: false, text });
    };
    let by_link: BTreeMap<u32, (&Interfaces, &str)> = ports
        .iter()
        .flat_map(|it| it.links.iter().map(move |(link, name)| (*link, (it, name.as_str()))))
        .collect();
    let by_name = |name: &str| by_link.values().find(|(_, it)| *it == name).map(|(it, _)| *it);

    for chain in &found.chains {
        let what = match (chain.rules, chain.drops) {
            (0, _) => "drops what no rule accepts".to_owned(),
            (1, _) => "has a rule".to_owned(),
            (rules, _) => format!("has {rules} rules"),
        };
        let text = format!(
            "nftables: chain {} {} {} (hook {}) {what}",
            chain.family, chain.table, chain.name, chain.hook
        );
        if chain.devices.is_empty() {
            add(None, text);
            continue;
        }
        for (of, name) in chain.devices.iter().filter_map(|name| Some((by_name(name)?, name))) {
            add(Some(of.port), format!("{text} on {name}"));
        }
    }
    for table in &found.legacy {
        add(None, format!("{}: table {} has {} rules", table.program, table.name, table.rules));
    }
    let of_ike = |text: &str| circumstances.guards && text == RULE_OF_STRONGSWAN;
    for rule in
        found.rules.iter().filter(|rule| circumstances.follows_kernel && !of_ike(&rule.text))
    {
        let family = if rule.ipv6 { "-6 " } else { "" };
        let text = format!("policy routing: `ip {family}rule` has `{}`", rule.text);
        match &rule.input {
            None => add(None, text),
            // By other interfaces nothing comes in here.
            Some(input) => {
                by_name(input).into_iter().for_each(|it| add(Some(it.port), text.clone()))
            }
        }
    }
    if found.ipsec_policies > 0 && !circumstances.guards {
        let count = found.ipsec_policies;
        add(
            None,
            format!(
                "IPsec: the kernel has {count} policies (`ip xfrm policy`) for packets that it sends \
                 or forwards, and there is no section [ipsec]"
            ),
        );
    }
    for what in &found.unread {
        add(None, format!("it cannot be seen what the kernel does: {what}"));
    }
    for master in &found.masters {
        let Some((of, name)) = by_link.get(&master.link) else { continue };
        let (what, consequence) = match &master.kind {
            MasterKind::Bridge => ("bridge", "what is bridged is not for a router"),
            MasterKind::Vrf => ("VRF", "whose table of routes is not followed"),
            MasterKind::Other(kind) => (kind.as_str(), "and packets are that one's"),
        };
        let whose = &master.name;
        add(Some(of.port), format!("{name} belongs to the {what} {whose}, {consequence}"));
    }
    for aggregate in &found.aggregates {
        let Some((of, name)) = by_link.get(&aggregate.link) else { continue };
        let kind = &aggregate.kind;
        let text = format!(
            "{name} is a {kind}: XDP programs see its packets at the members, and sockets of the \
             {kind} itself would get none"
        );
        add(Some(of.port), text);
    }
    for queueing in &found.queueing {
        let Some((of, name)) = by_link.get(&queueing.link) else { continue };
        let text = match &queueing.kind {
            QueueingKind::Filters => format!("traffic control: {name} has filters (`tc filter`)"),
            QueueingKind::Discipline(kind) => {
                format!("traffic control: {name} has the queueing discipline {kind}")
            }
        };
        add(Some(of.port), text);
    }
    for of in ports {
        // The interface itself, before its subinterfaces.
        let [(_, name), subinterfaces @ ..] = &of.links[..] else { continue };
        if !subinterfaces.is_empty() && (circumstances.strips_tags)(name) {
            let text = format!(
                "{name} has VLANs and takes the tags off their frames before Wattline sees them \
                 (`ethtool -K {name} rxvlan off` changes that)"
            );
            reasons.push(Reason { port: Some(of.port), is_mild: false, text });
        }
    }
    for of in ports {
        for (_, name) in &of.links {
            let (check, kind, is_mild) = match (circumstances.reverse_path)(name) {
                0 => continue,
                1 => (SourceCheck::Strict, "strict", false),
                _ => (SourceCheck::Loose, "loose", true),
            };
            if circumstances.checks.get(&of.port).is_some_and(|here| *here >= check) {
                continue;
            }
            let text = format!(
                "the reverse-path filter of {name} is {kind} (net.ipv4.conf.{name}.rp_filter and \
                 that of all; the larger counts)"
            );
            reasons.push(Reason { port: Some(of.port), is_mild, text });
        }
    }
    reasons
}

/// By port, why its packets are left to the kernel.
pub(super) fn left(reasons: &[Reason], ports: &[Interfaces]) -> BTreeMap<PortId, String> {
    let of = |port: PortId| {
        let counts = |reason: &&Reason| !reason.is_mild && reason.port.is_none_or(|of| of == port);
        let texts: Vec<&str> = reasons.iter().filter(counts).map(|it| it.text.as_str()).collect();
        (!texts.is_empty()).then(|| (port, texts.join("; ")))
    };
    ports.iter().filter_map(|it| of(it.port)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattline_linux::netlink::forward_path::{
        Aggregate, Chain, LegacyTable, Master, Queueing, Rule,
    };

    fn ports() -> Vec<Interfaces> {
        let of = |port, links: &[(u32, &str)]| Interfaces {
            port: PortId(port),
            links: links.iter().map(|(link, name)| (*link, (*name).to_owned())).collect(),
        };
        vec![of(0, &[(1, "eth0"), (7, "eth0.7")]), of(1, &[(2, "eth1")])]
    }

    fn judged(found: &ForwardPath) -> Vec<(Option<u16>, String)> {
        let around = Circumstances {
            follows_kernel: true,
            guards: false,
            checks: &BTreeMap::new(),
            reverse_path: &|_| 0,
            strips_tags: &|_| false,
        };
        let reasons = judge(found, &ports(), &around);
        reasons.into_iter().map(|it| (it.port.map(|port| port.0), it.text)).collect()
    }

    fn chain(devices: &[&str]) -> ForwardPath {
        let devices = devices.iter().map(|it| (*it).to_owned()).collect();
        let (table, name) = ("t".to_owned(), "c".to_owned());
        let chain =
            Chain { family: "ip", table, name, hook: "forward", rules: 2, drops: false, devices };
        ForwardPath { chains: vec![chain], ..ForwardPath::default() }
    }

    fn rule(input: Option<&str>) -> ForwardPath {
        let input = input.map(str::to_owned);
        let rule = Rule { ipv6: false, input, text: "9: from all lookup 7".to_owned() };
        ForwardPath { rules: vec![rule], ..ForwardPath::default() }
    }

    #[test]
    fn what_can_be_told_by_port_is() {
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
        let legacy = vec![LegacyTable { program: "iptables-legacy", name, rules: 1 }];
        assert_eq!(of(&ForwardPath { legacy, ..Default::default() }), [None]);
        assert_eq!(of(&ForwardPath { ipsec_policies: 1, ..Default::default() }), [None]);
        let unread = vec!["it: denied".to_owned()];
        assert_eq!(of(&ForwardPath { unread, ..Default::default() }), [None]);
    }

    /// Whoever has a bond, or its members, as ports, has the kernel forward by them.
    #[test]
    fn a_bond_and_its_members_are_left() {
        let aggregates = vec![
            Aggregate { link: 2, kind: "bond".to_owned() },
            Aggregate { link: 9, kind: "team".to_owned() },
        ];
        let bond = MasterKind::Other("bond".to_owned());
        let masters = vec![Master { link: 1, kind: bond, name: "bond7".to_owned() }];
        let found = judged(&ForwardPath { aggregates, masters, ..Default::default() });
        assert_eq!(found.iter().map(|(port, _)| *port).collect::<Vec<_>>(), [Some(0), Some(1)]);
        assert!(found[0].1.contains("eth0 belongs to the bond bond7"), "{found:?}");
        assert!(found[1].1.contains("eth1 is a bond"), "{found:?}");
    }

    #[test]
    fn circumstances_make_some_of_it_harmless() {
        let around = Circumstances {
            follows_kernel: false,
            guards: true,
            checks: &BTreeMap::new(),
            reverse_path: &|_| 0,
            strips_tags: &|_| false,
        };
        let mut found = rule(None);
        found.ipsec_policies = 3;
        assert_eq!(judge(&found, &ports(), &around), []);
        // The rule that strongSwan adds, beside the policies that are followed; no other.
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
    fn a_loose_filter_is_told_and_a_strict_one_leaves_its_port() {
        let filter = |name: &str| match name {
            "eth0" => 2,
            "eth1" => 1,
            _ => 0,
        };
        let around = Circumstances {
            follows_kernel: true,
            guards: false,
            checks: &BTreeMap::new(),
            reverse_path: &filter,
            strips_tags: &|_| false,
        };
        let reasons = judge(&ForwardPath::default(), &ports(), &around);
        assert_eq!(reasons.iter().map(|it| it.is_mild).collect::<Vec<_>>(), [true, false]);
        let left = left(&reasons, &ports());
        assert_eq!(left.keys().collect::<Vec<_>>(), [&PortId(1)]);
        assert!(left[&PortId(1)].contains("eth1 is strict"), "{left:?}");
    }

    /// What is checked here as strictly as the kernel would is not passed by.
    #[test]
    fn a_filter_that_is_in_force_here_is_honoured() {
        let judged = |check, filter: u8| {
            let checks = BTreeMap::from([(PortId(0), check)]);
            let around = Circumstances {
                follows_kernel: true,
                guards: false,
                checks: &checks,
                reverse_path: &|name| if name == "eth0" { filter } else { 0 },
                strips_tags: &|_| false,
            };
            judge(&ForwardPath::default(), &ports(), &around).len()
        };
        use SourceCheck::{Loose, Strict};
        assert_eq!([judged(Strict, 1), judged(Strict, 2), judged(Loose, 2)], [0, 0, 0]);
        assert_eq!(judged(Loose, 1), 1, "the kernel is stricter");
    }

    /// Tagged frames would look untagged, and be forwarded as such.
    #[test]
    fn a_port_with_vlans_whose_tags_are_taken_off_is_left() {
        let around = Circumstances {
            follows_kernel: true,
            guards: false,
            checks: &BTreeMap::new(),
            reverse_path: &|_| 0,
            strips_tags: &|name| name.starts_with("eth"),
        };
        let reasons = judge(&ForwardPath::default(), &ports(), &around);
        let left = left(&reasons, &ports());
        assert_eq!(left.keys().collect::<Vec<_>>(), [&PortId(0)], "the other has no VLANs");
        assert!(left[&PortId(0)].contains("ethtool -K eth0 rxvlan off"), "{left:?}");
    }

    #[test]
    fn what_cannot_be_told_by_port_leaves_all() {
        let around = Circumstances {
            follows_kernel: true,
            guards: false,
            checks: &BTreeMap::new(),
            reverse_path: &|_| 0,
            strips_tags: &|_| false,
        };
        let reasons = judge(&rule(None), &ports(), &around);
        assert_eq!(left(&reasons, &ports()).len(), 2);
    }
}
