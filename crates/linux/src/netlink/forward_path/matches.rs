//! Rules of nftables: which packets they can do something with (include/uapi/linux/netfilter/nf_tables.h).
//!
//! Only what a rule compares for equality, before it does anything, narrows it. A chain of which one rule is not
//! understood, or depends on connections, concerns all packets: a connection of which the kernel sees
//! one direction alone is none.

use super::super::frame::{attribute, attributes};
use super::super::value::{number, number_of_wire, text};
use super::dump::dump;
use ipnet::IpNet;
use netlink_sys::protocols::NETLINK_NETFILTER;
use std::collections::{BTreeSet, HashMap};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};

/// NFNL_SUBSYS_NFTABLES and NFT_MSG_GETRULE.
const GET_RULE: u16 = 10 << 8 | 7;
/// Length of `struct nfgenmsg`.
const HEADER: usize = 4;

/// NFPROTO_IPV4 and NFPROTO_IPV6 (include/uapi/linux/netfilter.h).
pub(super) const IPV4: u8 = 2;
pub(super) const IPV6: u8 = 10;

// Keys of `meta`.
const META_PROTOCOL: u32 = 1;
const META_IIF: u32 = 4;
const META_OIF: u32 = 5;
const META_IIFNAME: u32 = 6;
const META_OIFNAME: u32 = 7;
const META_NFPROTO: u32 = 15;
/// Base of `payload`: the network header.
const NETWORK_HEADER: u32 = 1;
/// The option of TCP with the maximum segment size.
const OPTION_MSS: u8 = 2;
/// Operator of `cmp`.
const EQUAL: u32 = 0;

/// An interface as a rule names it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum InterfaceMatch {
    /// By its number.
    Index(u32),
    /// By its name.
    Name(String),
}

/// Packets that a rule can do something with: those that meet all of these.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Concern {
    /// They come in here.
    pub input: Option<InterfaceMatch>,
    /// They leave here.
    pub output: Option<InterfaceMatch>,
    /// They have a source within it.
    pub source: Option<IpNet>,
    /// They have a destination within it.
    pub destination: Option<IpNet>,
}

/// A chain by family of its table, table and name.
pub(super) type ChainName = (u8, String, String);

/// Rules by their chains.
pub(super) struct Rules(HashMap<ChainName, Vec<Rule>>);

/// One rule.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Rule {
    concern: Concern,
    /// It has done nothing, as far as it was read, but to let packets pass.
    is_harmless: bool,
    /// Each of its expressions is understood, and none depends on other packets.
    is_understood: bool,
    /// It changes the segment size of TCP connections.
    sets_mss: bool,
    jumps: Vec<String>,
}

impl Rules {
    /// All of them.
    ///
    /// # Errors
    /// Only from the kernel.
    pub fn read() -> io::Result<Self> {
        let mut rules: HashMap<ChainName, Vec<Rule>> = HashMap::new();
        dump(NETLINK_NETFILTER, GET_RULE, &[0; HEADER], |answer| {
            if let Some((chain, rule)) = read_one(answer) {
                rules.entry(chain).or_default().push(rule);
            }
        })?;
        Ok(Self(rules))
    }

    /// Packets that a chain of so many rules can do something with; `None`: any.
    pub fn concerns(&self, chain: &ChainName, count: u32) -> Option<Vec<Concern>> {
        let rules = self.0.get(chain)?;
        // One was added or removed while they were read.
        if rules.len() != count as usize || !self.is_understood(chain) {
            return None;
        }
        let mut concerns: Vec<Concern> =
            rules.iter().filter(|it| !it.is_harmless).map(|it| it.concern.clone()).collect();
        concerns.sort();
        concerns.dedup();
        Some(concerns)
    }

    /// Whether a rule of a chain changes the segment size of TCP connections.
    pub fn set_mss(&self, chain: &ChainName) -> bool {
        self.0.get(chain).is_some_and(|rules| rules.iter().any(|rule| rule.sets_mss))
    }

