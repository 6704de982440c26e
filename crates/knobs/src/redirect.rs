//! The indirection table of receive-side scaling: the receive queue of each hash value.

use crate::change::Change;
use crate::registration::{Recorded, Registration};
use crate::setting::Setting;

pub use crate::table_text::{from_text, to_text};

/// Returns the setting of an interface's table.
pub fn setting(interface: &str) -> Setting {
    Setting::IndirectionTable { interface: interface.to_string() }
}

/// Returns the write that gives an interface this table, a queue per entry, as many as the card
/// has.
pub fn set(interface: &str, queues: &[u32], why: impl Into<String>) -> Change {
    Change { setting: setting(interface), value: to_text(queues), why: why.into() }
}

/// The table.
pub const KNOB: Registration = Registration {
    name: "indirection table",
    label: "redirect",
    files: "ethtool RSS indirection table",
    values: "a queue's number per entry",
    // A write takes the kernel's network lock, sets the card's registers, and moves flows.
    write_cost: 50,
    notes: "as long as the card has it; hash function and key stay",
    owns: |setting| matches!(setting, Setting::IndirectionTable { .. }),
    recorded: Recorded { of_card: |interface| vec![setting(interface)], ..Recorded::NOTHING },
    ..Registration::NOTHING
};
