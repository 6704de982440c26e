//! The rules of one port, compiled so that the first match is found without comparing all rules.
//!
//! A packet's addresses, protocol and ports each select a row of bits ([`super::intervals`]) by a
//! binary search or a table. The rows are intersected word by word, and the search ends at the first
//! word with a bit: a list of 64 rules takes five loads. Memory is at most twice the number of rules
//! times an eighth of that number in bytes per field; rows that are equal are stored once.

use super::intervals::{Intervals, Rows, Value};
use super::rule::{Action, Rule};
use super::subject::{Ends, Ports, Protocol, Subject};
use ipnet::IpNet;
use std::ops::RangeInclusive;
use wattline_packet::protocol;

/// Most rules of an access list.
pub const MOST_RULES: usize = 4096;

/// The rules that hold for a port, compiled.
#[derive(Debug)]
pub struct Compiled {
    rows: Rows,
    sources4: Intervals<u32>,
    destinations4: Intervals<u32>,
    sources6: Intervals<u128>,
    destinations6: Intervals<u128>,
    protocols: Box<[u32; 256]>,
    /// For each rule, whether it names protocols, and whether it names ports.
    names: Box<[(bool, bool)]>,
    source_ports: Intervals<u16>,
    destination_ports: Intervals<u16>,
    /// Row for packets without visible ports.
    all: u32,
    later: u32,
    words: usize,
}

/// Outcome of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Match {
    /// Position of the first rule that matches.
    Rule(usize),
    /// Position of the first rule that may match: it tests a field that the packet does not show.
    Unreadable(usize),
    /// No rule matches.
    None,
}

impl Compiled {
    /// Compiles rules in the order in which they are compared. The positions that
    /// [`Self::first_match`] returns are positions in this list.
    pub fn new(rules: &[&Rule]) -> Self {
        let mut rows = Rows::new(rules.len());
        let prefixes = |of: fn(&Rule) -> &[IpNet]| (ranges(rules, of, v4), ranges(rules, of, v6));
        let (sources4, sources6) = prefixes(|rule| &rule.sources);
        let (destinations4, destinations6) = prefixes(|rule| &rule.destinations);
        let port = |range: &RangeInclusive<u16>| Some((*range.start(), *range.end()));
        let source_ports = ranges(rules, |rule| &rule.source_ports, port);
        let destination_ports = ranges(rules, |rule| &rule.destination_ports, port);
        let count = rules.len();
        let mut protocols = Box::new([0; 256]);
        for (number, row) in (0..=u8::MAX).zip(protocols.iter_mut()) {
            *row = rows.add_of(count, |rule| {
                let named = &rules[rule].protocols;
                named.is_empty() || named.contains(&number)
            });
        }
        let permits_later =
            |rule: usize| !rules[rule].has_ports() || rules[rule].action == Action::Permit;
        let mut compiled = Self {
            sources4: Intervals::new(&sources4, &mut rows),
            destinations4: Intervals::new(&destinations4, &mut rows),
            sources6: Intervals::new(&sources6, &mut rows),
            destinations6: Intervals::new(&destinations6, &mut rows),
            protocols,
            names: rules.iter().map(|it| (!it.protocols.is_empty(), it.has_ports())).collect(),
            source_ports: Intervals::new(&source_ports, &mut rows),
            destination_ports: Intervals::new(&destination_ports, &mut rows),
            all: rows.add_of(count, |_| true),
            later: rows.add_of(count, permits_later),
            words: count.div_ceil(64),
            rows,
        };
        compiled.rows.finish();
        compiled
    }

    /// Returns the first rule that matches. Hidden fields of a packet may match any rule.
    #[inline]
    pub fn first_match(&self, subject: &Subject) -> Match {
        let (source, destination) = match subject.ends {
            Ends::V4(source, destination) => {
                (self.sources4.row(source.into()), self.destinations4.row(destination.into()))
            }
            Ends::V6(source, destination) => {
                (self.sources6.row(source.into()), self.destinations6.row(destination.into()))
            }
        };
        let (from, to) = match subject.ports {
            Ports::Known(from, to) => (self.source_ports.row(from), self.destination_ports.row(to)),
            Ports::None | Ports::Hidden => (self.all, self.all),
            Ports::Later => (self.later, self.later),
        };
        let number = match subject.protocol {
            Protocol::Known(number) => self.protocols[usize::from(number)],
            Protocol::Open(_) | Protocol::Hidden => self.all,
        };
        let also = match subject.authenticated {
            true => self.protocols[usize::from(protocol::AUTHENTICATION)],
            false => number,
        };
        let [a, b, c, d, e] =
            [source, destination, number, from, to].map(|number| self.rows.row(number));
        let also = self.rows.row(also);
        let found = (0..self.words).find_map(|word| {
            let of = |row: &[u64]| row.get(word).copied().unwrap_or(0);
            let bits = of(a) & of(b) & (of(c) | of(also)) & of(d) & of(e);
            (bits != 0).then(|| word * 64 + bits.trailing_zeros() as usize)
        });
        match found {
            None => Match::None,
            Some(rule) if self.is_certain(rule, subject) => Match::Rule(rule),
            Some(rule) => Match::Unreadable(rule),
        }
    }

