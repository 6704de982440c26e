//! Parser of the filter language.

use super::program::{OPERATIONS_MAX, Operation, Side, Test};
use ipnet::IpNet;
use std::net::IpAddr;

/// Deepest nesting of brackets and `not`.
const DEPTH_MAX: usize = 32;
const TESTS: &str = "a test is allowed here: `all`, `ip`, `ip6`, `tcp`, `udp`, `icmp`, `icmp6`, `esp`, \
                     `proto N`, `host ADDRESS`, `net PREFIX`, `port N`, `interface PORT`, `vlan N`, `not` \
                     or `(`";
const ADDRESS: &str = "an address such as 192.0.2.1 or 2001:db8::1 is allowed here";
const PREFIX: &str = "a prefix such as 198.51.100.0/24 or 2001:db8::/32 is allowed here";
const PORT: &str = "a number or a range such as 53 or 1000-2000, of 0 to 65535, is allowed here";

/// Error in a filter, with its place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("filter, {place}: {message}")]
pub struct FilterError {
    place: String,
    message: String,
}

/// A word and its place, in bytes.
type Word<'a> = (usize, &'a str);

struct Parser<'a> {
    text: &'a str,
    words: Vec<Word<'a>>,
    next: usize,
    depth: usize,
    operations: Vec<Operation>,
    port: &'a dyn Fn(&str) -> Option<u16>,
}

pub(super) fn parse(
    text: &str,
    port: &dyn Fn(&str) -> Option<u16>,
) -> Result<Vec<Operation>, FilterError> {
    let words = words(text);
    if words.is_empty() {
        return Ok(vec![Operation::Test(Test::All)]);
    }
    let mut parser = Parser { text, words, next: 0, depth: 0, operations: Vec::new(), port };
    parser.any_of()?;
    match parser.words.get(parser.next) {
        None => Ok(parser.operations),
        Some((_, ")")) => Err(parser.wrong("no `(` belongs to this `)`")),
        Some((_, word)) => {
            let message = format!("`{word}`: `and`, `or` or {TESTS}");
            Err(parser.wrong(message))
        }
    }
}

/// Words between blanks; brackets and `!` are words of their own.
fn words(text: &str) -> Vec<Word<'_>> {
    let mut words = Vec::new();
    let mut begun = None;
    for (at, letter) in text.char_indices() {
        let stands_alone = matches!(letter, '(' | ')' | '!');
        if (letter.is_whitespace() || stands_alone)
            && let Some(from) = begun.take()
        {
            words.push((from, &text[from..at]));
        }
        if stands_alone {
            words.push((at, &text[at..at + 1]));
        } else if !letter.is_whitespace() && begun.is_none() {
            begun = Some(at);
        }
    }
    words.extend(begun.map(|from| (from, &text[from..])));
    words
}

impl<'a> Parser<'a> {
    /// `part { "or" part }`
    fn any_of(&mut self) -> Result<(), FilterError> {
        self.all_of()?;
        while self.takes(&["or", "||"]) {
            self.all_of()?;
            self.put(Operation::Or)?;
        }
        Ok(())
    }

    /// `test { [ "and" ] test }`
    fn all_of(&mut self) -> Result<(), FilterError> {
        self.test()?;
        loop {
            let is_written = self.takes(&["and", "&&"]);
            if !is_written && matches!(self.peek(), None | Some("or" | "||" | ")")) {
                return Ok(());
            }
            self.test()?;
            self.put(Operation::And)?;
        }
    }

