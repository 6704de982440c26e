//! Filters of packets to record: a small language, like that of tcpdump.
//!
//! ```text
//! filter = part { "or" part }
//! part   = test { [ "and" ] test }
//! test   = "not" test | "(" filter ")"
//!        | "all" | "ip" | "ip6" | "tcp" | "udp" | "icmp" | "icmp6" | "esp" | "proto" 0..255
//!        | [ "src" | "dst" ] "host" ADDRESS
//!        | [ "src" | "dst" ] "net" PREFIX
//!        | [ "src" | "dst" ] "port" NUMBER [ "-" NUMBER ]
//!        | "interface" PORT
//!        | "vlan" 0..4095
//! ```
//!
//! `!`, `&&` and `||` stand for `not`, `and` and `or`. An empty text is `all`. Ports are those of
//! TCP, UDP, SCTP and DCCP, and are known for first fragments only. Quotations in ICMP errors are
//! ignored.

mod headers;
mod parse;
mod program;

pub use headers::Headers;
pub use parse::FilterError;
use program::{Operation, Test};

/// A filter, compiled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter {
    /// Tests and operators, each operator after its operands.
    operations: Vec<Operation>,
}

impl Filter {
    /// Parses a filter. `port` gives the number of a port by its name.
    ///
    /// # Errors
    /// Names the mistake, its place, and what is allowed.
    pub fn parse(text: &str, port: &dyn Fn(&str) -> Option<u16>) -> Result<Self, FilterError> {
        parse::parse(text, port).map(|operations| Self { operations })
    }

    /// Returns true if the filter takes everything, so that no header need be parsed.
    pub fn takes_all(&self) -> bool {
        matches!(self.operations[..], [Operation::Test(Test::All)])
    }

