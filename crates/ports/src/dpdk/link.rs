//! The link of a device.

use std::fmt;

/// State of a device's link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkState {
    /// Whether frames can pass.
    pub up: bool,
    /// Its speed, where the device knows one.
    pub megabits_per_second: Option<u32>,
}

impl fmt::Display for LinkState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.up, self.megabits_per_second) {
            (false, _) => f.write_str("link down"),
            (true, Some(speed)) => write!(f, "{speed} Mbit/s"),
            (true, None) => f.write_str("link up"),
        }
    }
}
