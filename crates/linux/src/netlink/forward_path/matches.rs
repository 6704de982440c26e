//! Packets that rules of nftables can affect (include/uapi/linux/netfilter/nf_tables.h).
//!
//! Comparisons with values, ranges and sets narrow a rule if it has done nothing before. If one
//! rule of a chain is not understood, or depends on connections, the chain concerns all packets:
//! the kernel does not recognise a connection of which it sees only one direction.

use super::super::frame::{attribute, attributes};
use super::super::value::{number, number_of_wire, text};
use super::dump::RulesetDumps;
use super::sets::{Element, Sets, Verdict, key};
use ipnet::{IpNet, Ipv4Subnets, Ipv6Subnets};
use std::collections::{BTreeMap, BTreeSet, HashMap};
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
/// TCP option with the maximum segment size.
const OPTION_MSS: u8 = 2;
// Operators of `cmp`.
const EQUAL: u32 = 0;
const LESS_OR_EQUAL: u32 = 3;
const GREATER_OR_EQUAL: u32 = 5;

/// Interface in a rule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum InterfaceMatch {
    /// By index.
    Index(u32),
    /// By name.
    Name(String),
    /// By a prefix of the name.
    Beginning(String),
}

impl InterfaceMatch {
    /// Returns true for an interface of this number and name.
    pub fn contains(&self, index: u32, name: &str) -> bool {
        match self {
            Self::Index(it) => *it == index,
            Self::Name(it) => it == name,
            Self::Beginning(it) => name.starts_with(it),
        }
    }
}

/// Packets that a rule matches: they meet all of these conditions. `None` is no condition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Concern {
    /// Ingress interfaces.
    pub input: Option<Vec<InterfaceMatch>>,
    /// Egress interfaces.
    pub output: Option<Vec<InterfaceMatch>>,
    /// Prefixes of the sources.
    pub source: Option<Vec<IpNet>>,
    /// Prefixes of the destinations.
    pub destination: Option<Vec<IpNet>>,
}

impl Concern {
    /// Returns true if no packet meets it, as after a comparison with an empty set.
    fn is_empty(&self) -> bool {
        let is_empty = |of: &Option<Vec<IpNet>>| of.as_ref().is_some_and(Vec::is_empty);
        let no_link = |of: &Option<Vec<InterfaceMatch>>| of.as_ref().is_some_and(Vec::is_empty);
        is_empty(&self.source)
            || is_empty(&self.destination)
            || no_link(&self.input)
            || no_link(&self.output)
    }

    /// Adds a condition on a field; returns false, and changes nothing, if there is one already.
    fn meet_interfaces(&mut self, key: u32, interfaces: Vec<InterfaceMatch>) -> bool {
        match key {
            META_IIF | META_IIFNAME => put(&mut self.input, interfaces),
            META_OIF | META_OIFNAME => put(&mut self.output, interfaces),
            _ => false,
        }
    }

    fn meet_prefixes(&mut self, is_ipv6: bool, offset: u32, prefixes: Vec<IpNet>) -> bool {
        match (is_ipv6, offset) {
            (false, 12) | (true, 8) => put(&mut self.source, prefixes),
            (false, 16) | (true, 24) => put(&mut self.destination, prefixes),
            _ => false,
        }
    }
}

fn put<T>(field: &mut Option<T>, value: T) -> bool {
    let is_free = field.is_none();
    field.get_or_insert(value);
    is_free
}

/// An action of a rule other than to let packets pass, and the affected packets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effect {
    /// Affected packets.
    pub concern: Concern,
    /// The rule and the part of it with the effect, for users.
    pub rule: String,
}

/// A chain: family of its table, table and name.
pub(super) type ChainName = (u8, String, String);

/// Rules by their chains.
pub(super) struct Rules(HashMap<ChainName, Vec<Rule>>);

