//! Host names that a server answers to.
//!
//! A page on the Internet can have its name resolved to 127.0.0.1, and its script then has the same
//! origin as the server here (DNS rebinding). Only the name, in the field `Host`, distinguishes its
//! requests from others. An IP address cannot be rebound.

use super::request::Asked;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

/// Permitted values of the field `Host`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hosts {
    /// Any value.
    Any,
    /// `localhost`, an IP address, or no field, which no browser sends.
    NotRebound,
}

impl Hosts {
    /// Restricts pages for browsers, and addresses that only this machine can reach. Other
    /// listeners are queried by names of their network.
    pub fn for_metrics(address: SocketAddr) -> Self {
        if address.ip().is_loopback() { Self::NotRebound } else { Self::Any }
    }

    /// Returns the reason to refuse a request, if there is one.
    pub(super) fn refuse(self, asked: &Asked) -> Option<&'static str> {
        let host = asked.host.as_deref()?;
        (self == Self::NotRebound && !cannot_be_rebound(host))
            .then_some("ask by IP address or as localhost: a name could be anybody's")
    }
}

/// Returns true if a host, with or without port, is an address or `localhost`, which browsers
/// resolve themselves.
fn cannot_be_rebound(host: &str) -> bool {
    let (name, port) = match host.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((address, port)) if address.parse::<Ipv6Addr>().is_ok() => {
                ("localhost", port.strip_prefix(':').or(port.is_empty().then_some("0")))
            }
            _ => return false,
        },
        None => match host.split_once(':') {
            Some((name, port)) => (name, Some(port)),
            None => (host, Some("0")),
        },
    };
    let port_is_fine = port.is_some_and(|port| port.parse::<u16>().is_ok());
    port_is_fine && (name.eq_ignore_ascii_case("localhost") || name.parse::<Ipv4Addr>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_localhost_alone_cannot_be_rebound() {
        for host in
            ["127.0.0.1:9418", "localhost", "LocalHost:80", "[::1]:9418", "[::1]", "10.1.2.3"]
        {
            assert!(cannot_be_rebound(host), "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:9418",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "127.0.0.1:evil",
            "[::1",
            "[::1]evil",
            "[evil]:1",
            "::1",
            "",
            ":80",
            "0x7f.1",
        ] {
            assert!(!cannot_be_rebound(host), "{host}");
        }
    }

    #[test]
    fn loopback_metrics_are_not_served_by_name() {
        let at = |text: &str| Hosts::for_metrics(text.parse().unwrap());
        assert_eq!(at("127.0.0.1:1"), Hosts::NotRebound);
        assert_eq!(at("[::1]:1"), Hosts::NotRebound);
        assert_eq!(at("192.0.2.1:1"), Hosts::Any);
        assert_eq!(at("0.0.0.0:1"), Hosts::Any);
    }
}
