//! Server models and component data that are included in the program.

use crate::input::{LoadError, nearest};
use std::borrow::Cow;

/// Name and text of every shipped server model. A new file in `crates/server/servers/` is added here.
const MODELS: &[(&str, &str)] = &[
    ("westmere-2010", include_str!("../servers/westmere-2010.toml")),
    ("xeon-silver-4108", include_str!("../servers/xeon-silver-4108.toml")),
    ("xeon-gold-6426y", include_str!("../servers/xeon-gold-6426y.toml")),
    ("xeon-platinum-8470", include_str!("../servers/xeon-platinum-8470.toml")),
    ("epyc-9654p", include_str!("../servers/epyc-9654p.toml")),
    ("xeon-e-2388g", include_str!("../servers/xeon-e-2388g.toml")),
    ("ideal-single-core", include_str!("../servers/ideal-single-core.toml")),
    ("bolla-x", include_str!("../servers/bolla-x.toml")),
    ("bolla-pd", include_str!("../servers/bolla-pd.toml")),
    ("bolla-a", include_str!("../servers/bolla-a.toml")),
    ("bolla-pm", include_str!("../servers/bolla-pm.toml")),
    ("bolla-o", include_str!("../servers/bolla-o.toml")),
    ("bolla-c2", include_str!("../servers/bolla-c2.toml")),
    ("bolla-a2", include_str!("../servers/bolla-a2.toml")),
];

/// Name and text of all shipped component data.
const COMPONENTS: &[(&str, &str)] = &[
    ("sohan-2010-nics", include_str!("../servers/components/sohan-2010-nics.toml")),
    ("liao-2011-host", include_str!("../servers/components/liao-2011-host.toml")),
];

/// Name and text of all shipped costs of applications.
const COSTS: &[(&str, &str)] =
    &[("sapphire-rapids-vm", include_str!("../servers/applications/sapphire-rapids-vm.toml"))];

/// Kind of a shipped file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Whole servers.
    Servers,
    /// Cards and parts.
    Components,
    /// Measured costs of applications.
    Costs,
}

impl Kind {
    fn files(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Servers => MODELS,
            Self::Components => COMPONENTS,
            Self::Costs => COSTS,
        }
    }
}

/// Returns the names of the shipped files of one kind.
pub fn names(kind: Kind) -> impl Iterator<Item = &'static str> {
    kind.files().iter().map(|(name, _)| *name)
}

/// Returns the text of the shipped file with this name, as a starting point for the user's own.
pub fn text_of(name: &str, kind: Kind) -> Option<&'static str> {
    kind.files().iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

/// Reads the text of a shipped file by name, or of another file by its path.
///
/// # Errors
/// Fails when there is no such file, or when it cannot be read.
pub fn read(name_or_path: &str, kind: Kind) -> Result<Cow<'static, str>, LoadError> {
    if let Some(text) = text_of(name_or_path, kind) {
        return Ok(Cow::Borrowed(text));
    }
    wattline_files::read_text(name_or_path.as_ref(), wattline_files::MOST_TEXT)
        .map(Cow::Owned)
        .map_err(|cause| LoadError::Unreadable {
            file: name_or_path.to_string(),
            cause,
            hint: hint_for(name_or_path, kind),
        })
}

/// Returns a suggestion for a name that matches no shipped file and no path.
fn hint_for(name: &str, kind: Kind) -> String {
    let known: Vec<&str> = names(kind).collect();
    match nearest(name, &known) {
        Some(near) => format!("; did you mean the shipped `{near}`?"),
        None => format!("; shipped are {}", known.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ComponentFile, MeasuredCosts, ServerFile};

    #[test]
    fn every_shipped_file_loads_under_its_own_name() {
        for name in names(Kind::Servers) {
            let file = ServerFile::load(name).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(file.name, name);
        }
        for name in names(Kind::Components) {
            let file = ComponentFile::load(name).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(file.name, name);
        }
        for name in names(Kind::Costs) {
            let file = MeasuredCosts::load(name).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(file.name, name);
            assert_eq!(file.applications.len(), 4);
        }
    }

    #[test]
    fn every_file_of_the_folder_is_shipped() {
        for (folder, kind) in [
            ("servers", Kind::Servers),
            ("servers/components", Kind::Components),
            ("servers/applications", Kind::Costs),
        ] {
            let path = format!("{}/{folder}", env!("CARGO_MANIFEST_DIR"));
            for entry in std::fs::read_dir(path).unwrap() {
                let path = entry.unwrap().path();
                if path.extension().is_some_and(|extension| extension == "toml") {
                    let name = path.file_stem().unwrap().to_str().unwrap();
                    assert!(text_of(name, kind).is_some(), "{name} is not in the list");
                }
            }
        }
    }

    #[test]
    fn mistyped_name_is_answered_with_the_nearest() {
        let error = ServerFile::load("westmere-2011").unwrap_err().to_string();
        assert!(error.contains("did you mean the shipped `westmere-2010`?"), "{error}");
    }
}
