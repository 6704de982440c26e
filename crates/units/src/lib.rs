//! Quantities that cannot be mixed up, the foundation of Wattline.
//!
//! A power is not an energy, a frequency not a rate: each has its own type, and only the operations
//! that physics allows. Every figure that leaves the program carries its origin ([`Provenance`]).
#![forbid(unsafe_code)]

mod build;
mod named;
mod number;
mod parse;
mod provenance;
mod quantity;
mod time;

pub use build::Build;
pub use number::{parse_bytes, parse_count, parse_prefixed};
pub use parse::ParseQuantityError;
pub use provenance::{Accuracy, Provenance, Source};
pub use quantity::{BitsPerSecond, Hertz, Joules, PacketsPerSecond, Watts};
pub use time::{Span, Time};
