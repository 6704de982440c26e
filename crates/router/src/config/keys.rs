//! The list of configuration keys, and texts generated from it.

use super::section::Sections;
use super::{ports, power, router, routes_file, statics};
use wattline_daemon::settings::{Key, Schema, Section, log, metrics, reference};

/// Names of the router's sections at the top level.
const SECTIONS: [&str; 7] =
    ["router", log::NAME, metrics::NAME, "port", "route", "neighbour", "power"];

/// Every key of the router itself, in the order of the reference.
const KEYS: [&[Key]; 7] = [
    routes_file::KEYS,
    router::KEYS,
    log::KEYS,
    metrics::KEYS,
    power::KEYS,
    ports::KEYS,
    statics::KEYS,
];

/// Returns the schema of a router with these applications.
pub(super) fn schema(sections: Sections<'_>) -> Schema {
    let of_applications = sections.iter().flat_map(|section| section.names).copied();
    Schema {
        sections: SECTIONS.into_iter().chain(of_applications).collect(),
        keys: all(sections).collect(),
        anywhere: &[routes_file::NAME],
        ..Schema::default()
    }
}

/// Returns every key of the router and of these applications, in the order of the reference.
pub fn all(sections: Sections<'_>) -> impl Iterator<Item = &'static Key> {
    KEYS.into_iter().flatten().chain(sections.iter().flat_map(|section| section.keys))
}

/// Renders every key with its default and description as a configuration file. Keys without a
/// default and sections that may be repeated are commented out.
pub fn as_toml(sections: Sections<'_>) -> String {
    let keys = all(sections).filter(|key| key.section != ports::CAPTURE);
    reference::toml(keys, stands_once)
}

/// Returns true for sections that apply even if the file lacks them. Other sections may be
/// repeated, or are optional.
pub fn stands_once(section: Section) -> bool {
    [Section::Top, router::SECTION, log::SECTION, metrics::SECTION, power::SECTION]
        .contains(&section)
}

/// Renders the same list as the body of a reference page, in Markdown.
pub fn as_markdown(sections: Sections<'_>) -> String {
    reference::markdown(all(sections))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use wattline_daemon::settings::{Allowed, Problems};

    /// A configuration with this line in the right section.
    fn with(key: &Key, value: &str) -> Result<Config, Problems> {
        let port = "name = \"a\"\ninterface = \"x\"\n";
        let (name, heading) = (key.name, key.section.heading());
        let text = match key.section {
            ports::SECTION => format!("[[port]]\n{port}{name} = {value}\n"),
            _ => format!("[[port]]\n{port}{heading}\n{name} = {value}\n"),
        };
        Config::parse(&text, "x")
    }

    /// The text of a range agrees with its check, and each default is within its range.
    #[test]
    fn ranges_include_exactly_their_ends() {
        let mut checked = 0;
        for key in KEYS.into_iter().flatten() {
            let (good, bad) = match key.allowed {
                Allowed::Words(_) => continue,
                Allowed::Whole(low, high) => (
                    [low.to_string(), high.to_string()],
                    [(i64::from(low) - 1).to_string(), (u64::from(high) + 1).to_string()],
                ),
                Allowed::Duration { shortest, longest, .. } => (
                    [format!("\"{shortest}\""), format!("\"{longest}\"")],
                    ["\"-1s\"".to_owned(), format!("\"{}\"", longest.replace('s', ".001s"))],
                ),
            };
            for value in good.iter().map(String::as_str).chain(key.default) {
                assert!(with(key, value).is_ok(), "{} = {value}: {:?}", key.name, with(key, value));
            }
            for value in &bad {
                let problems = with(key, value).unwrap_err().to_string();
                let must = format!("must be {}", key.allowed);
                assert!(problems.contains(&must), "{} = {value}: {problems}", key.name);
            }
            checked += 1;
        }
        assert!(checked > 8, "{checked}");
    }
}
