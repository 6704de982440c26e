//! Sections of the configuration that belong to applications.
//!
//! The router itself knows no application: the reader of a configuration passes a list of
//! [`ApplicationSection`]s, and gets their settings by type ([`super::Config::of`]).

use super::application::Settings;
use super::settings::PortSettings;
use std::sync::Arc;
use wattline_daemon::settings::{Key, Reader, Section, Table};

/// The sections of one application.
pub struct ApplicationSection {
    /// Names at the top level of the file, such as `ipsec_tunnel`.
    pub names: &'static [&'static str],
    /// Keys, in the order of the reference.
    pub keys: &'static [Key],
    /// Reader of the sections, or the Cargo feature that the program lacks.
    pub read: Result<ReadSection, &'static str>,
}

/// Reads sections, and notes mistakes with the reader. Returns `None` if the file has none of them.
pub type ReadSection = fn(&mut Reader, &Table, &[PortSettings]) -> Option<Arc<dyn Settings>>;

/// The applications whose sections are known.
pub type Sections<'a> = &'a [&'static ApplicationSection];

impl ApplicationSection {
    pub(super) fn read(
        &self,
        reader: &mut Reader,
        root: &Table,
        ports: &[PortSettings],
    ) -> Option<Arc<dyn Settings>> {
        let feature = match self.read {
            Ok(read) => return read(reader, root, ports),
            Err(feature) => feature,
        };
        for name in self.names {
            if let Some(span) = root.span_of(name) {
                let message = format!(
                    "this program was built without it: build it with `--features {feature}`"
                );
                reader.problem(Section::Top, name, &span, message);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use std::path::Path;
    use wattline_daemon::settings::{parse_name, single};

    /// Settings of an application with a name and a file.
    #[derive(Debug, PartialEq)]
    struct Said {
        name: String,
        file: std::path::PathBuf,
    }

    impl Settings for Said {
        fn heading(&self) -> &'static str {
            "[say]"
        }
        fn resolve_paths(&mut self, file: &Path) {
            self.file = file.with_file_name(&self.file);
        }
    }

    const SECTION: Section = Section::Named("[say]");

    static SAY: ApplicationSection = ApplicationSection {
        names: &["say"],
        keys: &[
            Key::new(SECTION, "name", None, "\"x\"", "a name", "Its name."),
            Key::new(SECTION, "ports", None, "[\"a\"]", "ports", "Its ports."),
        ],
        read: Ok(|reader, root, _| {
            let table = single(reader, root, SECTION, "say")?;
            reader.refuse_unknown(&table);
            let name = reader.parsed(&table, "name", parse_name)?.value;
            Some(Arc::new(Said { name, file: "key".into() }))
        }),
    };
    static WITHOUT: ApplicationSection =
        ApplicationSection { names: &["say"], keys: &[], read: Err("say") };

    const PORT: &str = "[[port]]\nname = \"a\"\ninterface = \"eth0\"\n";

    fn parse(more: &str, sections: Sections<'_>) -> Result<Config, String> {
        let text = format!("{PORT}{more}");
        Config::parse_with(&text, "test", sections).map_err(|problems| problems.to_string())
    }

    #[test]
    fn section_of_an_application_is_read_and_found_by_its_type() {
        let config = parse("[say]\nname = \"x\"\n", &[&SAY]).unwrap();
        assert_eq!(config.of::<Said>().unwrap().name, "x");
        assert_eq!(config.obstacles_to_xdp_forwarding(), ["[say]"]);
        assert_eq!(config, config.clone());
        assert_ne!(config, parse("[say]\nname = \"y\"\n", &[&SAY]).unwrap());
        let plain = parse("", &[&SAY]).unwrap();
        assert!(plain.of::<Said>().is_none() && plain != config);
    }

    #[test]
    fn mistakes_of_an_application_are_reported_like_all_others() {
        for (text, sections, message) in [
            ("[say]\nname = 1\n", &[&SAY], "[say] name = 1: must be a name"),
            ("[say]\nnam = \"x\"\n", &[&SAY], "did you mean \"name\""),
            ("[sey]\nname = \"x\"\n", &[&SAY], "did you mean `[say]`?"),
            ("[say]\nname = \"x\"\n", &[&WITHOUT], "`--features say`"),
        ] {
            let error = parse(text, sections).unwrap_err();
            assert!(error.contains(message), "{text}: {error}");
        }
        assert!(parse("[say]\nname = \"x\"\n", &[]).unwrap_err().contains("unknown section"));
    }

    /// A problem names the section in its correct form, nested or not.
    #[test]
    fn unknown_section_is_reported_with_the_most_similar_one() {
        for (text, message) in [
            ("[[ports]]\nname = \"b\"\n", "ports: unknown section: did you mean `[[port]]`?"),
            ("[[routes]]\nvia = \"192.0.2.2\"\n", "did you mean `[[route]]`?"),
            ("[[neighbor]]\n", "did you mean `[[neighbour]]`?"),
            ("[logging]\n", "did you mean `[log]`?"),
            ("[Power]\n", "did you mean `[power]`?"),
            ("[routers]\n", "did you mean `[router]`?"),
            ("[SAYS]\n", "did you mean `[say]`?"),
            (
                "[log.metrics]\n",
                "[log] metrics: unknown section: sections are not nested: did you mean `[metrics]`?",
            ),
            ("[say.port]\n", "[say] port: unknown key: did you mean \"ports\"?"),
            // No section, but a key of another section.
            ("[[interface]]\n", "interface: unknown key here: it belongs in [[port]]"),
            ("[bridge]\n", "unknown section: known here are [router], [log]"),
        ] {
            let error = parse(text, &[&SAY]).err().unwrap_or_default();
            assert!(error.contains(message), "{text}: {error}");
        }
        // A mistyped key of this section is not taken for a key of another section.
        let port = parse("address = [\"192.0.2.1/24\"]\n", &[&SAY]).unwrap_err();
        assert!(port.contains("did you mean \"addresses\"?"), "{port}");
        assert!(parse("[log]\nworkers = 1\n", &[]).unwrap_err().contains("belongs in [router]"));
    }
}
