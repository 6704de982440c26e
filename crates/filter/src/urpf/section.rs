//! The `[urpf]` section of the configuration.

use std::collections::HashSet;
use std::sync::Arc;
use wattline_daemon::settings::{Key, Reader, Section, Table, single};
use wattline_router::application::SourceCheck;
use wattline_router::config::{ApplicationSection, PortSettings, Settings, read_port_names};

/// Name of the section.
const SECTION: Section = Section::Named("[urpf]");

/// Keys of the section, in the order of the reference.
#[rustfmt::skip]
const KEYS: &[Key] = &[
    Key::new(SECTION, "strict", Some("[]"), "[\"customer\"]", "a list of names of ports",
        "Ports that forward a packet only if a route to its source address leads to the same port (RFC 3704 section\n2.2). For links whose networks have no other path."),
    Key::new(SECTION, "loose", Some("[]"), "[\"uplink\"]", "a list of names of ports, none of which is in `strict`",
        "Ports that forward a packet only if there is a route to its source address (RFC 3704 section 2.4); a default\nroute counts."),
];

/// The ports that check source addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UrpfSettings {
    /// Check by port index.
    pub checks: Vec<(usize, SourceCheck)>,
    /// Port indices.
    pub ports: Vec<usize>,
}

impl UrpfSettings {
    /// Returns the check of a port.
    pub fn check(&self, port: usize) -> Option<SourceCheck> {
        self.checks.iter().find(|(of, _)| *of == port).map(|(_, check)| *check)
    }
}

impl Settings for UrpfSettings {
    fn heading(&self) -> &'static str {
        SECTION.heading()
    }

    fn ports(&self) -> Option<&[usize]> {
        Some(&self.ports)
    }
}

/// The section.
pub static URPF_SECTION: ApplicationSection =
    ApplicationSection { names: &["urpf"], keys: KEYS, read: Ok(read_section) };

fn read_section(
    reader: &mut Reader,
    root: &Table,
    ports: &[PortSettings],
) -> Option<Arc<dyn Settings>> {
    let table = single(reader, root, SECTION, "urpf")?;
    reader.refuse_unknown(&table);
    let mut checks: Vec<(usize, SourceCheck)> = Vec::new();
    let mut listed = HashSet::new();
    for (key, check) in [("strict", SourceCheck::Strict), ("loose", SourceCheck::Loose)] {
        for port in read_port_names(reader, &table, key, ports) {
            if listed.insert(port.value) {
                checks.push((port.value, check));
            } else {
                let message = "is listed already: a port checks in one way".to_owned();
                reader.problem(SECTION, key, &port.span, message);
            }
        }
    }
    let ports = checks.iter().map(|(port, _)| *port).collect();
    (!checks.is_empty()).then(|| Arc::new(UrpfSettings { checks, ports }) as Arc<dyn Settings>)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattline_router::config::Config;

    fn parse(text: &str) -> Result<Config, String> {
        let ports = ["a", "b"]
            .map(|name| format!("[[port]]\nname = \"{name}\"\ninterface = \"{name}0\"\n"));
        let text = format!("{}[urpf]\n{text}", ports.concat());
        Config::parse_with(&text, "test", &[&URPF_SECTION]).map_err(|problems| problems.to_string())
    }

    #[test]
    fn each_port_checks_in_its_way() {
        let config = parse("strict = [\"b\"]\nloose = [\"a\"]\n").unwrap();
        let expected = [(1, SourceCheck::Strict), (0, SourceCheck::Loose)];
        assert_eq!(config.of::<UrpfSettings>().unwrap().checks, expected);
        assert_eq!(config.sections_for_workers(1), ["[urpf]"]);
        let one = parse("strict = [\"b\"]\n").unwrap();
        assert_eq!(one.sections_for_workers(0), [""; 0]);
        assert!(parse("").unwrap().of::<UrpfSettings>().is_none());
    }

    #[test]
    fn mistakes_are_reported() {
        let unknown = parse("loose = [\"c\"]\n").unwrap_err();
        assert!(unknown.contains("the ports are a, b"), "{unknown}");
        // A port without a name and a duplicate port are reported separately.
        let odd = "[[port]]\nname = \"a\"\ninterface = \"c0\"\n[[port]]\ninterface = \"d0\"\n";
        let unknown = parse(&format!("loose = [\"c\"]\n{odd}")).unwrap_err();
        assert!(unknown.contains("the ports are a, b\n"), "{unknown}");
        let twice = parse("strict = [\"a\"]\nloose = [\"a\"]\n").unwrap_err();
        assert!(twice.contains("[urpf] loose = \"a\": is listed already"), "{twice}");
    }
}