/// One rule.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Rule {
    handle: u64,
    /// Packets that it affects, and the name of the effect.
    effects: Vec<(Concern, String)>,
    /// Packets that it accepts for sure.
    accepted: Vec<Concern>,
    /// True if it can leave the decision to the policy of the chain.
    returns: bool,
    /// An expression that is not understood, or depends on other packets.
    unknown: Option<String>,
    /// True if it changes the segment size of TCP connections.
    sets_mss: bool,
    jumps: Vec<String>,
}

impl Rules {
    /// Reads all rules.
    ///
    /// # Errors
    /// Only from the kernel.
    pub fn read(dumps: &mut RulesetDumps) -> io::Result<Self> {
        let mut sets = Sets::read(dumps).unwrap_or_default();
        let mut bodies = Vec::new();
        dumps.dump(GET_RULE, 0, &[], |answer| {
            bodies.push(answer.to_vec());
            true
        })?;
        for body in &bodies {
            let Some(((family, table, _), _, expressions)) = parts(body) else { continue };
            for (_, expression) in attributes(expressions) {
                let name = attribute(expression, 1).map(text).unwrap_or_default();
                if name == "dynset" {
                    let set = attribute(expression, 2).and_then(|data| attribute(data, 1));
                    sets.forget(&(family, table.clone(), set.map(text).unwrap_or_default()));
                }
            }
        }
        let mut rules: HashMap<ChainName, Vec<Rule>> = HashMap::new();
        for (chain, rule) in bodies.iter().filter_map(|body| read_one(body, &sets)) {
            rules.entry(chain).or_default().push(rule);
        }
        Ok(Self(rules))
    }

    /// Returns the effects of a chain with `count` rules.
    ///
    /// # Errors
    /// Returns the rules that are not understood, if any, for users.
    pub fn effects(&self, chain: &ChainName, count: u32) -> Result<Vec<Effect>, Vec<String>> {
        let rules = self.rules_of(chain);
        let unknown = self.not_understood(chain);
        // A rule was added or removed while they were read.
        if rules.len() != count as usize || !unknown.is_empty() {
            return Err(unknown);
        }
        let effects = rules.iter().flat_map(|rule| {
            rule.effects.iter().map(|(concern, what)| Effect {
                concern: concern.clone(),
                rule: format!("handle {} (`{what}`)", rule.handle),
            })
        });
        Ok(effects.collect())
    }

    /// Returns the packets that a chain accepts for sure, unless an effect of it concerns them.
    pub fn accepted(&self, chain: &ChainName) -> Vec<Concern> {
        let rules = self.rules_of(chain);
        if rules.iter().any(|rule| rule.returns) {
            return Vec::new();
        }
        rules.iter().flat_map(|rule| &rule.accepted).cloned().collect()
    }

    /// Returns true if a rule of a chain changes the segment size of TCP connections.
    pub fn set_mss(&self, chain: &ChainName) -> bool {
        self.rules_of(chain).iter().any(|rule| rule.sets_mss)
    }

    /// Returns the rules of a chain; empty for a chain without rules.
    fn rules_of(&self, chain: &ChainName) -> &[Rule] {
        self.0.get(chain).map_or(&[], Vec::as_slice)
    }

    /// Lists the rules that are not understood, of a chain and of the chains to which it leads.
    fn not_understood(&self, (family, table, chain): &ChainName) -> Vec<String> {
        let (mut seen, mut left) = (BTreeSet::from([chain.as_str()]), vec![chain.as_str()]);
        let mut unknown = Vec::new();
        while let Some(name) = left.pop() {
            for rule in self.rules_of(&(*family, table.clone(), name.to_owned())) {
                let place = if name == chain { String::new() } else { format!(" of chain {name}") };
                let text = |what| format!("handle {}{place} (`{what}`)", rule.handle);
                unknown.extend(rule.unknown.as_ref().map(text));
                left.extend(rule.jumps.iter().map(String::as_str).filter(|to| seen.insert(to)));
            }
        }
        unknown
    }
}

