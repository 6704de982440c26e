//! The configuration in force, setting by setting, while its file changes.

use crate::settings::key::{Key, Section};
use std::collections::BTreeMap;
use toml::{Table, Value};

/// Stands for a value that is not shown.
const HIDDEN: &str = "\"(not shown)\"";

/// A setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// Heading of its section; empty at the top level.
    pub section: String,
    /// Number of the section among those with the same heading, from 0.
    pub place: usize,
    /// Name of the key.
    pub key: String,
    /// Value as TOML; hidden for a secret.
    pub value: String,
    /// True if the file does not set it.
    pub is_default: bool,
}

/// Settings of a file: by heading, and by place and key within it.
type Settings = BTreeMap<String, BTreeMap<(usize, String), String>>;

/// Settings of a file that are in force, and settings that wait for a restart.
#[derive(Debug, Clone, Default)]
pub struct Running {
    in_force: Settings,
    waiting: Settings,
}

impl Running {
    /// Puts all settings of a text in force. A text that is not TOML has none.
    pub fn new(text: &str) -> Self {
        Self { in_force: settings(text), waiting: Settings::new() }
    }

    /// Takes over the settings of another text, except those that need a restart: sections by their
    /// heading, such as `[[acl]]`, and keys behind it, such as `[router] workers`.
    pub fn reload(&mut self, text: &str, needs_restart: &[&str]) {
        let waits = |heading: &str, key: &str| {
            needs_restart.iter().any(|name| {
                *name == heading
                    || name.strip_prefix(heading).is_some_and(|rest| rest.trim_start() == key)
            })
        };
        let split = |all: Settings, waiting: bool| {
            let mut kept = all;
            for (heading, keys) in &mut kept {
                keys.retain(|(_, key), _| waits(heading, key) == waiting);
            }
            kept.retain(|_, keys| !keys.is_empty());
            kept
        };
        let old = split(std::mem::take(&mut self.in_force), true);
        self.in_force = split(settings(text), false);
        self.waiting = split(settings(text), true);
        for (heading, keys) in old {
            self.in_force.entry(heading).or_default().extend(keys);
        }
        // Unchanged settings do not wait.
        for (heading, keys) in &mut self.waiting {
            let same = self.in_force.get(heading);
            keys.retain(|key, value| same.and_then(|it| it.get(key)) != Some(value));
        }
        self.waiting.retain(|_, keys| !keys.is_empty());
    }

    /// Returns the settings in force, with the defaults of the sections for which `always` is true
    /// and of those that the file has once.
    pub fn in_force(&self, keys: &[&Key], always: impl Fn(Section) -> bool) -> Vec<Setting> {
        let mut all = shown(&self.in_force, keys);
        for key in keys {
            let heading = heading(key.section);
            let repeated = heading.starts_with("[[");
            let holds = always(key.section) || self.in_force.contains_key(heading) && !repeated;
            let is_set = all.iter().any(|it| it.section == heading && it.key == key.name);
            if let (true, false, Some(default)) = (holds, is_set, key.default) {
                all.push(Setting {
                    section: heading.to_owned(),
                    place: 0,
                    key: key.name.to_owned(),
                    value: default.to_owned(),
                    is_default: true,
                });
            }
        }
        all.sort_by(|one, other| {
            let place = |it: &Setting| (it.section.clone(), it.place, it.key.clone());
            place(one).cmp(&place(other))
        });
        all
    }

    /// Returns the settings of the file that wait for a restart.
    pub fn waiting(&self, keys: &[&Key]) -> Vec<Setting> {
        shown(&self.waiting, keys)
    }
}

/// Returns the heading of a section, as settings name it.
fn heading(section: Section) -> &'static str {
    match section {
        Section::Top => "",
        section @ Section::Named(_) => section.heading(),
    }
}

fn shown(settings: &Settings, keys: &[&Key]) -> Vec<Setting> {
    let setting = |section: &String, place: usize, key: &String, value: &String| {
        // An unknown key may be a secret.
        let is_open = |known: &&Key| {
            let of_section = heading(known.section) == section && known.name == key;
            let of_table = heading(known.section) == format!("{section} {key}");
            (of_section || of_table) && !known.secret
        };
        let value = if keys.iter().any(is_open) { value } else { HIDDEN };
        let (section, key, value) = (section.clone(), key.clone(), value.to_owned());
        Setting { section, place, key, value, is_default: false }
    };
    let of_section = |(section, keys): (&String, &BTreeMap<(usize, String), String>)| {
        let one = |((place, key), value): (&(usize, String), &String)| {
            setting(section, *place, key, value)
        };
        keys.iter().map(one).collect::<Vec<_>>()
    };
    settings.iter().flat_map(of_section).collect()
}

