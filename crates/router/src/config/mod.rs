//! The configuration file of `wattline run`.
//!
//! TOML, read by `wattline-settings`. [`keys::all`] is the only list of keys, both the router's and
//! the applications': the parser, `wattline config` and the reference page all use it. The keys of
//! a section are listed in the file that reads it. [`Config::load`] reports every mistake it finds,
//! not only the first.

mod application;
pub mod keys;
mod mac;
mod parse;
mod ports;
mod power;
mod router;
pub mod routes_file;
mod section;
mod settings;
mod statics;
mod words;
mod xdp_forward;

pub use application::Settings;
pub use mac::{format_mac, parse_mac};
pub use power::{PowerPlatform, PowerSettings};
pub use router::{Mode, RouterSettings, Takeover, XdpForwarding};
pub use section::{ApplicationSection, ReadSection, Sections};
pub use settings::{
    Config, NeighbourSettings, PortKind, PortSettings, RouteSettings, RouteTarget, SteerSettings,
    Via,
};
pub use statics::{read_port_name, read_port_names};
