//! Keys and sections that a file may contain.

use super::key::{Key, Section};
use super::suggest::{is_same_word, nearest};

/// Sections of a file and their keys.
#[derive(Debug, Clone, Default)]
pub struct Schema {
    /// Names of the sections, as they appear at the top level: `log` for `[log]`.
    pub sections: Vec<&'static str>,
    /// The keys of all sections, in the order of the reference.
    pub keys: Vec<&'static Key>,
    /// Keys that may appear in every section.
    pub anywhere: &'static [&'static str],
    /// Names that belong in a file of another kind.
    pub misplaced: Misplaced,
}

/// Names at the top level that belong in a file of another kind.
#[derive(Debug, Clone, Default)]
pub struct Misplaced {
    /// Misplaced names.
    pub names: &'static [&'static str],
    /// Message about each.
    pub message: String,
}

impl Schema {
    /// Returns the key with this name in a section.
    pub(super) fn find(&self, section: Section, name: &str) -> Option<&'static Key> {
        self.keys.iter().find(|key| key.section == section && key.name == name).copied()
    }

    /// Returns true if a name may appear in a section.
    pub(super) fn knows(&self, section: Section, name: &str) -> bool {
        let is_section = section == Section::Top && self.sections.contains(&name);
        is_section || self.find(section, name).is_some() || self.anywhere.contains(&name)
    }

    /// Returns the message about a name that belongs in a file of another kind.
    pub(super) fn misplaced(&self, section: Section, name: &str) -> Option<String> {
        let is_misplaced = section == Section::Top && self.misplaced.names.contains(&name);
        is_misplaced.then(|| self.misplaced.message.clone())
    }

    /// Returns the message about an unknown name in a section, which may be written as a section
    /// itself. It suggests the right place, or the nearest known name.
    pub(super) fn unknown(&self, section: Section, name: &str, is_section: bool) -> String {
        let here = || self.keys.iter().filter(|key| key.section == section).map(|key| key.name);
        let headings = || self.sections.iter().copied();
        let meant = |key: &str| format!("unknown key: did you mean \"{key}\"?");
        if let Some(key) = here().find(|key| is_same_word(name, key)) {
            return meant(key);
        }
        if is_section && section == Section::Top {
            if let Some(nearest) = nearest(name, headings()) {
                return format!("unknown section: did you mean `{}`?", self.heading(nearest));
            }
        } else if is_section {
            let joined = format!("{}_{name}", bare(section.heading()));
            let is_meant = |known: &&str| is_same_word(name, known) || is_same_word(&joined, known);
            if let Some(known) = headings().find(is_meant) {
                return format!(
                    "unknown section: sections are not nested: did you mean `{}`?",
                    self.heading(known)
                );
            }
        }
        // A valid key in the wrong place is the commonest mistake in TOML.
        if let Some(key) = self.keys.iter().find(|key| key.name == name && key.section != section) {
            return format!("unknown key here: it belongs in {}", key.section.heading());
        }
        if let Some(key) = nearest(name, here()) {
            return meant(key);
        }
        let sections: Vec<&str> = headings().filter(|_| section == Section::Top).collect();
        if let Some(nearest) = nearest(name, sections.iter().copied()) {
            return format!("unknown key: did you mean `{}`?", self.heading(nearest));
        }
        let what = if is_section { "section" } else { "key" };
        let sections = sections.into_iter().map(|name| self.heading(name));
        let known: Vec<String> = match is_section && section == Section::Top {
            true => sections.collect(),
            false => here().map(str::to_owned).chain(sections).collect(),
        };
        format!("unknown {what}: known here are {}", known.join(", "))
    }

    /// Returns a section's name as it is written in the file.
    fn heading(&self, name: &str) -> String {
        let mut headings = self.keys.iter().map(|key| key.section.heading());
        // A section of an application that is not built in has no keys.
        let written = headings.find(|heading| bare(heading) == name);
        written.map_or_else(|| format!("[{name}]"), str::to_owned)
    }
}

/// Strips the brackets from a section's name.
fn bare(heading: &str) -> &str {
    heading.trim_matches(['[', ']'])
}