fn settings(text: &str) -> Settings {
    let mut settings = Settings::new();
    let mut add = |heading: String, place: usize, table: &Table| {
        let keys = settings.entry(heading).or_default();
        keys.extend(table.iter().map(|(key, value)| ((place, key.clone()), value.to_string())));
    };
    for (name, value) in text.parse::<Table>().unwrap_or_default() {
        match value {
            Value::Table(table) => add(format!("[{name}]"), 0, &table),
            Value::Array(all) if !all.is_empty() && all.iter().all(Value::is_table) => {
                for (place, table) in all.iter().filter_map(Value::as_table).enumerate() {
                    add(format!("[[{name}]]"), place, table);
                }
            }
            value => add(String::new(), 0, &Table::from_iter([(name, value)])),
        }
    }
    settings
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUTER: Section = Section::Named("[router]");
    const RULE: Section = Section::Named("[[rule]]");
    const SAVER: Section = Section::Named("[saver]");
    const KEYS: &[Key] = &[
        Key::new(Section::Top, "file", None, "\"x\"", "a path", "File."),
        Key::whole(ROUTER, "workers", Some("1"), "2", 1..=8, "Workers."),
        Key::new(ROUTER, "mode", Some("\"adaptive\""), "\"poll\"", "a mode", "Mode."),
        Key::new(RULE, "name", None, "\"x\"", "a name", "Name."),
        Key::whole(RULE, "weight", Some("1"), "2", 1..=8, "Weight."),
        Key::new(SAVER, "secret", Some("\"\""), "\"x\"", "a text", "Secret.").secret(),
        Key::whole(SAVER, "period", Some("32"), "64", 8..=128, "Period."),
        Key::new(Section::Named("[[rule]] capture"), "read", None, "\"x\"", "a path", "Capture."),
    ];

    fn lines_of(running: &Running) -> (Vec<String>, Vec<String>) {
        let keys: Vec<&Key> = KEYS.iter().collect();
        let line = |it: &Setting| {
            let mark = if it.is_default { " (default)" } else { "" };
            format!("{}{} {} = {}{mark}", it.section, it.place, it.key, it.value)
        };
        let in_force = running.in_force(&keys, |section| section == ROUTER);
        (in_force.iter().map(line).collect(), running.waiting(&keys).iter().map(line).collect())
    }

    #[test]
    fn settings_are_shown_with_defaults_and_without_secrets() {
        let text = "file = \"r\"\n[router]\nworkers = 2\n[saver]\nsecret = \"hush\"\n[[rule]]\nname = \"a\"\n\
                    capture = { read = \"c\" }\n[[rule]]\nname = \"b\"\nunknown = \"hush\"\n";
        let (in_force, waiting) = lines_of(&Running::new(text));
        assert_eq!(
            in_force,
            [
                "0 file = \"r\"",
                "[[rule]]0 capture = { read = \"c\" }",
                "[[rule]]0 name = \"a\"",
                "[[rule]]1 name = \"b\"",
                "[[rule]]1 unknown = \"(not shown)\"",
                "[router]0 mode = \"adaptive\" (default)",
                "[router]0 workers = 2",
                "[saver]0 period = 32 (default)",
                "[saver]0 secret = \"(not shown)\"",
            ]
        );
        assert!(waiting.is_empty(), "{waiting:?}");
        assert_eq!(lines_of(&Running::new("no TOML")).0.len(), 2, "defaults alone");
    }

    #[test]
    fn settings_that_need_a_restart_wait() {
        let mut running =
            Running::new("[router]\nworkers = 1\nmode = \"poll\"\n[[rule]]\nname = \"a\"\n");
        let text =
            "file = \"r\"\n[router]\nworkers = 2\nmode = \"sleep\"\n[[rule]]\nname = \"b\"\n";
        running.reload(text, &["[router] workers", "[[rule]]", "file"]);
        let (in_force, waiting) = lines_of(&running);
        let old = ["[[rule]]0 name = \"a\"", "[router]0 mode = \"sleep\"", "[router]0 workers = 1"];
        assert_eq!(in_force, old);
        assert_eq!(waiting, ["0 file = \"r\"", "[[rule]]0 name = \"b\"", "[router]0 workers = 2"]);
        // The same file again, and then the first one.
        running.reload(text, &["[router] workers", "[[rule]]", "file"]);
        assert_eq!(lines_of(&running), (in_force, waiting));
        running.reload("[router]\nworkers = 1\nmode = \"poll\"\n[[rule]]\nname = \"a\"\n", &[]);
        assert_eq!(lines_of(&running).1, Vec::<String>::new());
        assert_eq!(lines_of(&running).0[1], "[router]0 mode = \"poll\"");
    }
}
