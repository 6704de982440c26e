//! Wire formats of redundancy elimination: encoded packets, messages between decoder and encoder,
//! and the keyed codes that protect both.

mod digest;
mod header;
mod message;
mod offer;
mod report;

pub use digest::{Key, NAME_BITS, name_of};
pub use header::{
    BadHeader, Encoded, HEADER, Header, LONGEST_PAYLOAD, MOST_REGIONS, REGION, Region, VERSION,
};
pub use message::MessageError;
pub use offer::{MOST_OFFERED, Offer, OfferKind};
pub use report::{MOST_MISSING, Present, Report};