/// Returns the chain, handle and expressions of a rule.
fn parts(body: &[u8]) -> Option<(ChainName, u64, &[u8])> {
    let (mut table, mut chain, mut expressions) = (String::new(), String::new(), &[][..]);
    let mut handle = 0;
    for (kind, content) in attributes(body.get(HEADER..)?) {
        match kind {
            1 => table = text(content),
            2 => chain = text(content),
            3 => handle = content.first_chunk().copied().map_or(0, u64::from_be_bytes),
            4 => expressions = content,
            _ => {}
        }
    }
    Some(((*body.first()?, table, chain), handle, expressions))
}

fn read_one(body: &[u8], sets: &Sets) -> Option<(ChainName, Rule)> {
    let (chain, handle, expressions) = parts(body)?;
    let mut reader = Reader::new(&chain, sets);
    for (_, expression) in attributes(expressions) {
        let name = text(attribute(expression, 1)?);
        reader.take(&name, attribute(expression, 2).unwrap_or_default());
    }
    let rule = Rule { handle, ..reader.rule };
    Some((chain, rule))
}

/// A field of a packet in a register.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Field {
    Meta(u32),
    /// Bytes of the network header, and the mask of compared bits.
    Network {
        offset: u32,
        mask: Vec<u8>,
    },
}

/// Parser of the expressions of one rule, in order.
struct Reader<'a> {
    sets: &'a Sets,
    /// Family and name of the table.
    table: (u8, &'a str),
    rule: Rule,
    /// Packets with which the rule continues.
    concern: Concern,
    /// True if it continues with all of them.
    is_exact: bool,
    /// True if it has affected them, and also packets that it excludes later.
    has_acted: bool,
    /// True for IPv6, false for IPv4, if known.
    is_ipv6: Option<bool>,
    /// By the first four-byte place of the register.
    registers: HashMap<u32, Field>,
    /// A field, its lower bound by the previous expression, and the value of `is_exact` before
    /// that.
    lower: Option<(Field, u128, bool)>,
}

impl<'a> Reader<'a> {
    fn new((family, table, _): &'a ChainName, sets: &'a Sets) -> Self {
        let is_ipv6 = match *family {
            IPV4 => Some(false),
            IPV6 => Some(true),
            _ => None,
        };
        Self {
            sets,
            table: (*family, table),
            rule: Rule::default(),
            concern: Concern::default(),
            is_exact: true,
            has_acted: false,
            is_ipv6,
            registers: HashMap::new(),
            lower: None,
        }
    }

    fn take(&mut self, name: &str, data: &[u8]) {
        let of = |kind: u16| attribute(data, kind).and_then(number_of_wire);
        let value = |kind: u16| attribute(data, kind).and_then(|value| attribute(value, 1));
        let field = || of(1).and_then(|register| self.registers.get(&place(register)).cloned());
        let lower = self.lower.take();
        match name {
            "meta" => match (of(1), of(2)) {
                (Some(register), Some(key)) => self.load(register, Some(Field::Meta(key))),
                // Expressions that set a mark or the like.
                _ => self.act(name),
            },
            "payload" => match (of(1), of(2), of(3), of(4)) {
                (Some(register), Some(base), Some(offset), Some(length)) => {
                    let whole = || vec![u8::MAX; (length as usize).min(2 * size_of::<Ipv6Addr>())];
                    let field =
                        (base == NETWORK_HEADER).then(|| Field::Network { offset, mask: whole() });
                    self.load(register, field);
                }
                _ => self.act(name),
            },
            "bitwise" => self.mask(data),
            "cmp" => {
                let operands = field().zip(value(3));
                let is_exact = match of(2) {
                    Some(EQUAL) => {
                        operands.is_some_and(|(field, value)| self.narrow(&field, value))
                    }
                    Some(GREATER_OR_EQUAL) => {
                        let is_exact = std::mem::replace(&mut self.is_exact, false);
                        self.lower = operands.map(|(field, value)| (field, key(value), is_exact));
                        return;
                    }
                    Some(LESS_OR_EQUAL) => operands.is_some_and(|(field, value)| {
                        let lower = lower.filter(|(known, ..)| *known == field);
                        lower.is_some_and(|(_, first, was_exact)| {
                            let range = Element { first, last: key(value), verdict: None };
                            self.is_exact = was_exact;
                            self.narrow_to_range(&field, value.len(), &range)
                        })
                    }),
                    _ => false,
                };
                self.is_exact &= is_exact;
            }
            "range" => self.is_exact = false,
            "byteorder" | "exthdr" | "fib" | "rt" => {
                match of(if name == "byteorder" { 2 } else { 1 }) {
                    Some(register) => self.load(register, None),
                    None => {
                        self.act(name);
                        // NFT_EXTHDR_OP_TCPOPT.
                        self.rule.sets_mss |=
                            of(6) == Some(1) && attribute(data, 2) == Some(&[OPTION_MSS]);
                    }
                }
            }
            "lookup" => self.look_up(data),
            "counter" | "log" | "limit" | "quota" | "reject" => self.act(name),
            "immediate" => self.immediate(data),
            _ => {
                self.fail(name);
                let target = || attribute(data, 1).map(text);
                self.rule.sets_mss |= name == "target" && target().as_deref() == Some("TCPMSS");
            }
        }
    }

