//! Wire formats of redundancy elimination: encoded packets, reports from decoder to encoder, and
//! the keyed digest that protects both.

mod digest;
mod feedback;
mod header;

pub use digest::{Key, NAME_BITS, name_of};
pub use feedback::{Feedback, FeedbackError, MOST_MISSING};
pub use header::{
    BadHeader, Encoded, HEADER, Header, LONGEST_PAYLOAD, MOST_REGIONS, REGION, Region, VERSION,
};
