//! Reads the prefixes that fill a table.

use crate::memory_router::Error;
use ipnet::{IpNet, Ipv4Net};
use std::path::Path;
use wattline_fib::routes_file::load_prefixes;

/// IPv4 prefixes of a file of routes; the rest of a line and IPv6 prefixes are ignored.
///
/// # Errors
/// Fails when the file cannot be read, holds no IPv4 prefix, or has malformed lines.
pub fn read_ipv4(file: &Path) -> Result<Vec<Ipv4Net>, Error> {
    let prefixes: Vec<Ipv4Net> = load_prefixes(file)
        .map_err(Error::Routes)?
        .into_iter()
        .filter_map(|prefix| match prefix {
            IpNet::V4(prefix) => Some(prefix),
            IpNet::V6(_) => None,
        })
        .collect();
    if prefixes.is_empty() {
        return Err(Error::NoPrefixes(file.to_owned()));
    }
    Ok(prefixes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_read_in_the_common_format() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("routes.txt");
        let read = |text: &str| {
            std::fs::write(&file, text).unwrap();
            read_ipv4(&file).map_err(|error| error.to_string())
        };
        let all =
            read("# two\n192.0.2.0/24 via 192.0.2.1 # its next hop\n2001:db8::/32\n10.0.0.0/8\n")
                .unwrap();
        assert_eq!(all, ["192.0.2.0/24".parse().unwrap(), "10.0.0.0/8".parse().unwrap()]);
        let none = read("2001:db8::/32\n").unwrap_err();
        assert!(none.contains("routes.txt") && none.contains("no IPv4 prefix"), "{none}");
        let wrong = read("10.0.0.0/8\nnonsense\n").unwrap_err();
        assert!(wrong.contains("routes.txt:2: \"nonsense\" is not a prefix"), "{wrong}");
    }
}