    /// Returns true if the filter takes a frame at a port. The frame begins with its Ethernet
    /// header.
    pub fn matches(&self, port: u16, frame: &[u8]) -> bool {
        if self.takes_all() {
            return true;
        }
        let headers = Headers::parse(frame);
        // The rightmost bit is the top of the stack; `parse` leaves exactly one.
        let mut stack = 0_u64;
        for operation in &self.operations {
            match operation {
                Operation::Test(test) => {
                    stack = stack << 1 | u64::from(test.holds(port, &headers));
                }
                Operation::Not => stack ^= 1,
                Operation::And => stack = stack >> 1 & (stack | !1),
                Operation::Or => stack = stack >> 1 | stack & 1,
            }
        }
        stack & 1 != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{MAC_A, frame4, frame4_vlan, frame6};
    use proptest::prelude::*;

    fn port(name: &str) -> Option<u16> {
        ["left", "right"].iter().position(|known| *known == name).map(|place| place as u16)
    }

    fn matches(text: &str, at: u16, frame: &[u8]) -> bool {
        let filter = Filter::parse(text, &port).unwrap_or_else(|error| panic!("{text}: {error}"));
        filter.matches(at, frame)
    }

    /// From 192.0.2.9 port 1000 to 203.0.113.5 port 53, UDP.
    fn dns() -> Vec<u8> {
        frame4(MAC_A, 64, &[0x03, 0xe8, 0, 53, 0, 12, 0, 0, 1, 2, 3, 4])
    }

    #[test]
    fn tests_match_the_fields_that_they_name() {
        let frame = dns();
        for text in [
            "",
            "all",
            "ip",
            "udp",
            "proto 17",
            "host 192.0.2.9",
            "host 203.0.113.5",
            "src host 192.0.2.9",
            "dst net 203.0.113.0/24",
            "net 0.0.0.0/0",
            "port 53",
            "udp port 53",
            "src port 1000",
            "dst port 50-60",
            "interface left",
            "not tcp",
            "! ip6",
            "tcp or udp",
            "udp and not port 54",
            "(tcp || udp) && host 192.0.2.9",
            "not (tcp or ip6)",
            "ip6 or ip and udp",
            "not not udp",
        ] {
            assert!(matches(text, 0, &frame), "{text}");
            let negated = format!("not ({})", if text.is_empty() { "all" } else { text });
            assert!(!matches(&negated, 0, &frame), "{negated}");
        }
        for text in [
            "ip6",
            "tcp",
            "icmp",
            "esp",
            "dst host 192.0.2.9",
            "src port 53",
            "port 54-60",
            "interface right",
            "vlan 7",
            "net ::/0",
            "udp and ip6 or tcp",
            "udp (port 54 or port 55)",
        ] {
            let holds = Filter::parse(text, &port).is_ok_and(|it| it.matches(0, &frame));
            assert!(!holds, "{text}");
        }
    }

    #[test]
    fn tags_and_ipv6_are_seen_through() {
        let tagged = frame4_vlan(MAC_A, 7);
        assert!(matches("vlan 7 and udp and host 192.0.2.9", 0, &tagged));
        assert!(!matches("vlan 8", 0, &tagged));
        // Hop-by-hop and destination options before UDP, as a chain of headers.
        let mut frame = frame6(MAC_A, 64, &[0x03, 0xe8, 0, 53, 0, 8, 0, 0]);
        assert!(matches("ip6 udp dst port 53 and src net 2001:db8:1::/48", 0, &frame));
        frame[14 + 6] = 0;
        frame.splice(54..54, [60, 0, 1, 4, 0, 0, 0, 0, 17, 0, 1, 4, 0, 0, 0, 0]);
        assert!(matches("udp and port 1000", 0, &frame));
        // The same, but the first of several fragments, and a later one.
        frame.splice(54..70, [17, 0, 0, 1, 0, 0, 0, 9]);
        frame[14 + 6] = 44;
        assert!(matches("udp and port 1000", 0, &frame));
        frame[57] = 9;
        assert!(matches("udp and not port 1000", 0, &frame));
    }

    #[test]
    fn later_fragments_have_no_ports() {
        let mut frame = dns();
        frame[21] = 1;
        assert!(matches("udp", 0, &frame) && !matches("port 53", 0, &frame));
    }

    #[test]
    fn mistakes_are_named_with_place_and_allowed_values() {
        let wrong = |text: &str| Filter::parse(text, &port).unwrap_err().to_string();
        for (text, place, allowed) in [
            ("tpc", "character 1", "`tcp`"),
            ("host", "at the end", "address"),
            ("udp and host 1.2.3", "character 14", "192.0.2.1"),
            ("net 10.0.0.0/33", "character 5", "198.51.100.0/24"),
            ("port 70000", "character 6", "0 to 65535"),
            ("port 60-50", "character 6", "smaller one first"),
            ("interface middle", "character 11", "no such port"),
            ("vlan 4096", "character 6", "0 to 4095"),
            ("(udp", "at the end", "`)`"),
            ("udp)", "character 4", "`(`"),
            ("udp or", "at the end", "a test"),
            ("src udp", "character 5", "`host`, `net` or `port`"),
            ("proto 256", "character 7", "0 to 255"),
        ] {
            let message = wrong(text);
            assert!(message.contains(place) && message.contains(allowed), "{text}: {message}");
        }
        assert!(wrong(&"(".repeat(500)).contains("nested"));
        assert!(wrong(&"udp ".repeat(500)).contains("too long"));
    }

    proptest! {
        /// Joined tests hold as their parts do, in any order of operators.
        #[test]
        fn operators_are_those_of_logic(a in 0_usize..4, b in 0_usize..4, c in 0_usize..4) {
            let frame = dns();
            let tests = ["udp", "tcp", "port 53", "interface right"];
            let holds = |index: usize| matches(tests[index], 0, &frame);
            let (x, y, z) = (holds(a), holds(b), holds(c));
            let (a, b, c) = (tests[a], tests[b], tests[c]);
            prop_assert_eq!(matches(&format!("{a} or {b} and {c}"), 0, &frame), x || y && z);
            prop_assert_eq!(matches(&format!("({a} or {b}) {c}"), 0, &frame), (x || y) && z);
            prop_assert_eq!(matches(&format!("not {a} and {b} or {c}"), 0, &frame), !x && y || z);
            prop_assert_eq!(matches(&format!("{a} and not ({b} or {c})"), 0, &frame), x && !(y || z));
        }
    }

    /// Any text is parsed or refused, and any filter that parses can be applied to any bytes.
    #[test]
    fn any_text_and_any_bytes_are_taken() {
        bolero::check!().with_type::<(String, Vec<u8>)>().for_each(|(text, bytes)| {
            if let Ok(filter) = Filter::parse(text, &port) {
                filter.matches(0, bytes);
            }
        });
    }

    /// The same for words of the language.
    #[test]
    fn any_words_of_the_language_are_taken() {
        const WORDS: [&str; 22] = [
            "(",
            ")",
            "not",
            "and",
            "or",
            "src",
            "dst",
            "host",
            "net",
            "port",
            "interface",
            "vlan",
            "proto",
            "tcp",
            "udp",
            "icmp",
            "10.0.0.0/8",
            "::1",
            "53",
            "1-2",
            "left",
            "all",
        ];
        let every = ["udp", "port 53", "vlan 7", "net 10.0.0.0/8", "icmp6", "interface left"];
        bolero::check!().with_type::<(Vec<u8>, Vec<u8>)>().for_each(|(picks, bytes)| {
            let words: Vec<&str> =
                picks.iter().map(|pick| WORDS[usize::from(*pick) % WORDS.len()]).collect();
            if let Ok(filter) = Filter::parse(&words.join(" "), &port) {
                filter.matches(0, bytes);
            }
            for text in every {
                matches(text, 0, bytes);
            }
        });
    }
}
