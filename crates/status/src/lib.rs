//! The contract between daemons and their readers.
//!
//! Every document that a router, a governor or a demonstration sends over its control socket is a
//! type of this crate: daemons build it, and commands, metrics, dashboard and `top` read it. No
//! reader names a JSON key as a string. A document carries the number of its contract
//! ([`CONTRACT`]), so that a program of another version is recognised before its figures are
//! misread.
//!
//! Doc comments of fields are the reference: the JSON schema ([`schema`]) and the page
//! `docs/reference/daemon-json.md` ([`reference`]) are made from them. A key ends in its unit;
//! `packets` and `bytes` are units, too.

pub mod applications;
mod audit;
mod contract;
mod decision;
mod example;
mod governor;
mod graph;
mod moderation;
mod plan;
mod power;
mod rates;
mod reference;
mod router;
mod rule;
mod schema;
mod settable;
mod show;
mod stages;
mod stats;
mod watch;

pub use audit::{AuditDecision, AuditDifference, AuditHop, AuditReport};
pub use contract::{CONTRACT, Contract, ContractError, Document, read};
pub use decision::{Decision, Explanation, Waiting};
pub use example::example;
pub use governor::{
    CoreStats, GovernStatus, GovernorStats, InterfaceStats, LeftOut, Origin, ProcessStats, Refused,
    Rival, SourceState,
};
pub use graph::{ActiveWorkers, Empty, Graph, HeldPoint, ReloadReport};
pub use moderation::Moderation;
pub use plan::PortPlan;
pub use power::{
    Details, Disturbance, Holds, HostStatus, KernelShare, Knob, KnobSteps, Latency,
    LatencyHistogram, PlatformName, Power, Stuck,
};
pub use rates::{Drop, Port, PowerNow, Rates, Sample, Worker};
pub use reference::reference;
pub use router::{
    KernelStats, NodeStats, NotStarted, PortCounters, PortState, PortStats, Prefixes, RouterStats,
    TakeoverChoice, TakeoverStats, WorkerStats, XdpTraffic,
};
pub use rule::RuleName;
pub use schema::{documents, schema, schema_of};
pub use settable::CanSet;
pub use show::{
    ConfigSetting, ConfigTable, Exception, FibEntry, Flow, FlowTable, GroupMember, NeighbourEntry,
    NeighbourTable, NextHopView, PortEntry, PortTable, RouteEntry, RouteHop, RouteTable,
    VersionEntry,
};
pub use stages::{DemonstrationStats, LinkStats, ModelCore, StageResult, Stages};
pub use stats::Stats;
pub use watch::{TracedPacket, WatchEnd, WatchStart};
pub use wattline_units::{Accuracy, Build, Source};
