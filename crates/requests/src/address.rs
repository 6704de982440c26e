//! Addresses of servers by name.

use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::time::Duration;

/// Time that an address has to accept a connection before the next one is tried.
const PATIENCE: Duration = Duration::from_secs(1);

/// Returns the first address of `HOST:PORT` that accepts a connection, as `localhost` may name
/// `::1` where only `127.0.0.1` is served; the first of all if none does.
///
/// # Errors
/// Fails when the name is unknown or has no address.
pub fn resolve(host_and_port: &str) -> io::Result<SocketAddr> {
    let found: Vec<SocketAddr> = host_and_port.to_socket_addrs()?.collect();
    let accepts = |address: &&SocketAddr| TcpStream::connect_timeout(address, PATIENCE).is_ok();
    // A single address needs no trial.
    let first = if found.len() > 1 { found.iter().find(accepts) } else { None };
    let address = first.or(found.first()).copied();
    address.ok_or_else(|| io::Error::other("the name has no address"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn address_that_is_served_is_found() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            // Machines without IPv6 have one address less.
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let local = listener.local_addr().unwrap();
            let named = format!("localhost:{}", local.port());
            let all: Vec<SocketAddr> = named.to_socket_addrs().unwrap().collect();
            if all.contains(&local) {
                assert_eq!(resolve(&named).unwrap(), local);
            }
        }
        assert_eq!(resolve("127.0.0.1:9").unwrap().port(), 9, "no listener is needed");
        assert!(resolve("no-such-name.invalid:1").is_err());
    }
}
