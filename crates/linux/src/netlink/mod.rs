//! The kernel's knowledge of the network, and requests to it (rtnetlink(7)).
//!
//! [`ChangeFeed`] delivers [`Event`]s without gaps: a dump at start, then every change, and a new
//! dump whenever a change may have been missed. [`Requester`] asks the kernel to resolve or confirm
//! a neighbour. Both use plain structs, so that code built on them can be tested with recorded
//! events.
//!
//! [`frame`] has the framing of messages for all protocols: routes, XFRM, and the generic families
//! `netdev` and `ethtool`.

mod attached_program;
mod change_feed;
mod decision;
mod decode;
mod dump;
mod event_decoder;
pub(crate) mod exchange;
pub mod forward_path;
pub(crate) mod frame;
pub(crate) mod generic;
mod interface_name;
mod link_states;
mod model;
mod netconf;
mod nexthop;
mod proxied;
mod request;
mod socket;
mod value;
pub mod xfrm;

pub use attached_program::attached_program;
pub use change_feed::ChangeFeed;
pub use decision::{Decision, DecisionQuery, MatchedRoute};
pub use interface_name::interface_name;
pub use model::{
    Address, Aggregation, Event, Hop, Link, Neighbour, Placement, Route, RouteKind, SourceRank,
    Table,
};
pub use proxied::proxied_addresses;
pub use request::{Requester, add_host_address};