    /// Whether a chain, and those to which it leads, have no rule that is not understood.
    fn is_understood(&self, chain: &ChainName) -> bool {
        let (family, table, name) = chain;
        let (mut seen, mut left) = (BTreeSet::from([name.as_str()]), vec![name.as_str()]);
        while let Some(name) = left.pop() {
            // A chain without rules is not among them.
            let of = (*family, table.clone(), name.to_owned());
            for rule in self.0.get(&of).into_iter().flatten() {
                if !rule.is_understood {
                    return false;
                }
                left.extend(rule.jumps.iter().map(String::as_str).filter(|to| seen.insert(to)));
            }
        }
        true
    }
}

fn read_one(body: &[u8]) -> Option<(ChainName, Rule)> {
    let family = *body.first()?;
    let (mut table, mut chain, mut expressions) = (String::new(), String::new(), &[][..]);
    for (kind, content) in attributes(body.get(HEADER..)?) {
        match kind {
            1 => table = text(content),
            2 => chain = text(content),
            4 => expressions = content,
            _ => {}
        }
    }
    let mut reader = Reader::new(family);
    for (_, expression) in attributes(expressions) {
        let name = text(attribute(expression, 1)?);
        reader.take(&name, attribute(expression, 2).unwrap_or_default());
    }
    Some(((family, table, chain), reader.rule))
}

/// A field of a packet in a register.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Field {
    Meta(u32),
    /// Bytes of the network header, and those bits that count.
    Network {
        offset: u32,
        mask: Vec<u8>,
    },
}

/// Reads the expressions of one rule in their order.
struct Reader {
    rule: Rule,
    /// IPv6, where it is known.
    is_ipv6: Option<bool>,
    /// By the register's first place of four bytes.
    registers: HashMap<u32, Field>,
}

impl Reader {
    fn new(family: u8) -> Self {
        let is_ipv6 = match family {
            IPV4 => Some(false),
            IPV6 => Some(true),
            _ => None,
        };
        let rule = Rule { is_harmless: true, is_understood: true, ..Rule::default() };
        Self { rule, is_ipv6, registers: HashMap::new() }
    }

    fn take(&mut self, name: &str, data: &[u8]) {
        let of = |kind: u16| attribute(data, kind).and_then(number_of_wire);
        match name {
            "meta" => match (of(1), of(2)) {
                (Some(register), Some(key)) => self.load(register, Some(Field::Meta(key))),
                // It sets a mark or the like.
                _ => self.rule.is_harmless = false,
            },
            "payload" => match (of(1), of(2), of(3), of(4)) {
                (Some(register), Some(base), Some(offset), Some(length)) => {
                    let whole = || vec![u8::MAX; (length as usize).min(size_of::<Ipv6Addr>())];
                    let field =
                        (base == NETWORK_HEADER).then(|| Field::Network { offset, mask: whole() });
                    self.load(register, field);
                }
                _ => self.rule.is_harmless = false,
            },
            "bitwise" => self.mask(data),
            "cmp" => {
                let equal = of(2) == Some(EQUAL);
                let value = attribute(data, 3).and_then(|value| attribute(value, 1));
                let field =
                    of(1).and_then(|register| self.registers.get(&place(register)).cloned());
                if let (true, Some(value), Some(field)) = (equal, value, field) {
                    self.narrow(&field, value);
                }
            }
            "byteorder" | "exthdr" | "fib" | "rt" => {
                match of(if name == "byteorder" { 2 } else { 1 }) {
                    Some(register) => self.load(register, None),
                    None => {
                        self.rule.is_harmless = false;
                        // NFT_EXTHDR_OP_TCPOPT.
                        self.rule.sets_mss |=
                            of(6) == Some(1) && attribute(data, 2) == Some(&[OPTION_MSS]);
                    }
                }
            }
            // A map may lead to any chain.
            "lookup" if of(3) == Some(0) => self.rule.is_understood = false,
            "lookup" => {
                // Elements of a set may count, or limit.
                self.rule.is_harmless = false;
                of(3).into_iter().for_each(|register| self.load(register, None));
            }
            "range" => {}
            "counter" | "log" | "limit" | "quota" | "reject" => self.rule.is_harmless = false,
            "immediate" => self.immediate(data),
            _ => {
                self.rule.is_understood = false;
                let target = || attribute(data, 1).map(text);
                self.rule.sets_mss |= name == "target" && target().as_deref() == Some("TCPMSS");
            }
        }
    }

