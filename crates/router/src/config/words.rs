//! Values that are words or names.

use super::settings::{RouteTarget, SteerSettings};
use std::net::IpAddr;
use wattline_daemon::settings::parse_interface;

/// The words for routes that discard, in the file of routes too.
pub(super) fn parse_kind(text: &str) -> Option<RouteTarget> {
    match text {
        "blackhole" => Some(RouteTarget::Blackhole),
        "unreachable" => Some(RouteTarget::Unreachable),
        "prohibit" => Some(RouteTarget::Prohibit),
        _ => None,
    }
}

/// `ADDRESS` or `ADDRESS%PORT`.
pub(super) fn parse_via(text: &str) -> Option<(IpAddr, Option<String>)> {
    let (address, port) = match text.split_once('%') {
        Some((address, port)) => (address, Some(port.to_owned())),
        None => (text, None),
    };
    let address: IpAddr = address.parse().ok()?;
    (!address.is_multicast() && !address.is_unspecified()).then_some((address, port))
}

/// The sender's end of a veth pair: INTERFACE or NAMESPACE/INTERFACE.
pub(super) fn parse_steer(text: &str) -> Option<SteerSettings> {
    let Some((namespace, interface)) = text.split_once('/') else {
        return Some(SteerSettings { namespace: None, interface: parse_interface(text)? });
    };
    // A file of that name stands for it, and an interface's name has no slash.
    let named = !namespace.is_empty() && namespace != "." && namespace != "..";
    let interface = parse_interface(interface).filter(|_| named)?;
    Some(SteerSettings { namespace: Some(namespace.to_owned()), interface })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_senders_end_is_an_interface_here_or_elsewhere() {
        let parsed = |text| parse_steer(text).map(|steer| (steer.namespace, steer.interface));
        assert_eq!(parsed("up0"), Some((None, "up0".to_owned())));
        assert_eq!(parsed("lab/up0"), Some((Some("lab".to_owned()), "up0".to_owned())));
        for wrong in ["", "/up0", "lab/", "../up0", "a/b/c", "lab/an-interface-too-long"] {
            assert_eq!(parsed(wrong), None, "{wrong}");
        }
    }
}