    fn test(&mut self) -> Result<(), FilterError> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(self.wrong(format!("nested too deeply: at most {DEPTH_MAX}")));
        }
        let word = self.peek().unwrap_or_default();
        match word {
            "not" | "!" => {
                self.next += 1;
                self.test()?;
                self.put(Operation::Not)?;
            }
            "(" => {
                self.next += 1;
                self.any_of()?;
                if !self.takes(&[")"]) {
                    return Err(self.wrong("a `)` is missing"));
                }
            }
            "src" | "dst" => {
                self.next += 1;
                let side = if word == "src" { Side::Source } else { Side::Destination };
                let ends = self.ends(side)?;
                let Some(test) = ends else {
                    return Err(self.wrong("`host`, `net` or `port` is allowed here"));
                };
                self.put(Operation::Test(test))?;
            }
            _ => {
                let test = match self.ends(Side::Either)? {
                    Some(test) => test,
                    None => self.plain(word)?,
                };
                self.put(Operation::Test(test))?;
            }
        }
        self.depth -= 1;
        Ok(())
    }

    /// Returns a test of one end or both ends; `None` if the word begins another test.
    fn ends(&mut self, side: Side) -> Result<Option<Test>, FilterError> {
        let kind = self.peek().unwrap_or_default();
        if !matches!(kind, "host" | "net" | "port") {
            return Ok(None);
        }
        self.next += 1;
        let value = self.peek().unwrap_or_default();
        let test = match kind {
            "host" => {
                let address: IpAddr = value.parse().map_err(|_| self.wrong(ADDRESS))?;
                net(side, address.into())
            }
            "net" => {
                let alone = || value.parse::<IpAddr>().map(IpNet::from).ok();
                let prefix = value.parse().ok().or_else(alone);
                net(side, prefix.ok_or_else(|| self.wrong(PREFIX))?)
            }
            _ => {
                let (from, to) = value.split_once('-').unwrap_or((value, value));
                let (Ok(from), Ok(to)) = (from.parse(), to.parse()) else {
                    return Err(self.wrong(PORT));
                };
                if from > to {
                    return Err(self.wrong("of a range of ports, the smaller one first"));
                }
                Test::Port { side, from, to }
            }
        };
        self.next += 1;
        Ok(Some(test))
    }

    fn plain(&mut self, word: &str) -> Result<Test, FilterError> {
        let test = match word {
            "all" => Test::All,
            "ip" => Test::Version(4),
            "ip6" => Test::Version(6),
            "tcp" => Test::Protocol(6),
            "udp" => Test::Protocol(17),
            "esp" => Test::Protocol(50),
            "icmp" => Test::ProtocolOf(4, 1),
            "icmp6" => Test::ProtocolOf(6, 58),
            "proto" | "vlan" | "interface" => {
                self.next += 1;
                let value = self.peek().unwrap_or_default();
                match word {
                    "proto" => Test::Protocol(value.parse().map_err(|_| {
                        self.wrong("the number of a protocol, 0 to 255, is allowed here")
                    })?),
                    "vlan" => {
                        let number = value.parse().ok().filter(|number| *number < 4096);
                        Test::Vlan(number.ok_or_else(|| {
                            self.wrong("the number of a VLAN, 0 to 4095, is allowed here")
                        })?)
                    }
                    _ => Test::Interface((self.port)(value).ok_or_else(|| {
                        self.wrong(format!(
                            "`{value}`: no such port: `wattline show ports` lists their names"
                        ))
                    })?),
                }
            }
            _ => return Err(self.wrong(TESTS)),
        };
        self.next += 1;
        Ok(test)
    }

    fn put(&mut self, operation: Operation) -> Result<(), FilterError> {
        if self.operations.len() == OPERATIONS_MAX {
            let most = OPERATIONS_MAX;
            return Err(self.wrong(format!("too long: at most {most} tests and operators")));
        }
        self.operations.push(operation);
        Ok(())
    }

    fn peek(&self) -> Option<&'a str> {
        self.words.get(self.next).map(|(_, word)| *word)
    }

    fn takes(&mut self, words: &[&str]) -> bool {
        let takes = self.peek().is_some_and(|word| words.contains(&word));
        self.next += usize::from(takes);
        takes
    }

    /// Returns an error at the present word.
    fn wrong(&self, message: impl Into<String>) -> FilterError {
        let place = match self.words.get(self.next) {
            Some((at, _)) => format!("character {}", self.text[..*at].chars().count() + 1),
            None => "at the end".to_owned(),
        };
        FilterError { place, message: message.into() }
    }
}

fn net(side: Side, net: IpNet) -> Test {
    let (version, network, mask) = match net.trunc() {
        IpNet::V4(net) => (4, u32::from(net.network()).into(), u32::from(net.netmask()).into()),
        IpNet::V6(net) => (6, net.network().into(), net.netmask().into()),
    };
    Test::Net { side, version, network, mask }
}
