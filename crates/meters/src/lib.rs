//! Meters: energy and power by RAPL, perf, hwmon, IPMI, Redfish, Prometheus and external meters,
//! and the time that cores spend in each state.
//!
//! An unreliable figure is rejected with a reason ([`Rejection`]); a machine without meters is
//! *unavailable*, never at 0 W. The caller passes the time, from a monotonic clock.
//!
//! [`KINDS`] lists the kinds of meters. The [`Registration`] of each kind holds the facts for other
//! crates.
#![forbid(unsafe_code)]

pub mod align;
pub mod attribution;
mod counter;
pub mod crosscheck;
pub mod external;
mod hwmon;
pub mod ipmi;
pub mod perf;
pub mod phases;
mod rapl;
mod reading;
pub mod recording;
pub mod reference;
pub mod registration;
#[cfg_attr(not(feature = "remote-meters"), path = "without_remote.rs")]
mod remote;
pub mod residency;
pub mod sampling;
mod survey;

pub use counter::{Difference, OutOfRange, WrappingCounter};
pub use hwmon::{Hwmon, RECORDED_DEVICE};
pub use rapl::Rapl;
pub use reading::{Description, Meter, Plausible, Reading, Rejection, Scope, Timing};
pub use remote::Counter;
pub use survey::{Survey, disjoint};
pub use wattline_linux::missing::{Missing, is_guest};

use registration::Registration;
use wattline_linux::sysfs::Tree;

/// All kinds of meters that need no option, in the order of the search. Meters named by the
/// operator come before the machine's own.
pub static KINDS: &[&Registration] =
    &[&remote::KIND, &rapl::KIND, &perf::KIND, &ipmi::KIND, &hwmon::KIND];

/// Searches for every kind of meter that needs no option.
pub fn survey(tree: &Tree) -> Survey {
    survey::survey_of(KINDS, tree)
}