    /// A register has other content, and what it overlaps has none that is known.
    fn load(&mut self, register: u32, field: Option<Field>) {
        let at = place(register);
        self.registers.retain(|other, _| other.abs_diff(at) >= 4);
        self.registers.extend(field.map(|field| (at, field)));
    }

    fn mask(&mut self, data: &[u8]) {
        let of = |kind: u16| attribute(data, kind).and_then(number_of_wire);
        let value = |kind: u16| attribute(data, kind).and_then(|value| attribute(value, 1));
        let (Some(from), Some(to)) = (of(1), of(2)) else {
            self.rule.is_understood = false;
            return;
        };
        let field = match (self.registers.get(&place(from)), value(4), value(5)) {
            (Some(Field::Network { offset, mask }), Some(bits), Some(flipped))
                if of(6).unwrap_or(0) == 0
                    && bits.len() == mask.len()
                    && flipped.iter().all(|byte| *byte == 0) =>
            {
                let mask = mask.iter().zip(bits).map(|(one, other)| one & other).collect();
                Some(Field::Network { offset: *offset, mask })
            }
            _ => None,
        };
        self.load(to, field);
    }

    fn immediate(&mut self, data: &[u8]) {
        let verdict = attribute(data, 2).and_then(|value| attribute(value, 2));
        let Some(verdict) = verdict else {
            match attribute(data, 1).and_then(number_of_wire) {
                Some(register) => self.load(register, None),
                None => self.rule.is_understood = false,
            }
            return;
        };
        let code = attribute(verdict, 1).and_then(number_of_wire).map(u32::cast_signed);
        match code {
            // NF_ACCEPT, NFT_CONTINUE, NFT_BREAK, NFT_RETURN.
            Some(1 | -1 | -2 | -5) => {}
            // NF_DROP.
            Some(0) => self.rule.is_harmless = false,
            // NFT_JUMP, NFT_GOTO.
            Some(-3 | -4) => {
                self.rule.is_harmless = false;
                match attribute(verdict, 2) {
                    Some(chain) => self.rule.jumps.push(text(chain)),
                    None => self.rule.is_understood = false,
                }
            }
            _ => self.rule.is_understood = false,
        }
    }

    /// The rule goes on only with packets whose field has this value. What it has done before, it did
    /// to others, too.
    fn narrow(&mut self, field: &Field, value: &[u8]) {
        if !self.rule.is_harmless {
            return;
        }
        let concern = &mut self.rule.concern;
        match field {
            Field::Meta(META_IIF) => concern.input = number(value).map(InterfaceMatch::Index),
            Field::Meta(META_OIF) => concern.output = number(value).map(InterfaceMatch::Index),
            Field::Meta(META_IIFNAME) => concern.input = name(value),
            Field::Meta(META_OIFNAME) => concern.output = name(value),
            Field::Meta(META_NFPROTO) => {
                self.is_ipv6 = match value {
                    [IPV4] => Some(false),
                    [IPV6] => Some(true),
                    _ => None,
                };
            }
            Field::Meta(META_PROTOCOL) => {
                self.is_ipv6 = match value {
                    [0x08, 0x00] => Some(false),
                    [0x86, 0xdd] => Some(true),
                    _ => None,
                };
            }
            Field::Meta(_) => {}
            Field::Network { offset, mask } => match (self.is_ipv6, offset) {
                (Some(false), 12) | (Some(true), 8) => {
                    concern.source = self.is_ipv6.and_then(|is_ipv6| prefix(is_ipv6, mask, value));
                }
                (Some(false), 16) | (Some(true), 24) => {
                    concern.destination =
                        self.is_ipv6.and_then(|is_ipv6| prefix(is_ipv6, mask, value));
                }
                _ => {}
            },
        }
    }
}

