//! URLs of pages.

use crate::address;
use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;
use thiserror::Error;

/// An `http` URL (RFC 3986): host, port, path with query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    /// Name or address as in the URL, an IPv6 address in brackets, with the port if it is not 80.
    pub authority: String,
    /// Port, 80 where the URL names none.
    pub port: u16,
    /// Path and query, at least `/`.
    pub path: String,
}

/// Reason why a URL is refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum UrlError {
    /// The URL does not begin with `http://`.
    #[error("\"{0}\" does not begin with http:// (https is not supported)")]
    Scheme(String),
    /// The URL has no host, or the host part has a user name or blanks.
    #[error("\"{0}\" has no host that can be used; expected http://HOST[:PORT]/PATH")]
    Host(String),
    /// The port is no number from 1 to 65535.
    #[error("\"{0}\" has no port from 1 to 65535 after the colon")]
    Port(String),
    /// The path has blanks or control characters.
    #[error("the path of \"{0}\" has characters that must be written as %XX")]
    Path(String),
    /// The name is unknown.
    #[error("{authority}: {error}")]
    Resolve {
        /// Host and port.
        authority: String,
        /// Error of the resolver.
        error: String,
    },
}

impl Url {
    /// Returns an address of the host, preferably one that accepts connections.
    ///
    /// # Errors
    /// Fails when the name has no address.
    pub fn resolve(&self) -> Result<SocketAddr, UrlError> {
        let error = |error: String| UrlError::Resolve { authority: self.authority.clone(), error };
        let with_port =
            if self.port == 80 { format!("{}:80", self.authority) } else { self.authority.clone() };
        address::resolve(&with_port).map_err(|e| error(e.to_string()))
    }
}

impl FromStr for Url {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        let named = || text.to_owned();
        let rest = text.strip_prefix("http://").ok_or_else(|| UrlError::Scheme(named()))?;
        let rest = rest.split('#').next().unwrap_or_default();
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (host, path) = rest.split_at(end);
        // After the colon that is not part of an IPv6 address.
        let after_brackets = host.rfind(']').map_or(0, |at| at + 1);
        let (name, port) = match host[after_brackets..].find(':') {
            None => (host, 80),
            Some(at) => {
                let (name, port) = host.split_at(after_brackets + at);
                let port = port[1..].parse().ok().filter(|port| *port > 0);
                (name, port.ok_or_else(|| UrlError::Port(named()))?)
            }
        };
        let usable = |c: char| c.is_ascii_alphanumeric() || "-._[]:%".contains(c);
        if name.is_empty() || !name.chars().all(usable) {
            return Err(UrlError::Host(named()));
        }
        if !path.chars().all(|c| c.is_ascii_graphic()) {
            return Err(UrlError::Path(named()));
        }
        let slash = if path.starts_with('/') { "" } else { "/" };
        let authority = if port == 80 { name.to_owned() } else { format!("{name}:{port}") };
        Ok(Self { authority, port, path: format!("{slash}{path}") })
    }
}

impl fmt::Display for Url {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "http://{}{}", self.authority, self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_parsed() {
        for (text, authority, port, path) in [
            ("http://host", "host", 80, "/"),
            ("http://host:80/a", "host", 80, "/a"),
            ("http://127.0.0.1:8080/a/b?c=d#e", "127.0.0.1:8080", 8080, "/a/b?c=d"),
            ("http://[::1]:81?q", "[::1]:81", 81, "/?q"),
            ("http://[::1]/x", "[::1]", 80, "/x"),
        ] {
            let url: Url = text.parse().unwrap();
            assert_eq!((&*url.authority, url.port, &*url.path), (authority, port, path), "{text}");
        }
        assert_eq!("http://[::1]:81/".parse::<Url>().unwrap().resolve().unwrap().port(), 81);
        assert_eq!("http://127.0.0.1".parse::<Url>().unwrap().resolve().unwrap().port(), 80);
    }

    #[test]
    fn characters_that_break_a_request_are_refused() {
        for text in [
            "https://host/",
            "host",
            "http://",
            "http://:80/",
            "http://user@host/",
            "http://host:0/",
            "http://host:99999/",
            "http://host:/",
            "http://host/a b",
            "http://host/a\r\nHost: b",
            "http://ho st/",
        ] {
            assert!(text.parse::<Url>().is_err(), "{text}");
        }
    }
}