    /// Returns true if a rule that may match certainly matches.
    #[inline]
    fn is_certain(&self, rule: usize, subject: &Subject) -> bool {
        if subject.ports != Ports::Hidden {
            return true;
        }
        let Some((names_protocols, names_ports)) = self.names.get(rule) else { return false };
        let is_named = |number: u8| {
            let row = self.rows.row(self.protocols[usize::from(number)]);
            row.get(rule / 64).is_some_and(|word| word >> (rule % 64) & 1 != 0)
        };
        let is_of_protocol = !names_protocols
            || (subject.authenticated && is_named(protocol::AUTHENTICATION))
            || match subject.protocol {
                Protocol::Known(_) => true,
                Protocol::Open(number) => is_named(number),
                Protocol::Hidden => false,
            };
        is_of_protocol && !names_ports
    }
}

/// Returns the ranges of a field of each rule; all values if the field is empty.
fn ranges<F, T: Value + Greatest>(
    rules: &[&Rule],
    field: impl Fn(&Rule) -> &[F],
    range: impl Fn(&F) -> Option<(T, T)>,
) -> Vec<Vec<(T, T)>> {
    let of = |rule: &&Rule| match field(rule) {
        [] => vec![(T::LEAST, T::GREATEST)],
        listed => listed.iter().filter_map(&range).collect(),
    };
    rules.iter().map(of).collect()
}

trait Greatest {
    const GREATEST: Self;
}
impl Greatest for u16 {
    const GREATEST: Self = Self::MAX;
}
impl Greatest for u32 {
    const GREATEST: Self = Self::MAX;
}
impl Greatest for u128 {
    const GREATEST: Self = Self::MAX;
}

fn v4(net: &IpNet) -> Option<(u32, u32)> {
    let IpNet::V4(net) = net else { return None };
    Some((net.network().into(), net.broadcast().into()))
}

