//! Features that affect kernel forwarding in addition to the main routing table and the neighbours.
//! Forwarders that replace the kernel bypass all of them.
//!
//! [`read`] returns the present features, and [`Watch`] reports when to read them again. Features
//! that a kernel lacks are absent; features that exist and cannot be read are named
//! ([`ForwardPath::unread`]).

mod dump;
mod flowtables;
mod legacy;
mod masters;
mod matches;
mod nftables;
mod programs;
mod queueing;
mod rules;
mod sets;
mod settings;
mod spread;
mod virtual_services;
mod watch;

pub use flowtables::Flowtable;
pub use legacy::LegacyTable;
pub use masters::{Aggregate, Master, MasterKind, Stacked, Strange};
pub use matches::{Concern, Effect, InterfaceMatch};
pub use nftables::Chain;
pub use programs::AttachedProgram;
pub use queueing::{Queueing, QueueingKind};
pub use rules::Rule;
pub use settings::{LinkSettings, SettingsOfLinks};
pub use spread::spread_of_bond;
pub use watch::Watch;

use super::xfrm::{self, PolicyAction, PolicyDirection, XfrmFollower};
use ipnet::IpNet;
use std::io;

/// All features found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ForwardPath {
    /// Rules of policy routing (`ip rule`), except those of every machine.
    pub rules: Vec<Rule>,
    /// Chains of nftables that transit packets pass and that have an effect.
    pub chains: Vec<Chain>,
    /// Flowtables of nftables.
    pub flowtables: Vec<Flowtable>,
    /// Tables of the old iptables with rules.
    pub legacy: Vec<LegacyTable>,
    /// Shaping and filters on interfaces (`tc`).
    pub queueing: Vec<Queueing>,
    /// Interfaces that belong to another.
    pub masters: Vec<Master>,
    /// Interfaces that stand for several others.
    pub aggregates: Vec<Aggregate>,
    /// Interfaces that take some frames of others.
    pub stacked: Vec<Stacked>,
    /// Interfaces with a property that Wattline does not honour or know.
    pub strange: Vec<Strange>,
    /// BPF programs at interfaces and of netfilter.
    pub programs: Vec<AttachedProgram>,
    /// Sources and destinations of IPsec policies for packets that are sent or forwarded.
    pub ipsec_policies: Vec<[IpNet; 2]>,
    /// Number of virtual services (`ipvsadm`).
    pub virtual_services: usize,
    /// Directions in which packets without an IPsec policy are dropped (`ip xfrm policy setdefault`).
    pub ipsec_blocks: Vec<&'static str>,
    /// Settings of links.
    pub settings: SettingsOfLinks,
    /// Parts that could not be read, with the reason.
    pub unread: Vec<String>,
    /// Parts that cannot be seen here, with the reason.
    pub unseen: Option<String>,
}

/// Reads the state of this thread's network namespace.
pub fn read() -> ForwardPath {
    let mut unread = Vec::new();
    let mut note = |what: &str, error: io::Error| {
        // The kernel has no such feature (no module, no table).
        let codes = [libc::EINVAL, libc::EOPNOTSUPP, libc::ENOENT, libc::EPROTONOSUPPORT];
        let absent = error.raw_os_error().is_some_and(|code| {
            codes.contains(&code) || code == libc::EAFNOSUPPORT || code == libc::ECONNREFUSED
        });
        if !absent {
            unread.push(format!("{what}: {error}"));
        }
    };
    let rules = rules::read().unwrap_or_else(|error| {
        note("the rules of policy routing (`ip rule`)", error);
        Vec::new()
    });
    let chains = nftables::read().unwrap_or_else(|error| {
        note("the chains of nftables", error);
        Vec::new()
    });
    // An unread flowtable bypasses nothing more: its flows stay with the kernel.
    let flowtables = flowtables::read().unwrap_or_default();
    let legacy = legacy::read().unwrap_or_else(|error| {
        note("the tables of iptables", error);
        Vec::new()
    });
    let queueing = queueing::read().unwrap_or_else(|error| {
        note("queueing disciplines and filters (`tc`)", error);
        Vec::new()
    });
    let masters::Found { masters, aggregates, stacked, strange, links } = masters::read()
        .unwrap_or_else(|error| {
            note("bridges, VRFs and bonds (`ip link`)", error);
            masters::Found::default()
        });
    let mut programs = programs::at_interfaces(&links).unwrap_or_else(|error| {
        note("BPF programs at interfaces (`bpftool net`)", error);
        Vec::new()
    });
    let mut unseen = None;
    match programs::netfilter() {
        Ok(found) => programs.extend(found),
        Err(error) => unseen = Some(format!("BPF programs of netfilter (`bpftool link`): {error}")),
    }
    let ipsec_policies = ipsec_policies().unwrap_or_else(|error| {
        note("the policies of IPsec (`ip xfrm policy`)", error);
        Vec::new()
    });
    let ipsec_blocks = xfrm::blocked_by_default().unwrap_or_else(|error| {
        note("defaults of IPsec (`ip xfrm policy getdefault`)", error);
        Vec::new()
    });
    let settings = settings::read().unwrap_or_else(|error| {
        note("settings of links (`sysctl net.ipv4.conf`)", error);
        SettingsOfLinks::default()
    });
    ForwardPath {
        rules,
        chains,
        flowtables,
        legacy,
        queueing,
        masters,
        aggregates,
        stacked,
        strange,
        programs,
        virtual_services: virtual_services::count(),
        ipsec_policies,
        ipsec_blocks,
        settings,
        unread,
        unseen,
    }
}

/// Reads a setting of this thread's network namespace below `/proc/sys/net`; 0 if there is none.
pub fn setting(path: &str) -> u32 {
    let text = std::fs::read_to_string(format!("/proc/sys/net/{path}")).unwrap_or_default();
    text.trim().parse().unwrap_or(0)
}

fn ipsec_policies() -> io::Result<Vec<[IpNet; 2]>> {
    let snapshot = XfrmFollower::new()?.poll()?.unwrap_or_default();
    // Wattline's own policies affect forwarding only if they block.
    let blocking = snapshot.ours.iter().filter(|policy| policy.action == PolicyAction::Block);
    let policies = snapshot.policies.iter().chain(blocking);
    let sent = policies.filter(|policy| policy.direction != PolicyDirection::In);
    Ok(sent.map(|policy| [policy.source, policy.destination]).collect())
}
