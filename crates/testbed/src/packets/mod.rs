//! Load for forwarders: packets by the million that account for themselves.
//!
//! ```text
//! sending thread ── AF_XDP ── interface ── device under test ── interface ── AF_XDP ── receiving thread
//!      one a queue                                                            one a queue
//! ```
//!
//! Each packet carries its trial, its number and the time of its sending ([`Stamp`]). From these
//! the receiver tells, exactly and for each flow, what was lost, doubled, reordered or damaged,
//! and how long it took, on one clock. What the generator itself could not send, or its receiver
//! could not take, is told apart from what the device lost ([`Outcome`]).
//!
//! [`limits`] measures what the generator can do by itself, on a link without a device.

mod account;
mod captures;
pub mod cost;
mod end;
mod flows;
pub mod limits;
mod live;
mod load;
mod opened_queue;
mod outcome;
mod receiver;
mod role;
mod schedule;
mod sender;
mod sink;
mod sizes;
mod soundness;
mod stamp;
mod tester;
mod trial;
mod way;

#[cfg(test)]
mod tests;

pub use end::End;
pub use flows::{Addresses, FLOWS_MAX, shortest_frame};
pub use load::Load;
pub use opened_queue::{InterfaceFacts, parse_mac};
pub use outcome::{FlowOutcome, Latency, Outcome};
pub use role::{Placement, Progress, Role, anywhere};
pub use schedule::{Schedule, Shape};
pub use sizes::{FCS, FRAME_MAX, FRAME_MIN, Sizes, WIRE_OVERHEAD};
pub use soundness::Soundness;
pub use stamp::{Parsed, Stamp};
pub use tester::{Tester, plain_link};
pub use way::{ReceiveBy, SendBy, Ways, WaysFound};