    /// Adds an effect on the packets with which the rule continues.
    fn act(&mut self, what: &str) {
        self.affect(self.concern.clone(), what);
        self.has_acted = true;
    }

    fn affect(&mut self, concern: Concern, what: &str) {
        if !self.has_acted && !concern.is_empty() {
            self.rule.effects.push((concern, what.to_owned()));
        }
    }

    /// Marks the rule as not understood because of an expression.
    fn fail(&mut self, what: &str) {
        self.rule.unknown.get_or_insert_with(|| what.to_owned());
    }

    /// Sets a register, and forgets overlapping ones. Packets may lack the loaded field, which ends
    /// the rule for them.
    fn load(&mut self, register: u32, field: Option<Field>) {
        let at = place(register);
        self.registers.retain(|other, _| other.abs_diff(at) >= 4);
        self.is_exact &= match &field {
            Some(Field::Network { offset, mask }) => self.is_ipv6.is_some_and(|is_ipv6| {
                *offset as usize + mask.len() <= if is_ipv6 { 40 } else { 20 }
            }),
            Some(Field::Meta(_)) => true,
            None => false,
        };
        self.registers.extend(field.map(|field| (at, field)));
    }

    fn mask(&mut self, data: &[u8]) {
        let of = |kind: u16| attribute(data, kind).and_then(number_of_wire);
        let value = |kind: u16| attribute(data, kind).and_then(|value| attribute(value, 1));
        let (Some(from), Some(to)) = (of(1), of(2)) else {
            self.fail("bitwise");
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
        let Some(verdict) = attribute(data, 2).and_then(|value| attribute(value, 2)) else {
            match attribute(data, 1).and_then(number_of_wire) {
                Some(register) => self.load(register, None),
                None => self.fail("immediate"),
            }
            return;
        };
        match Verdict::read(verdict) {
            Some(verdict) => self.decide(&verdict, self.concern.clone(), self.is_exact),
            None => self.fail("verdict"),
        }
    }

    /// Applies a verdict to these packets, or to some of them if not `all`.
    fn decide(&mut self, verdict: &Verdict, mut concern: Concern, all: bool) {
        match verdict {
            Verdict::Accept => {
                if all && !self.has_acted && !concern.is_empty() {
                    // Without an address, the family is not determined otherwise.
                    if concern.destination.is_none() && concern.source.is_none() {
                        concern.source = self.is_ipv6.map(|is_ipv6| vec![whole(is_ipv6)]);
                    }
                    self.rule.accepted.push(concern);
                }
            }
            Verdict::Continue => {}
            Verdict::Return => self.rule.returns = true,
            Verdict::Drop => self.affect(concern, "drop"),
            Verdict::Jump(chain) => {
                self.affect(concern, &format!("jump {chain}"));
                self.rule.jumps.push(chain.clone());
            }
        }
    }

    fn look_up(&mut self, data: &[u8]) {
        let of = |kind: u16| attribute(data, kind).and_then(number_of_wire);
        let gives_verdict = of(3) == Some(0);
        let name = attribute(data, 1).map(text).unwrap_or_default();
        let Some(set) = self.sets.get(&(self.table.0, self.table.1.to_owned(), name)) else {
            match of(3) {
                // A verdict map that is not understood may lead to any chain.
                Some(0) => self.fail("vmap"),
                register => {
                    // The elements may have counters or limits.
                    self.act("lookup");
                    self.is_exact = false;
                    register.into_iter().for_each(|register| self.load(register, None));
                }
            }
            return;
        };
        let field = of(2).and_then(|register| self.registers.get(&place(register)).cloned());
        // NFT_LOOKUP_F_INV.
        let field = field.filter(|_| of(5).unwrap_or(0) == 0);
        let narrowed = |reader: &Self, elements: &[&Element]| {
            let mut concern = reader.concern.clone();
            let is_exact = field.as_ref().is_some_and(|field| {
                reader.narrow_to(&mut concern, field, set.key_length, elements)
            });
            (concern, is_exact && reader.is_exact)
        };
        if !gives_verdict {
            let (concern, is_exact) = narrowed(self, &set.elements.iter().collect::<Vec<_>>());
            self.go_on_with(concern);
            self.is_exact = is_exact;
            of(3).into_iter().for_each(|register| self.load(register, None));
            return;
        }
        let mut by_verdict: BTreeMap<&Verdict, Vec<&Element>> = BTreeMap::new();
        for element in &set.elements {
            match &element.verdict {
                Some(verdict) => by_verdict.entry(verdict).or_default().push(element),
                None => self.fail("vmap"),
            }
        }
        for (verdict, elements) in by_verdict {
            let (concern, is_exact) = narrowed(self, &elements);
            self.decide(verdict, concern, is_exact);
        }
        self.is_exact = false;
    }

    fn narrow_to_range(&mut self, field: &Field, length: usize, range: &Element) -> bool {
        let mut concern = self.concern.clone();
        let is_exact = self.narrow_to(&mut concern, field, length, &[range]);
        self.go_on_with(concern);
        is_exact
    }

    fn go_on_with(&mut self, concern: Concern) {
        if !self.has_acted {
            self.concern = concern;
        }
    }

    /// Narrows a concern to packets whose field, of this length, is in one of these ranges. Returns
    /// false if the resulting concern also has others.
    fn narrow_to(
        &self,
        concern: &mut Concern,
        field: &Field,
        length: usize,
        ranges: &[&Element],
    ) -> bool {
        match (field, self.is_ipv6) {
            // Several fields, or an unknown one.
            _ if length == 0 => false,
            (Field::Meta(field), _) => {
                let one = |it: &&Element| {
                    let bytes = it.first.to_be_bytes();
                    let value = bytes.get(bytes.len().checked_sub(length)?..)?;
                    (it.first == it.last).then(|| interface(*field, value)).flatten()
                };
                let interfaces: Option<Vec<_>> = ranges.iter().map(one).collect();
                interfaces.is_some_and(|them| concern.meet_interfaces(*field, them))
            }
            (Field::Network { offset, mask }, Some(is_ipv6)) => {
                let is_whole = mask.len() == length && mask.iter().all(|byte| *byte == u8::MAX);
                let prefixes = || ranges.iter().flat_map(|it| prefixes(is_ipv6, it)).collect();
                is_whole
                    && length == width(is_ipv6)
                    && concern.meet_prefixes(is_ipv6, *offset, prefixes())
            }
            _ => false,
        }
    }

    /// Narrows the rule to packets whose field begins with this value. Returns false if the concern
    /// also has others.
    fn narrow(&mut self, field: &Field, value: &[u8]) -> bool {
        if self.has_acted {
            return false;
        }
        match (field, self.is_ipv6) {
            (Field::Meta(META_NFPROTO | META_PROTOCOL), known) => {
                let is_ipv6 = match value {
                    [IPV4] | [0x08, 0x00] => Some(false),
                    [IPV6] | [0x86, 0xdd] => Some(true),
                    _ => None,
                };
                self.is_ipv6 = is_ipv6;
                is_ipv6.is_some() && known.is_none_or(|known| Some(known) == is_ipv6)
            }
            (Field::Meta(key), _) => interface(*key, value)
                .is_some_and(|it| self.concern.meet_interfaces(*key, vec![it])),
            (Field::Network { offset, mask }, Some(is_ipv6)) if mask.len() == value.len() => {
                // Source and destination may be compared together.
                let width = width(is_ipv6);
                let parts = (*offset..).step_by(width).zip(mask.chunks(width));
                parts.zip(value.chunks(width)).fold(true, |is_exact, ((offset, mask), value)| {
                    let prefix = prefix(is_ipv6, mask, value);
                    let meets = |it| self.concern.meet_prefixes(is_ipv6, offset, vec![it]);
                    prefix.is_some_and(meets) && is_exact
                })
            }
            _ => false,
        }
    }
}

/// Returns the first four-byte place of a register: NFT_REG_1 to NFT_REG_4 have four places each,
/// NFT_REG32_00 and later ones have one.
fn place(register: u32) -> u32 {
    match register {
        0..8 => register.saturating_sub(1) * 4,
        _ => register - 8,
    }
}

/// Returns the interfaces for a key and a value, or a prefix of the value.
fn interface(key: u32, value: &[u8]) -> Option<InterfaceMatch> {
    match key {
        META_IIF | META_OIF if value.len() == 4 => number(value).map(InterfaceMatch::Index),
        META_IIFNAME | META_OIFNAME if value.contains(&0) => {
            Some(InterfaceMatch::Name(text(value)))
        }
        META_IIFNAME | META_OIFNAME => {
            str::from_utf8(value).ok().map(|it| InterfaceMatch::Beginning(it.to_owned()))
        }
        _ => None,
    }
}

/// Returns the bytes of an address.
fn width(is_ipv6: bool) -> usize {
    if is_ipv6 { size_of::<Ipv6Addr>() } else { size_of::<Ipv4Addr>() }
}

/// Returns all addresses of a family.
fn whole(is_ipv6: bool) -> IpNet {
    if is_ipv6 { ipnet::Ipv6Net::default().into() } else { ipnet::Ipv4Net::default().into() }
}

/// Splits a range of addresses into prefixes.
fn prefixes(is_ipv6: bool, range: &Element) -> Vec<IpNet> {
    if range.first > range.last {
        return Vec::new();
    }
    if is_ipv6 {
        let [first, last] = [range.first, range.last].map(Ipv6Addr::from);
        return Ipv6Subnets::new(first, last, 0).map(IpNet::from).collect();
    }
    let [first, last] = [range.first, range.last].map(|it| Ipv4Addr::from(it as u32));
    Ipv4Subnets::new(first, last, 0).map(IpNet::from).collect()
}

/// Returns the prefix of addresses that begin with this value.
fn prefix(is_ipv6: bool, mask: &[u8], value: &[u8]) -> Option<IpNet> {
    let length = mask.iter().map(|byte| byte.leading_ones()).sum::<u32>();
    let whole = (0..mask.len()).map(|place| {
        let ones = length.saturating_sub(place as u32 * 8).min(8);
        !(u32::from(u8::MAX) >> ones) as u8
    });
    // Ones, followed by zeros.
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
            let body = [&[family, 0, 0, 0][..], &parts.concat()].concat();
            let (chain, rule) = read_one(&body, &Sets::default()).unwrap();
            let rules = Rules(HashMap::from([(chain.clone(), vec![rule.clone(), rule])]));
            prop_assert!(rules.effects(&chain, 1).is_err(), "another number of rules");
            let effects = rules.effects(&chain, 2);
            prop_assert!(effects.is_err() || rules.accepted(&chain).len() <= 16);
        }

        #[test]
        fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..256)) {
            let _ = read_one(&bytes, &Sets::default());
        }
    }
}
