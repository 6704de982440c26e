//! `wattline lookup`: next hops of addresses in a file of routes.

use crate::exit::ExitError;
use crate::output;
use ipnet::IpNet;
use serde::Serialize;
use std::io::{BufWriter, Read, Write};
use std::net::IpAddr;
use std::path::PathBuf;
use wattline_fib::grace::Grace;
use wattline_fib::routes_file::{RoutesFile, RoutesFileError};
use wattline_fib::{Fib4, Fib6, FibError};

/// More wrong addresses than this are counted, not listed.
const MOST_LISTED: usize = 20;
/// Stands for an absent value.
const NONE: &str = "-";

/// File of routes, and addresses to look up.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// File with one prefix per line, optionally followed by a next hop; # begins a comment.
    #[arg(long, value_name = "FILE")]
    routes: PathBuf,
    /// Addresses to look up; with "-" or none, those on standard input, one per line.
    #[arg(value_name = "ADDRESS")]
    addresses: Vec<String>,
}

/// An address and the longest prefix that contains it.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Match<'a> {
    address: IpAddr,
    prefix: Option<String>,
    next_hop: Option<&'a str>,
}

/// Both tables, filled from a file.
struct Tables {
    file: RoutesFile,
    ipv4: Fib4,
    ipv6: Fib6,
}

/// Runs the command.
pub fn run(args: &Args, json: bool) -> Result<(), ExitError> {
    let addresses = addresses(&args.addresses)?;
    let file = RoutesFile::load(&args.routes).map_err(|error| {
        let code = match error {
            RoutesFileError::Unreadable { .. } => ExitError::NO_INPUT,
            RoutesFileError::Compressed { .. } | RoutesFileError::Invalid { .. } => ExitError::DATA,
        };
        ExitError::new(code, error)
    })?;
    let tables = Tables::new(file).map_err(|error| {
        ExitError::new(ExitError::DATA, format_args!("{}: {error}", args.routes.display()))
    })?;
    let matches = addresses.into_iter().map(|address| tables.find(address));
    let mut out = BufWriter::new(output::stdout());
    if json {
        let results: Vec<_> = matches.collect();
        output::document(&mut out, &serde_json::json!({ "results": results }))?;
    } else {
        for Match { address, prefix, next_hop } in matches {
            let (prefix, next_hop) = (prefix.as_deref().unwrap_or(NONE), next_hop.unwrap_or(NONE));
            writeln!(out, "{address} {prefix} {next_hop}")?;
        }
    }
    Ok(out.flush()?)
}

impl Tables {
    fn new(file: RoutesFile) -> Result<Self, FibError> {
        let grace = Grace::new();
        let (mut ipv4, mut ipv6) = (Fib4::new(&grace), Fib6::new(&grace));
        for route in &file.routes {
            let next_hop = route.next_hop.unwrap_or(RoutesFile::UNNAMED);
            match route.prefix {
                IpNet::V4(prefix) => ipv4.insert(prefix, next_hop)?,
                IpNet::V6(prefix) => ipv6.insert(prefix, next_hop)?,
            };
        }
        Ok(Self { file, ipv4, ipv6 })
    }

    fn find(&self, address: IpAddr) -> Match<'_> {
        let longest = match address {
            IpAddr::V4(a) => self.ipv4.longest_match(a).map(|(p, id)| (IpNet::V4(p), id)),
            IpAddr::V6(a) => self.ipv6.longest_match(a).map(|(p, id)| (IpNet::V6(p), id)),
        };
        Match {
            address,
            prefix: longest.map(|(prefix, _)| prefix.to_string()),
            next_hop: longest.and_then(|(_, id)| self.file.name(id)),
        }
    }
}

/// Returns the addresses of the command line, or those on standard input.
fn addresses(words: &[String]) -> Result<Vec<IpAddr>, ExitError> {
    if !words.is_empty() && words != ["-"] {
        return parse(words.iter().map(|word| (word.as_str(), String::new())))
            .map_err(|message| ExitError::new(ExitError::USAGE, message));
    }
    let mut text = Vec::new();
    std::io::stdin().read_to_end(&mut text)?;
    let text = String::from_utf8_lossy(&text);
    let lines = (1..).zip(text.lines()).filter_map(|(number, line)| {
        let word = line.split('#').next().unwrap_or_default().trim();
        (!word.is_empty()).then(|| (word, format!("standard input:{number}: ")))
    });
    parse(lines).map_err(|message| ExitError::new(ExitError::DATA, message))
}

/// Parses words, each with the place that a message gives for it.
fn parse<'a>(words: impl Iterator<Item = (&'a str, String)>) -> Result<Vec<IpAddr>, String> {
    let mut addresses = Vec::new();
    let mut problems = Vec::new();
    let mut more = 0;
    for (word, place) in words {
        match word.parse() {
            Ok(address) => addresses.push(address),
            Err(_) if problems.len() == MOST_LISTED => more += 1,
            Err(_) => problems.push(format!(
                "{place}\"{word}\" is not an address: an IPv4 or IPv6 address without a length is \
                 allowed"
            )),
        }
    }
    if problems.is_empty() {
        return Ok(addresses);
    }
    if more > 0 {
        problems.push(format!("and {more} more like these"));
    }
    Err(problems.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_longest_prefix_and_its_name() {
        let text = "10.0.0.0/8 a\n10.1.0.0/16\n2001:db8::/32 b\n";
        let tables = Tables::new(RoutesFile::parse(text).unwrap()).unwrap();
        let find = |address: &str| {
            let found = tables.find(address.parse().unwrap());
            (found.prefix, found.next_hop)
        };
        assert_eq!(find("10.2.0.1"), (Some("10.0.0.0/8".to_owned()), Some("a")));
        assert_eq!(find("10.1.0.1"), (Some("10.1.0.0/16".to_owned()), None));
        assert_eq!(find("11.0.0.0"), (None, None));
        assert_eq!(find("2001:db8::1"), (Some("2001:db8::/32".to_owned()), Some("b")));
    }

    #[test]
    fn names_every_wrong_address() {
        let words = [("10.0.0.1", "1: "), ("10.0.0.1/8", "2: "), ("x", "3: ")];
        let message = parse(words.map(|(word, place)| (word, place.to_owned())).into_iter());
        let message = message.unwrap_err();
        assert!(message.starts_with("2: \"10.0.0.1/8\"") && message.contains("\n3: \"x\""));
        let many = parse(std::iter::repeat_n(("x", String::new()), 30)).unwrap_err();
        assert!(many.ends_with("and 10 more like these"), "{many}");
    }
}
