//! Reads the prefixes that fill a table.

use crate::memory_router::Error;
use ipnet::{IpNet, Ipv4Net};
use std::path::Path;

/// IPv4 prefixes of a file, one per line; the rest of a line and IPv6 prefixes are ignored.
///
/// # Errors
/// Fails when the file cannot be read, holds no prefix, or has lines that are no prefixes.
pub fn read_ipv4(file: &Path) -> Result<Vec<Ipv4Net>, Error> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| Error::Open { file: file.to_owned(), error })?;
    let (mut prefixes, mut wrong) = (Vec::new(), Vec::new());
    for (number, line) in text.lines().enumerate() {
        let Some(word) = line.split_whitespace().next().filter(|word| !word.starts_with('#'))
        else {
            continue;
        };
        match word.parse::<IpNet>() {
            Ok(IpNet::V4(prefix)) => prefixes.push(prefix),
            Ok(IpNet::V6(_)) => {}
            Err(_) if wrong.len() < 10 => wrong.push(format!(
                "line {}: `{word}` is not a prefix; ADDRESS/LENGTH is allowed",
                number + 1
            )),
            Err(_) => {}
        }
    }
    if prefixes.is_empty() && wrong.is_empty() {
        wrong.push("it contains no IPv4 prefix".to_owned());
    }
    if wrong.is_empty() {
        Ok(prefixes)
    } else {
        Err(Error::Routes { file: file.to_owned(), lines: wrong })
    }
}
