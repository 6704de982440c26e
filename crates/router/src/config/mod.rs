//! The configuration file of `wattline run`.
//!
//! TOML. [`keys::KEYS`] is the one list of keys: the parser, `wattline config` and the
//! reference page are all made from it. [`Config::load`] reports every mistake it finds,
//! not only the first.

mod duration;
mod flow_records;
mod ipsec;
pub mod keys;
mod mac;
mod parse;
mod ports;
mod power;
mod problem;
mod reader;
mod redundancy;
pub mod routes_file;
mod settings;
mod statics;
mod words;
mod xdp_forward;

pub use duration::parse_duration;
pub use flow_records::{CollectorAddress, FlowRecordsSettings, Transport};
pub use ipsec::{IpsecSettings, KeySource, Lifetime, PolicyAction, PolicySettings, TunnelSettings};
pub use mac::{format_mac, parse_mac};
pub use power::{PowerPlatform, PowerSettings};
pub use problem::{ConfigError, Problem, Problems};
pub use redundancy::{RedundancyRole, RedundancySettings};
pub use settings::{
    Config, LogLevel, Mode, NeighbourSettings, PortKind, PortSettings, RouteSettings, RouteTarget,
    RouterSettings, SteerSettings, Via, XdpForwarding,
};
