//! What can be set: frequency, idle states, wake-up latency, uncore, and of network cards the
//! interrupt moderation, the redirect table, the number of queues, how they are polled and
//! which CPUs take their interrupts.
//!
//! A knob says which writes bring about what is wished ([`Change`]) and writes nothing; the
//! one [`Session`] of a machine writes them: the old value is on disk before, the new one is
//! read back after, and in the end, or after a crash, everything is as it was.
#![forbid(unsafe_code)]

mod access;
pub mod affinity;
mod bounded;
pub mod cpufreq;
pub mod cpuidle;
pub mod journal;
pub mod latency;
pub mod moderation;
pub mod on_exit;
pub mod plan;
pub mod redirect;
pub mod restore;
pub mod rivals;
mod session;
mod setting;
pub mod uncore;

pub use access::{Access, AccessError, Machine};
pub use bounded::Bounded;
pub use on_exit::{OnExit, leave};
pub use plan::{Knobs, Plan, Planned};
pub use session::{
    Change, Commands, Outcome, STATE_DIRECTORY, Session, SessionError, SetError, restore_commands,
    restore_now,
};
pub use setting::{NoSetting, Setting};
