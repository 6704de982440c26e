//! What can be set: frequency, idle states, wake-up latency, interrupt moderation, uncore.
//!
//! A knob says which writes bring about what is wished ([`Change`]) and writes nothing; the
//! one [`Session`] of a machine writes them: the old value is on disk before, the new one is
//! read back after, and in the end, or after a crash, everything is as it was.
#![forbid(unsafe_code)]

pub mod cpufreq;
pub mod cpuidle;
pub mod journal;
pub mod latency;
pub mod moderation;
pub mod restore;
pub mod rivals;
mod session;
mod setting;
pub mod uncore;

pub use session::{
    Change, Outcome, STATE_DIRECTORY, Session, SessionError, SetError, restore_commands,
    restore_now,
};
pub use setting::{Access, AccessError, Machine, NoSetting, Setting};
