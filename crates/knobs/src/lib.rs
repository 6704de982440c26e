//! Knobs of a machine: frequency, idle states, wake-up latency and uncore. For network cards:
//! interrupt moderation, the indirection table, the number of queues, their polling and the CPUs
//! that take their interrupts.
//!
//! A knob returns the writes for a request ([`Change`]) and writes nothing itself. The one
//! [`Session`] of a machine makes the writes: it stores the old value on disk before, and reads the
//! new one back after. At the end, or after a crash, everything is restored.
//!
//! [`KNOBS`] lists the knobs. The [`Registration`] of each knob holds the facts for other crates.
#![forbid(unsafe_code)]
// A daemon writes to its log: printing blocks on a stalled reader and panics without one.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod abandoned;
mod access;
pub mod affinity;
mod bounded;
mod change;
pub mod channels;
pub mod conflict;
pub mod cpufreq;
pub mod cpuidle;
mod devices;
pub mod journal;
pub mod latency;
mod mask;
pub mod moderation;
mod namespace;
pub mod on_exit;
pub mod plan;
pub mod polling;
pub mod power;
pub mod redirect;
pub mod reference;
pub mod registration;
pub mod restore;
pub mod rivals;
mod session;
mod setting;
pub mod steering;
mod table_text;
pub mod uncore;

pub use abandoned::leave;
pub use access::{Access, AccessError, Machine};
pub use bounded::Bounded;
pub use change::{Change, Knobs, Outcome, SetError};
pub use on_exit::OnExit;
pub use plan::{Plan, Planned};
pub use session::{
    Commands, STATE_DIRECTORY, Session, SessionError, restore_commands, restore_now,
};
pub use setting::{NoSetting, Setting};

use registration::{Found, Probe, Registration};
use wattline_linux::missing::is_guest;
use wattline_linux::sysfs::Tree;

/// All knobs, in the order of display.
pub static KNOBS: &[&Registration] = &[
    &cpufreq::FREQUENCY,
    &cpufreq::PREFERENCE,
    &cpufreq::BIAS,
    &cpufreq::TURBO,
    &cpuidle::KNOB,
    &latency::OF_CPU,
    &latency::OF_MACHINE,
    &uncore::KNOB,
    &moderation::KNOB,
    &redirect::KNOB,
    &channels::KNOB,
    &polling::KNOB,
    &affinity::KNOB,
    &steering::KNOB,
];

/// Probes a machine for all knobs.
pub fn probe(tree: &Tree, interfaces: &[String]) -> Found {
    let machine = Machine::new(tree);
    Found::probe(KNOBS, &Probe { tree, machine, interfaces, guest: is_guest(tree) })
}

/// Returns the knob that a setting belongs to; `None` for a file of a CPU that no knob of this
/// version sets, as a journal may contain.
pub fn owner(setting: &Setting) -> Option<&'static Registration> {
    KNOBS.iter().find(|knob| (knob.owns)(setting)).copied()
}

/// Returns the label of a setting in counters of writes.
pub fn label(setting: &Setting) -> &'static str {
    owner(setting).map_or("cpu", |knob| knob.label)
}
