//! Whether packets can go through the interface of a port, as `ip link` says it.

use wattline_linux::netlink::Link;

/// State of the link of a served port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LinkState {
    Up,
    /// Set down by an administrator.
    Down,
    /// Set up, and not running: `ip link` says NO-CARRIER.
    NoCarrier,
}

impl LinkState {
    pub fn from_link(link: &Link) -> Self {
        match (link.enabled, link.running) {
            (false, _) => Self::Down,
            (true, false) => Self::NoCarrier,
            (true, true) => Self::Up,
        }
    }

    /// Its name in `stats` and `show ports`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Down => "down",
            Self::NoCarrier => "no-carrier",
        }
    }

    /// Returns the cause, and the way to remove it, if packets cannot pass.
    pub fn reason(self, interface: &str) -> Option<String> {
        match self {
            Self::Up => None,
            Self::Down => Some(format!("it was set down: `ip link set dev {interface} up`")),
            Self::NoCarrier => Some(format!(
                "{interface} has no carrier: its cable, its transceiver or the far end is missing \
                 or down; no route leads out of it until that is back"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_carrier_and_an_interface_that_was_set_down_are_told_apart() {
        let state = |enabled, running| {
            let link = Link {
                index: 2,
                name: "eth0".to_owned(),
                mac: Some([2, 0, 0, 0, 0, 1]),
                mtu: 1500,
                enabled,
                running,
                vlan: None,
                is_virtual: false,
                aggregation: None,
                left_because: None,
            };
            LinkState::from_link(&link)
        };
        assert_eq!(state(true, true), LinkState::Up);
        assert_eq!(state(true, false), LinkState::NoCarrier);
        assert_eq!(state(false, false), LinkState::Down);
        let reason = |state: LinkState| state.reason("eth0").unwrap_or_default();
        assert_eq!(reason(LinkState::Up), "");
        assert!(reason(LinkState::Down).contains("`ip link set dev eth0 up`"));
        assert!(reason(LinkState::NoCarrier).contains("eth0 has no carrier"));
    }
}