fn v6(net: &IpNet) -> Option<(u128, u128)> {
    let IpNet::V6(net) = net else { return None };
    Some((net.network().into(), net.broadcast().into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use proptest::sample::select;
    use std::net::IpAddr;

    /// Compares the rules one after the other, as a reference for the compiled form.
    fn linear(rules: &[&Rule], subject: &Subject) -> Match {
        let (source, destination): (IpAddr, IpAddr) = match subject.ends {
            Ends::V4(source, destination) => (source.into(), destination.into()),
            Ends::V6(source, destination) => (source.into(), destination.into()),
        };
        let within = |nets: &[IpNet], address: IpAddr| {
            nets.is_empty() || nets.iter().any(|net| net.contains(&address))
        };
        let among = |ranges: &[RangeInclusive<u16>], port: u16| {
            ranges.is_empty() || ranges.iter().any(|range| range.contains(&port))
        };
        for (place, rule) in rules.iter().enumerate() {
            if !within(&rule.sources, source) || !within(&rule.destinations, destination) {
                continue;
            }
            let names = |number| rule.protocols.is_empty() || rule.protocols.contains(&number);
            let also = subject.authenticated && names(51);
            // `None`: unknown whether the rule matches.
            let protocol = match subject.protocol {
                Protocol::Known(number) => Some(names(number) || also),
                Protocol::Open(number) if names(number) => Some(true),
                Protocol::Open(_) | Protocol::Hidden => {
                    if rule.protocols.is_empty() || also {
                        Some(true)
                    } else {
                        None
                    }
                }
            };
            let ports = match subject.ports {
                Ports::Known(from, to) => {
                    Some(among(&rule.source_ports, from) && among(&rule.destination_ports, to))
                }
                Ports::None => Some(true),
                Ports::Later => Some(!rule.has_ports() || rule.action == Action::Permit),
                Ports::Hidden => (!rule.has_ports()).then_some(true),
            };
            match (protocol, ports) {
                (Some(false), _) | (_, Some(false)) => {}
                (Some(true), Some(true)) => return Match::Rule(place),
                _ => return Match::Unreadable(place),
            }
        }
        Match::None
    }

    /// Few bits vary, so that prefixes overlap and packets meet them.
    fn address() -> impl Strategy<Value = IpAddr> {
        let four = select(vec![0_u32, 1, 2, 0x0a00_0000, 0x0a00_0001, 0x0a80_0000, u32::MAX]);
        let six = select(vec![0_u128, 1, 0x2001_0db8 << 96, (0x2001_0db8 << 96) | 1, u128::MAX]);
        prop_oneof![
            four.prop_map(|it| IpAddr::V4(it.into())),
            six.prop_map(|it| IpAddr::V6(it.into()))
        ]
    }

    fn prefix() -> impl Strategy<Value = IpNet> {
        (address(), 0..=128_u8).prop_map(|(address, length)| {
            let most = if address.is_ipv4() { 32 } else { 128 };
            IpNet::new(address, length.min(most)).unwrap().trunc()
        })
    }

    fn port() -> impl Strategy<Value = u16> {
        select(vec![0_u16, 1, 22, 53, 80, 1023, 1024, 65_534, 65_535])
    }

    fn port_ranges() -> impl Strategy<Value = Vec<RangeInclusive<u16>>> {
        let range = (port(), port()).prop_map(|(a, b)| a.min(b)..=a.max(b));
        prop::collection::vec(range, 0..3)
    }

    fn rule() -> impl Strategy<Value = Rule> {
        let nets = || prop::collection::vec(prefix(), 0..3);
        let protocols = prop::collection::vec(select(vec![1_u8, 6, 17, 51, 253]), 0..3);
        (any::<bool>(), nets(), nets(), protocols, port_ranges(), port_ranges()).prop_map(
            |(permit, sources, destinations, protocols, source_ports, destination_ports)| Rule {
                name: String::new(),
                on: Vec::new(),
                action: if permit { Action::Permit } else { Action::Deny },
                sources,
                destinations,
                protocols,
                source_ports,
                destination_ports,
            },
        )
    }

    fn subject() -> impl Strategy<Value = Subject> {
        let ends = (address(), address()).prop_map(|ends| match ends {
            (IpAddr::V4(a), IpAddr::V4(b)) => Ends::V4(a, b),
            (IpAddr::V6(a), IpAddr::V6(b)) => Ends::V6(a, b),
            (IpAddr::V4(a), IpAddr::V6(_)) => Ends::V4(a, a),
            (IpAddr::V6(a), IpAddr::V4(_)) => Ends::V6(a, a),
        });
        let known = (port(), port()).prop_map(|(from, to)| Ports::Known(from, to));
        let of_known = prop_oneof![
            3 => known.boxed(),
            1 => select(vec![Ports::None, Ports::Later, Ports::Hidden]).boxed()
        ];
        let number = select(vec![1_u8, 6, 17, 50, 51]);
        let shown = prop_oneof![
            4 => (number.prop_map(Protocol::Known), of_known).boxed(),
            1 => (select(vec![253_u8, 200]).prop_map(Protocol::Open), Just(Ports::Hidden)).boxed(),
            1 => (Just(Protocol::Hidden), Just(Ports::Hidden)).boxed()
        ];
        (ends, shown, any::<bool>()).prop_map(|(ends, (protocol, ports), authenticated)| Subject {
            ends,
            protocol,
            authenticated,
            ports,
        })
    }

    proptest! {
        #[test]
        fn the_compiled_form_agrees_with_a_walk_over_the_rules(
            rules in prop::collection::vec(rule(), 1..150),
            subjects in prop::collection::vec(subject(), 1..200),
        ) {
            let rules: Vec<&Rule> = rules.iter().collect();
            let compiled = Compiled::new(&rules);
            for subject in subjects {
                prop_assert_eq!(compiled.first_match(&subject), linear(&rules, &subject));
            }
        }
    }

    /// The longest list that a configuration may have is compiled in time, and its last rule is found.
    #[test]
    fn the_longest_list_is_compiled() {
        let rule = |number: u32| Rule {
            name: String::new(),
            on: Vec::new(),
            action: Action::Deny,
            sources: vec![format!("10.{}.{}.0/24", number >> 8, number & 255).parse().unwrap()],
            destinations: Vec::new(),
            protocols: vec![17],
            source_ports: Vec::new(),
            destination_ports: vec![(number as u16)..=(number as u16 + 9)],
        };
        let rules: Vec<Rule> = (0..MOST_RULES as u32).map(rule).collect();
        let rules: Vec<&Rule> = rules.iter().collect();
        let compiled = Compiled::new(&rules);
        let last = MOST_RULES - 1;
        let of = |number: usize, port: u16| Subject {
            ends: Ends::V4(
                [10, (number >> 8) as u8, number as u8, 7].into(),
                [192, 0, 2, 1].into(),
            ),
            protocol: Protocol::Known(17),
            authenticated: false,
            ports: Ports::Known(5, port),
        };
        assert_eq!(compiled.first_match(&of(last, last as u16)), Match::Rule(last));
        assert_eq!(compiled.first_match(&of(last, last as u16 + 10)), Match::None);
        assert_eq!(compiled.first_match(&of(0, 3)), Match::Rule(0));
    }
}
