//! Lists of keys for readers: a commented file and a reference page.

use super::key::{Key, Section};
use std::fmt::Write;

/// Formats keys, with their defaults and meaning, as a configuration file. Keys without a default,
/// and sections for which `always` is false, are commented out.
pub fn toml<'a>(
    keys: impl IntoIterator<Item = &'a Key>,
    always: impl Fn(Section) -> bool,
) -> String {
    let mut text = String::from(
        "# Every key of a Wattline configuration with its default.\n\
         # Commented lines are examples of keys that have no fixed default.\n",
    );
    let mut current = Section::Top;
    for key in keys {
        let optional = !always(key.section);
        if key.section != current {
            let comment = if optional { "# " } else { "" };
            let _ = writeln!(text, "\n{comment}{}", key.section.heading());
            current = key.section;
        }
        text.push('\n');
        for line in key.doc.lines() {
            let _ = writeln!(text, "# {line}");
        }
        let _ = writeln!(text, "# Allowed: {}.", key.allowed);
        let _ = match key.default {
            Some(default) if !optional => writeln!(text, "{} = {default}", key.name),
            Some(default) => writeln!(text, "# {} = {default}", key.name),
            None => writeln!(text, "# {} = {}", key.name, key.example),
        };
    }
    text
}

/// Formats keys as the body of a reference page, in Markdown: name, default in brackets, meaning,
/// values.
pub fn markdown<'a>(keys: impl IntoIterator<Item = &'a Key>) -> String {
    let mut text = String::new();
    let mut current = None;
    for key in keys {
        if current != Some(key.section) {
            let _ = write!(text, "\n### {}\n\n", key.section.heading());
            current = Some(key.section);
        }
        let default = key.default.map(|default| format!(" (`{default}`)")).unwrap_or_default();
        let doc = key.doc.replace('\n', " ");
        let _ = writeln!(
            text,
            "- `{}`{default}: {doc} *Allowed: {}, e.g. `{}`.*",
            key.name, key.allowed, key.example
        );
    }
    text
}
