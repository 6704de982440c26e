//! Applications of this program, in addition to plain forwarding: each is a crate, and a Cargo
//! feature of this one.

use std::path::Path;
use wattline_daemon::settings::ConfigError;
use wattline_policies::POLICIES;
use wattline_router::application::{ApplicationKind, Applications};
use wattline_router::config::{ApplicationSection, Config};

/// All applications that were built in, in the order in which outgoing packets pass them: flows are
/// recorded, redundancy elimination encoded, ESP encrypted. Received packets pass them in reverse
/// order, so they are filtered first. Only the decoder of redundancy elimination runs before the
/// filters (`Place::Arrived`): the filters must judge the restored packet.
pub const APPLICATIONS: Applications = &[
    #[cfg(feature = "flow-records")]
    wattline_flow_records::APPLICATION,
    #[cfg(not(feature = "flow-records"))]
    without(&ApplicationSection { names: &["flow_records"], keys: &[], read: Err("flow-records") }),
    #[cfg(feature = "redundancy")]
    wattline_redundancy::APPLICATION,
    #[cfg(not(feature = "redundancy"))]
    without(&ApplicationSection { names: &["redundancy"], keys: &[], read: Err("redundancy") }),
    #[cfg(feature = "ipsec")]
    wattline_ipsec::APPLICATION,
    #[cfg(not(feature = "ipsec"))]
    without(&ApplicationSection {
        names: &["ipsec", "ipsec_tunnel", "ipsec_policy"],
        keys: &[],
        read: Err("ipsec"),
    }),
    #[cfg(feature = "filter")]
    wattline_filter::ACL,
    #[cfg(feature = "filter")]
    wattline_filter::URPF,
    #[cfg(not(feature = "filter"))]
    without(&ApplicationSection { names: &["acl", "urpf"], keys: &[], read: Err("filter") }),
];

/// Returns the entry of an application that was left out of the build: its sections are refused
/// with the reason.
#[allow(dead_code, reason = "where a feature is off")]
const fn without(section: &'static ApplicationSection) -> ApplicationKind {
    ApplicationKind { section, start: |_| Ok(Vec::new()) }
}

/// Reads and checks a router's configuration.
///
/// # Errors
/// As for [`Config::load`].
pub fn load(path: &Path) -> Result<Config, ConfigError> {
    Config::load(path, &sections(), POLICIES)
}

/// Returns the configuration sections of the applications.
pub fn sections() -> Vec<&'static ApplicationSection> {
    wattline_router::application::sections(APPLICATIONS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattline_router::config::keys;

    #[test]
    fn printed_defaults_lack_only_ports() {
        let sections = sections();
        let defaults = keys::as_toml(&sections);
        let problems = Config::parse_with(&defaults, "defaults.toml", &sections).unwrap_err();
        assert_eq!(problems.list.len(), 1, "{problems}");
        assert!(problems.list[0].message.contains("[[port]]"), "{problems}");
    }

    #[test]
    fn every_printed_example_is_toml() {
        for key in keys::all(&sections()) {
            let text = format!("{} = {}", key.name, key.example);
            assert!(text.parse::<toml::Table>().is_ok(), "{text}");
        }
    }

    #[cfg(all(
        feature = "filter",
        feature = "flow-records",
        feature = "redundancy",
        feature = "ipsec"
    ))]
    #[test]
    fn the_reference_page_is_made_from_the_keys() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/configuration.md");
        let page = std::fs::read_to_string(page).unwrap();
        let keys = keys::as_markdown(&sections());
        assert!(page.contains(&keys), "update it: wattline config --markdown");
    }

    #[cfg(not(feature = "ipsec"))]
    #[test]
    fn section_of_a_missing_application_is_refused_with_the_reason() {
        let text = "[[port]]\nname = \"a\"\ncapture = { read = \"x\" }\n[ipsec]\nkernel = true\n";
        let problems = Config::parse_with(text, "test", &sections()).unwrap_err();
        assert_eq!(problems.list.len(), 1, "{problems}");
        assert!(problems.to_string().contains("--features ipsec"), "{problems}");
    }

    const ALL: &str = "[[port]]\nname = \"a\"\ncapture = { read = \"x\" }\n\
        [flow_records]\ncollectors = [\"ipfix://192.0.2.9:4739\"]\nports = [\"a\"]\n\
        [[redundancy]]\nrole = \"encode\"\nport = \"a\"\npeer = \"192.0.2.2\"\ncache = \"2MiB\"\n\
        [ipsec]\nstate = \"s\"\n[[ipsec_tunnel]]\nname = \"t\"\nlocal = \"192.0.2.1\"\n\
        remote = \"192.0.2.2\"\nspi_in = 0x1001\nspi_out = 4098\nkey_in_file = \"in.key\"\n\
        key_out_file = \"out.key\"\nhard_bytes = \"2G\"\n\
        [[ipsec_policy]]\nsource = \"10.1.0.0/16\"\ndestination = \"10.2.0.0/16\"\ntunnel = \"t\"\n\
        [[acl]]\naction = \"deny\"\nsource = \"10.3.0.0/16\"\nprotocol = \"tcp\"\n\
        destination_ports = [22, \"80-90\"]\n[urpf]\nloose = [\"a\"]\n";

    #[test]
    fn sections_with_any_bytes_changed_are_accepted_or_refused_with_a_reason() {
        #[cfg(all(
            feature = "filter",
            feature = "flow-records",
            feature = "redundancy",
            feature = "ipsec"
        ))]
        assert!(Config::parse_with(ALL, "all", &sections()).is_ok());
        bolero::check!().with_type::<Vec<u8>>().for_each(|bytes| {
            let mut mutated = ALL.as_bytes().to_vec();
            for change in bytes.chunks_exact(3) {
                let at = usize::from(u16::from_le_bytes([change[0], change[1]])) % mutated.len();
                mutated[at] = change[2];
            }
            let text = String::from_utf8_lossy(&mutated);
            if let Err(problems) = Config::parse_with(&text, "fuzz", &sections()) {
                assert!(!problems.list.is_empty());
                let lines = text.lines().count();
                let mut places = problems.list.iter().map(|problem| problem.line);
                assert!(places.all(|line| (1..=lines + 1).contains(&line)));
            }
        });
    }
}
