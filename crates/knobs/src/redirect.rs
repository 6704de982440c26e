//! The indirection table of receive-side scaling: which receive queue each hash value goes to.

use crate::registration::{Recorded, Registration};
use crate::session::Change;
use crate::setting::Setting;

/// The address of an interface's table.
pub fn setting(interface: &str) -> Setting {
    Setting::IndirectionTable { interface: interface.to_string() }
}

/// The write that gives an interface this table, a queue per entry, as many as the card has.
pub fn set(interface: &str, queues: &[u32], why: impl Into<String>) -> Change {
    Change { setting: setting(interface), value: to_text(queues), why: why.into() }
}

/// A table as the value of its setting.
pub fn to_text(queues: &[u32]) -> String {
    queues.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

/// The table that a value stands for; `None` when it is none.
pub fn from_text(text: &str) -> Option<Vec<u32>> {
    text.split(',').map(|queue| queue.parse().ok()).collect()
}

/// The table.
pub const KNOB: Registration = Registration {
    name: "indirection table",
    label: "redirect",
    files: "ethtool RSS indirection table",
    values: "a queue's number per entry",
    // Written through the kernel's network lock and the card's registers, and moves flows.
    write_cost: 50,
    notes: "as long as the card has it; hash function and key stay",
    owns: |setting| matches!(setting, Setting::IndirectionTable { .. }),
    recorded: Recorded { of_card: |interface| vec![setting(interface)], ..Recorded::NOTHING },
    ..Registration::NOTHING
};

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn tables_read_back(queues in prop::collection::vec(any::<u32>(), 1..300)) {
            prop_assert_eq!(from_text(&to_text(&queues)), Some(queues));
        }

        #[test]
        fn any_text_is_read_without_panic(text: String) {
            from_text(&text);
        }
    }
}
