//! What the kernel knows of the network, and what it is asked to do (rtnetlink(7)).
//!
//! [`Follower`] gives an unbroken story of [`Event`]s: a dump at start, changes after that, and
//! a new dump whenever something may have been missed. [`Requester`] asks the kernel to
//! resolve or confirm a neighbour. Both speak plain structs, so that what is built on
//! them can be tested from recorded events.
//!
//! How messages are framed is in one file, [`frame`], for all protocols: routes, XFRM, and the
//! generic families `netdev` and `ethtool`.

mod attached_program;
mod decode;
mod dump;
pub(crate) mod exchange;
mod follow;
pub mod forward_path;
pub(crate) mod frame;
pub(crate) mod generic;
mod model;
mod nexthop;
mod request;
mod socket;
mod story;
mod value;
pub mod xfrm;

pub use attached_program::attached_program;
pub use follow::Follower;
pub use model::{Address, Aggregation, Event, Hop, Link, Neighbour, Route, RouteKind};
pub use request::{Requester, add_host_address};
