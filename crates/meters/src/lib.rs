//! What can be read: energy and power by RAPL, perf, hwmon, IPMI and external meters, and how
//! long cores spent in which state.
//!
//! A figure that cannot be stood by is rejected with a name ([`Rejection`]); a machine without
//! meters is *unavailable*, never at 0 W. Time is handed in, from a monotonic clock.
#![forbid(unsafe_code)]

pub mod align;
pub mod attribution;
mod counter;
pub mod crosscheck;
pub mod external;
mod hwmon;
pub mod ipmi;
mod missing;
pub mod perf;
pub mod phases;
mod rapl;
mod reading;
pub mod recording;
pub mod residency;
pub mod sampling;
mod survey;

pub use counter::{Difference, OutOfRange, WrappingCounter};
pub use hwmon::Hwmon;
pub use missing::Missing;
pub use rapl::Rapl;
pub use reading::{Description, Meter, Plausible, Reading, Rejection, Scope};
pub use survey::{Survey, disjoint, is_guest, survey};
