//! Load for forwarders: millions of packets, each accounted for.
//!
//! ```text
//! sending thread ── AF_XDP ── interface ── device under test ── interface ── AF_XDP ── receiving thread
//!      one a queue                                                            one a queue
//! ```
//!
//! Each packet carries its trial, its number and its sending time ([`Stamp`]). From these the
//! receiver counts lost, duplicated, reordered and damaged packets exactly and for each flow, and
//! computes latencies on one clock. Packets that the generator could not send, or its receiver
//! could not read, are counted separately from the device's losses ([`Outcome`]).
//!
//! [`limits`] measures the limits of the generator itself, on a link without a device.

mod account;
mod captures;
pub mod cost;
mod end;
mod flows;
pub mod limits;
mod live;
mod load;
mod methods;
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

#[cfg(test)]
mod tests;

pub use end::End;
pub use flows::{Addresses, FLOWS_MAX, shortest_frame};
pub use load::Load;
pub use methods::{Methods, MethodsFound, ReceiveBy, SendBy};
pub use opened_queue::{InterfaceFacts, parse_mac};
pub use outcome::{FlowOutcome, Latency, Outcome};
pub use role::{Placement, Progress, Role, anywhere};
pub use schedule::{Schedule, Shape};
pub use sizes::{FCS, FRAME_MAX, FRAME_MIN, Sizes, WIRE_OVERHEAD};
pub use soundness::Soundness;
pub use stamp::{Parsed, Stamp};
pub use tester::{Tester, plain_link};
