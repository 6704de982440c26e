//! The number of queues of a network card, as `ethtool -L` sets it.

use crate::registration::{Recorded, Registration};
use crate::setting::Setting;

/// Returns the setting of an interface's number of combined channels.
pub fn setting(interface: &str) -> Setting {
    Setting::Channels { interface: interface.to_string() }
}

/// The number.
pub const KNOB: Registration = Registration {
    name: "queues",
    label: "channels",
    files: "ethtool combined channels",
    values: "a number",
    notes: "journaled and restored; no policy changes them; by netlink as above",
    owns: |setting| matches!(setting, Setting::Channels { .. }),
    recorded: Recorded { of_card: |interface| vec![setting(interface)], ..Recorded::NOTHING },
    ..Registration::NOTHING
};
