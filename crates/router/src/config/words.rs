//! Values that are keywords or names.

use super::settings::{RouteTarget, SteerSettings};
use std::net::IpAddr;
use toml::de::DeValue;
use wattline_daemon::settings::parse_interface;
use wattline_rib::ClampMss;

/// Reads the keyword of a route that discards, as in the file of routes.
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

/// Reads `"mtu"` or the bytes of a segment: from the least that every link carries to the most in
/// IPv4.
pub(super) fn parse_clamp(value: &DeValue<'_>) -> Option<ClampMss> {
    if value.as_str() == Some("mtu") {
        return Some(ClampMss::Mtu);
    }
    let bytes = value.as_integer()?.to_string().parse().ok()?;
    (88..=65_495).contains(&bytes).then_some(ClampMss::To(bytes))
}

/// Reads the sender's end of a veth pair: INTERFACE or NAMESPACE/INTERFACE.
pub(super) fn parse_steer(text: &str) -> Option<SteerSettings> {
    let Some((namespace, interface)) = text.split_once('/') else {
        return Some(SteerSettings { namespace: None, interface: parse_interface(text)? });
    };
    // A namespace is a file of that name, and an interface's name has no slash.
    let named = !namespace.is_empty() && namespace != "." && namespace != "..";
    let interface = parse_interface(interface).filter(|_| named)?;
    Some(SteerSettings { namespace: Some(namespace.to_owned()), interface })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_limited_by_the_mtu_or_a_number() {
        let parsed = |text: &str| {
            let text = format!("key = {text}");
            let table = toml::de::DeTable::parse(&text).unwrap();
            parse_clamp(table.get_ref().values().next().unwrap().get_ref())
        };
        assert_eq!(parsed("\"mtu\""), Some(ClampMss::Mtu));
        for (text, bytes) in [("88", 88), ("1_400", 1400), ("65495", 65_495)] {
            assert_eq!(parsed(text), Some(ClampMss::To(bytes)), "{text}");
        }
        for wrong in ["87", "65496", "70000", "-1", "1.5", "\"1400\"", "\"MTU\"", "true", "0x5"] {
            assert_eq!(parsed(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn senders_end_is_an_interface_here_or_in_a_namespace() {
        let parsed = |text| parse_steer(text).map(|steer| (steer.namespace, steer.interface));
        assert_eq!(parsed("up0"), Some((None, "up0".to_owned())));
        assert_eq!(parsed("lab/up0"), Some((Some("lab".to_owned()), "up0".to_owned())));
        for wrong in ["", "/up0", "lab/", "../up0", "a/b/c", "lab/an-interface-too-long"] {
            assert_eq!(parsed(wrong), None, "{wrong}");
        }
    }
}