/// The first of the four-byte places of a register: NFT_REG_1 to NFT_REG_4 have four of them each,
/// NFT_REG32_00 and those behind it are one.
fn place(register: u32) -> u32 {
    match register {
        0..8 => register.saturating_sub(1) * 4,
        _ => register - 8,
    }
}

/// The name of one interface; none where others can begin alike.
fn name(value: &[u8]) -> Option<InterfaceMatch> {
    value.contains(&0).then(|| InterfaceMatch::Name(text(value)))
}

/// The prefix of addresses that begin so.
fn prefix(is_ipv6: bool, mask: &[u8], value: &[u8]) -> Option<IpNet> {
    let length = mask.iter().map(|byte| byte.leading_ones()).sum::<u32>();
    let whole = (0..mask.len()).map(|place| {
        let ones = length.saturating_sub(place as u32 * 8).min(8);
        !(u32::from(u8::MAX) >> ones) as u8
    });
    // Ones in front, and zeros behind.
    if value.len() != mask.len() || !whole.eq(mask.iter().copied()) {
        return None;
    }
    let length = u8::try_from(length).ok()?;
    if is_ipv6 {
        let mut bytes = [0; 16];
        bytes.get_mut(..value.len())?.copy_from_slice(value);
        Some(ipnet::Ipv6Net::new(Ipv6Addr::from(bytes), length).ok()?.trunc().into())
    } else {
        let mut bytes = [0; 4];
        bytes.get_mut(..value.len())?.copy_from_slice(value);
        Some(ipnet::Ipv4Net::new(Ipv4Addr::from(bytes), length).ok()?.trunc().into())
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::frame::attribute_bytes as attribute;
    use super::*;
    use proptest::prelude::*;

    /// Expressions of names that are understood, with any attributes.
    fn expression() -> impl Strategy<Value = Vec<u8>> {
        let names = [
            "meta",
            "payload",
            "bitwise",
            "cmp",
            "byteorder",
            "exthdr",
            "fib",
            "lookup",
            "immediate",
            "counter",
            "ct",
        ];
        let content = prop::collection::vec(any::<u8>(), 0..24);
        let inner = prop::collection::vec((0..4_u16, content), 0..3).prop_map(of_attributes);
        let number = any::<u32>().prop_map(|number| number.to_be_bytes().to_vec());
        let small = (0..32_u32).prop_map(|number| number.to_be_bytes().to_vec());
        let value = prop_oneof![number, small, inner];
        let data = prop::collection::vec((0..8_u16, value), 0..7).prop_map(of_attributes);
        (prop::sample::select(names.to_vec()), data).prop_map(|(name, data)| {
            attribute(1, &[attribute(1, name.as_bytes()), attribute(2, &data)].concat())
        })
    }

    fn of_attributes(all: Vec<(u16, Vec<u8>)>) -> Vec<u8> {
        all.iter().flat_map(|(kind, content)| attribute(*kind, content)).collect()
    }

    proptest! {
        #[test]
        fn any_rule_is_read(
            family in prop::sample::select(vec![IPV4, IPV6, 1, 5]),
            expressions in prop::collection::vec(expression(), 0..8),
        ) {
            let parts = [attribute(1, b"t"), attribute(2, b"c"), attribute(4, &expressions.concat())];
            let (chain, rule) = read_one(&[&[family, 0, 0, 0][..], &parts.concat()].concat()).unwrap();
            let rules = Rules(HashMap::from([(chain.clone(), vec![rule.clone(), rule])]));
            prop_assert!(rules.concerns(&chain, 1).is_none(), "another number of rules");
            let concerns = rules.concerns(&chain, 2);
            prop_assert!(concerns.is_none_or(|concerns| concerns.len() <= 1));
        }

        #[test]
        fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..256)) {
            let _ = read_one(&bytes);
        }
    }
}
