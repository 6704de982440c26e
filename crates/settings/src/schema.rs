//! What may stand in a file.

use super::key::{Key, Section};

/// The sections of a file and their keys.
#[derive(Debug, Clone, Default)]
pub struct Schema {
    /// Names of the sections, as they stand at the top level: `log` for `[log]`.
    pub sections: Vec<&'static str>,
    /// The keys of all sections, in the order of the reference.
    pub keys: Vec<&'static Key>,
    /// Keys that may stand in every section beside their own.
    pub anywhere: &'static [&'static str],
    /// What belongs in a file of another kind.
    pub misplaced: Misplaced,
}

/// Names at the top level that belong in a file of another kind.
#[derive(Debug, Clone, Default)]
pub struct Misplaced {
    /// The names.
    pub names: &'static [&'static str],
    /// What to say of each.
    pub message: String,
}

impl Schema {
    /// The key of this name in a section.
    pub(super) fn find(&self, section: Section, name: &str) -> Option<&'static Key> {
        self.keys.iter().find(|key| key.section == section && key.name == name).copied()
    }

    /// Whether a name may stand in a section.
    pub(super) fn knows(&self, section: Section, name: &str) -> bool {
        let is_section = section == Section::Top && self.sections.contains(&name);
        is_section || self.find(section, name).is_some() || self.anywhere.contains(&name)
    }

    /// What to say of a name that belongs in a file of another kind.
    pub(super) fn misplaced(&self, section: Section, name: &str) -> Option<String> {
        let is_misplaced = section == Section::Top && self.misplaced.names.contains(&name);
        is_misplaced.then(|| self.misplaced.message.clone())
    }

    /// What to say of a name that is not known in a section: where it belongs, or the nearest that is
    /// known there.
    pub(super) fn unknown(&self, section: Section, name: &str) -> String {
        // A key that is right but in the wrong place is the commonest mistake in TOML.
        if let Some(key) = self.keys.iter().find(|key| key.name == name && key.section != section) {
            return format!("unknown key here: it belongs in {}", key.section.heading());
        }
        let here = self.keys.iter().filter(|key| key.section == section).map(|key| key.name);
        let sections = self.sections.iter().copied().filter(|_| section == Section::Top);
        let candidates: Vec<&str> = here.chain(sections).collect();
        let nearest = candidates
            .iter()
            .map(|candidate| (strsim::damerau_levenshtein(name, candidate), candidate))
            .min_by_key(|(distance, _)| *distance);
        match nearest {
            Some((distance, candidate)) if distance <= 1 + candidate.len() / 3 => {
                format!("unknown key: did you mean \"{candidate}\"?")
            }
            _ => format!("unknown key: known here are {}", candidates.join(", ")),
        }
    }
}
