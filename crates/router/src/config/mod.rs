//! The configuration file of `wattline run`.
//!
//! TOML. [`keys::all`] is the one list of keys, the router's own and those of applications: the
//! parser, `wattline config` and the reference page are all made from it. [`Config::load`] reports every mistake it finds,
//! not only the first.

mod dpdk;
mod duration;
pub mod keys;
mod mac;
mod parse;
mod ports;
mod power;
mod problem;
pub mod read;
mod reader;
pub mod routes_file;
mod section;
mod settings;
mod statics;
mod tables;
mod words;
mod xdp_forward;

pub use duration::parse_duration;
pub use mac::{format_mac, parse_mac};
pub use power::{PowerPlatform, PowerSettings};
pub use problem::{ConfigError, Problem, Problems};
pub use section::{ApplicationSection, NotBuiltIn, Sections, Settings};
pub use settings::{
    Config, LogLevel, Mode, NeighbourSettings, PortKind, PortSettings, RouteSettings, RouteTarget,
    RouterSettings, SteerSettings, Takeover, Via, XdpForwarding,
};
