//! A setting file: commands and values that put a setting of any program in force, and undo it.
//!
//! The machine is restored after each block. If the trial is killed, its watchdog undoes the
//! setting.

use crate::trial::command::run;
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use wattline_host::{OWN_PROGRAM, Watchdog, outlive};
use wattline_linux::sysfs::Tree;
use wattline_units::Span;

/// Placeholder in `leave` for the last word that `before` printed.
const BEFORE: &str = "{before}";
const LIMIT: Span = Span::from_millis(30_000);
const LONGEST: Span = Span::from_millis(600_000);
const LOOK: Duration = Duration::from_millis(20);

/// The table `[setting]`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Keys {
    before: Option<Vec<String>>,
    enter: Vec<Vec<String>>,
    leave: Vec<Vec<String>>,
    check: Vec<Vec<String>>,
    versions: Vec<Vec<String>>,
    write: BTreeMap<String, String>,
    settle: Option<String>,
    limit: Option<String>,
}

/// A setting made by commands.
#[derive(Debug, Clone)]
pub struct SettingFile {
    keys: Keys,
    settle: Span,
    limit: Span,
    /// Last word that `before` printed when the trial began.
    before: Option<String>,
}

/// Everything needed to undo a setting, for this process and for its watchdog.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Undo {
    commands: Vec<Vec<String>>,
    /// Files and their values before, in the order of restoring.
    files: Vec<(String, String)>,
    limit_seconds: f64,
}

/// A setting in force.
pub struct InForce<'a> {
    file: &'a SettingFile,
    tree: &'a Tree,
    undo: Undo,
    /// Values as read after writing.
    written: Vec<(String, String)>,
    watchdog: Watchdog,
}

impl SettingFile {
    /// Parses a text that has a table `[setting]`, and returns the setting and the rest of the
    /// text, which is a configuration of the governor. `None` without that table.
    ///
    /// # Errors
    /// A text, with the place.
    pub fn parse(text: &str) -> Result<Option<(Self, String)>, String> {
        // Without this table, the configuration's reader reports the mistakes.
        let Ok(mut whole) = text.parse::<toml::Table>() else { return Ok(None) };
        if whole.remove("setting").is_none() {
            return Ok(None);
        }
        #[derive(Deserialize)]
        struct Document {
            setting: Keys,
        }
        let Document { setting: keys } =
            toml::from_str(text).map_err(|error| error.to_string().trim_end().to_owned())?;
        let span = |text: &Option<String>, key: &str, default: Span| match text {
            None => Ok(default),
            Some(text) => match text.parse::<Span>() {
                Ok(span) if span <= LONGEST => Ok(span),
                Ok(_) => Err(format!("{key}: {text}, expected 10min at most")),
                Err(error) => Err(format!("{key}: {error}")),
            },
        };
        let (settle, limit) =
            (span(&keys.settle, "settle", Span::ZERO)?, span(&keys.limit, "limit", LIMIT)?);
        if !keys.enter.is_empty() && keys.leave.is_empty() {
            return Err("enter has commands, and leave has none that undo them".to_owned());
        }
        let named = |words: &Vec<String>| words.iter().any(|word| word.contains(BEFORE));
        if keys.before.is_none() && keys.leave.iter().any(named) {
            return Err(format!("leave has {BEFORE}, and there is no command `before`"));
        }
        let commands = [&keys.enter, &keys.leave, &keys.check, &keys.versions];
        if commands.into_iter().flatten().chain(&keys.before).any(Vec::is_empty) {
            return Err(
                "a command has no program: expected [\"PROGRAM\", \"ARGUMENT\", ...]".to_owned()
            );
        }
        let is_elsewhere = |path: &&String| {
            let path = Path::new(path.as_str());
            let below = path.starts_with("/sys") || path.starts_with("/proc/sys");
            !below || path.components().any(|part| part == std::path::Component::ParentDir)
        };
        if let Some(path) = keys.write.keys().find(is_elsewhere) {
            return Err(format!("write: {path}, expected a path below /sys or /proc/sys"));
        }
        // A setting by itself governs nothing.
        let govern = whole.entry("govern").or_insert_with(|| toml::Table::new().into());
        if let Some(govern) = govern.as_table_mut() {
            govern.entry("knobs").or_insert_with(|| toml::Value::Array(Vec::new()));
        }
        Ok(Some((Self { keys, settle, limit, before: None }, whole.to_string())))
    }

    /// Records the state before the trial, and returns the versions of the compared programs.
    ///
    /// # Errors
    /// When a command fails.
    pub fn prepare(&mut self) -> Result<Vec<String>, String> {
        let limit = self.limit.into();
        if let Some(words) = &self.keys.before {
            let text = run(words, limit, |_| ())?;
            let word = text.split_whitespace().next_back();
            let word = word.ok_or_else(|| format!("{}: printed nothing", words.join(" ")))?;
            self.before = Some(word.to_owned());
        }
        let first = |words: &Vec<String>| {
            let text = run(words, limit, |_| ())?;
            Ok(text.lines().next().unwrap_or_default().trim().to_owned())
        };
        self.keys.versions.iter().map(first).collect()
    }

    fn undo(&self, tree: &Tree) -> Result<Undo, String> {
        let mut files = Vec::new();
        for pattern in self.keys.write.keys() {
            let matching = matching(tree, pattern);
            if matching.is_empty() {
                return Err(format!("write: {pattern}: this machine has no such file"));
            }
            for path in matching {
                let value = tree.text(&path).map_err(|error| error.to_string())?;
                files.push((path.display().to_string(), value));
            }
        }
        files.reverse();
        let before = self.before.as_deref().unwrap_or_default();
        let words =
            |words: &Vec<String>| words.iter().map(|it| it.replace(BEFORE, before)).collect();
        let commands = self.keys.leave.iter().map(words).collect();
        Ok(Undo { commands, files, limit_seconds: self.limit.as_seconds() })
    }

    /// Puts the setting in force, and waits until it has settled.
    ///
    /// # Errors
    /// When a command or a write fails, or a signal arrived; the setting is undone then.
    pub fn enter<'a>(&'a self, tree: &'a Tree, stop: &AtomicBool) -> Result<InForce<'a>, String> {
        let undo = self.undo(tree)?;
        let text = serde_json::to_string(&undo).map_err(|error| error.to_string())?;
        let (program, root) = (Path::new(OWN_PROGRAM), tree.path("/"));
        let watchdog = Watchdog::start_with(program, &root, ["--undo", &text])
            .map_err(|error| format!("cannot start the watchdog: {error}"))?;
        let mut force = InForce { file: self, tree, undo, written: Vec::new(), watchdog };
        match force.begin(stop) {
            Ok(()) => Ok(force),
            Err(why) => match force.leave() {
                Ok(()) => Err(why),
                Err(left) => Err(format!("{why}\n{left}")),
            },
        }
    }
}

impl InForce<'_> {
    fn begin(&mut self, stop: &AtomicBool) -> Result<(), String> {
        for (path, _) in self.undo.files.iter().rev() {
            let fits =
                |(pattern, _): &(&String, &String)| fits(Path::new(pattern), Path::new(path));
            let value =
                self.file.keys.write.iter().find(fits).map_or("", |(_, value)| value.as_str());
            write(self.tree, path, value)?;
            let reads = self.tree.text(path).map_err(|error| error.to_string())?;
            self.written.push((path.clone(), reads));
        }
        self.run(&self.file.keys.enter)?;
        let end = Instant::now() + Duration::from(self.file.settle);
        while Instant::now() < end && !stop.load(Ordering::Relaxed) {
            std::thread::sleep(LOOK.min(end.saturating_duration_since(Instant::now())));
        }
        self.check()
    }

    fn run(&mut self, commands: &[Vec<String>]) -> Result<(), String> {
        let (limit, watchdog) = (self.file.limit.into(), &mut self.watchdog);
        commands.iter().try_for_each(|words| {
            run(words, limit, |group| watchdog.note(&group.to_string())).map(drop)
        })
    }

    /// Checks that the setting is in force.
    ///
    /// # Errors
    /// With the command that fails, or the value that has changed.
    pub fn check(&mut self) -> Result<(), String> {
        for (path, value) in &self.written {
            let now = self.tree.text(path).map_err(|error| error.to_string())?;
            if now != *value {
                return Err(format!("not in force: {path} is {now:?}, was set to {value:?}"));
            }
        }
        self.run(&self.file.keys.check).map_err(|why| format!("not in force: {why}"))
    }

    /// Undoes the setting.
    ///
    /// # Errors
    /// With all failures; the watchdog retries when this process has ended.
    pub fn leave(self) -> Result<(), String> {
        match self.undo.run(self.tree) {
            Ok(()) => {
                self.watchdog.dismiss();
                Ok(())
            }
            Err(why) => {
                self.watchdog.leave_the_rest();
                Err(format!("the machine may not be as before:\n{why}"))
            }
        }
    }
}

impl Undo {
    /// Runs everything, despite failures.
    fn run(&self, tree: &Tree) -> Result<(), String> {
        let limit = Duration::try_from_secs_f64(self.limit_seconds).unwrap_or(LIMIT.into());
        let commands = self.commands.iter().map(|words| run(words, limit, |_| ()).map(drop));
        let files = self.files.iter().map(|(path, value)| write(tree, path, value));
        let failed: Vec<String> = commands.chain(files).filter_map(Result::err).collect();
        if failed.is_empty() { Ok(()) } else { Err(failed.join("\n")) }
    }
}

/// Runs the watchdog of a setting: undoes it if the trial dies, after ending the command that still
/// runs.
///
/// # Errors
/// With all failures.
pub fn undo_after(pipe: impl Read, tree: &Tree, undo: &str) -> Result<(), String> {
    let undo: Undo = serde_json::from_str(undo).map_err(|error| error.to_string())?;
    let Some(note) = outlive(pipe) else { return Ok(()) };
    if let Some(group) = note.parse().ok().filter(|group| *group > 1).and_then(Pid::from_raw) {
        let _ = kill_process_group(group, Signal::KILL);
        let end = Instant::now() + Duration::from_secs(5);
        while test_kill_process_group(group).is_ok() && Instant::now() < end {
            std::thread::sleep(LOOK);
        }
    }
    undo.run(tree)
}

fn write(tree: &Tree, path: &str, value: &str) -> Result<(), String> {
    // On the live machine, /sys/class has links, which writing does not follow.
    let live = tree.is_live().then(|| std::fs::canonicalize(path).ok()).flatten();
    let place = live.unwrap_or_else(|| PathBuf::from(path));
    tree.write(&place, value).map_err(|error| format!("{path}: cannot write {value:?}: {error}"))
}

/// Returns the files that match a pattern.
fn matching(tree: &Tree, pattern: &str) -> Vec<PathBuf> {
    let mut found = vec![PathBuf::from("/")];
    for part in Path::new(pattern).components().skip(1) {
        let part = part.as_os_str().to_string_lossy().into_owned();
        let below = |parent: PathBuf| -> Vec<PathBuf> {
            if !part.contains('*') {
                return vec![parent.join(&part)];
            }
            let names = tree.entries(&parent).into_iter().filter(|name| fits_name(&part, name));
            names.map(|name| parent.join(name)).collect()
        };
        found = found.into_iter().flat_map(below).collect();
    }
    found.retain(|path| tree.is_file(path));
    found.sort();
    found
}

fn fits(pattern: &Path, path: &Path) -> bool {
    let parts = (pattern.components(), path.components());
    parts.0.clone().count() == parts.1.clone().count()
        && parts.0.zip(parts.1).all(|(pattern, part)| {
            fits_name(&pattern.as_os_str().to_string_lossy(), &part.as_os_str().to_string_lossy())
        })
}

/// Returns true if a name fits a pattern, in which `*` stands for digits: `cpu*` does not match
/// `cpufreq`.
fn fits_name(pattern: &str, name: &str) -> bool {
    let Some((front, back)) = pattern.split_once('*') else { return pattern == name };
    let middle = name.strip_prefix(front).and_then(|rest| rest.strip_suffix(back));
    middle.is_some_and(|it| !it.is_empty() && it.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        SettingFile::parse(&format!("[setting]\n{text}\n")).unwrap_err()
    }

    #[test]
    fn mistakes_are_named_and_a_configuration_is_none() {
        assert!(SettingFile::parse("[govern]\nknobs = []\n").unwrap().is_none());
        assert!(SettingFile::parse("nonsense").unwrap().is_none());
        for (text, says) in [
            ("enter = [[\"a\"]]", "leave has none"),
            ("leave = [[\"a\", \"{before}\"]]", "no command `before`"),
            ("enter = [[]]\nleave = [[\"a\"]]", "no program"),
            ("enter = \"a b\"", "line 2"),
            ("enters = []", "unknown field `enters`"),
            ("settle = \"2\"", "settle: \"2\" is not"),
            ("limit = \"2h\"", "10min at most"),
            ("write = { \"/etc/passwd\" = \"x\" }", "below /sys or /proc/sys"),
            ("write = { \"/sys/../etc/passwd\" = \"x\" }", "below /sys or /proc/sys"),
        ] {
            let error = refused(text);
            assert!(error.contains(says), "{says}: {error}");
        }
    }

    #[test]
    fn shipped_examples_are_settings() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/trial");
        let files = std::fs::read_dir(directory).unwrap().map(|file| file.unwrap().path());
        let files = files.filter(|path| path.extension().is_some_and(|it| it == "toml"));
        let read = |path: PathBuf| {
            let text = std::fs::read_to_string(&path).unwrap();
            assert!(SettingFile::parse(&text).unwrap().is_some(), "{}", path.display());
        };
        assert_eq!(files.map(read).count(), 8);
    }

    #[test]
    fn rest_of_the_file_is_a_configuration_that_governs_nothing() {
        let text = "[setting]\n[[latency]]\nname = \"a\"\ntcp = [80]\n";
        let (_, rest) = SettingFile::parse(text).unwrap().unwrap();
        let config = crate::config::Config::parse(&rest, "a", wattline_policies::POLICIES).unwrap();
        assert!(!config.scope.frequency && config.latency.len() == 1);
    }

    #[test]
    fn values_of_all_matching_files_are_noted() {
        let root = tempfile::tempdir().unwrap();
        let tree = Tree::at(root.path());
        for (name, value) in [("cpu0", "a"), ("cpu1", "b"), ("cpufreq", "c"), ("cpu10x", "d")] {
            let directory = root.path().join("sys/cpu").join(name);
            std::fs::create_dir_all(&directory).unwrap();
            std::fs::write(directory.join("governor"), value).unwrap();
        }
        let text = "[setting]\nwrite = { \"/sys/cpu/cpu*/governor\" = \"z\" }\n\
                    before = [\"printf\", \"one two\\n\"]\nleave = [[\"x\", \"={before}=\"]]\n\
                    versions = [[\"echo\", \"v 1\"]]\n";
        let (mut file, _) = SettingFile::parse(text).unwrap().unwrap();
        assert_eq!(file.prepare().unwrap(), ["v 1"]);
        let undo = file.undo(&tree).unwrap();
        let value =
            |name: &str, value: &str| (format!("/sys/cpu/{name}/governor"), value.to_owned());
        assert_eq!(undo.files, [value("cpu1", "b"), value("cpu0", "a")]);
        assert_eq!(undo.commands, [["x", "=two="]]);
        write(&tree, "/sys/cpu/cpu0/governor", "z").unwrap();
        Undo { commands: Vec::new(), ..undo }.run(&tree).unwrap();
        assert_eq!(tree.text("/sys/cpu/cpu0/governor").unwrap(), "a");
        let (file, _) =
            SettingFile::parse("[setting]\nwrite = { \"/sys/none\" = \"1\" }").unwrap().unwrap();
        assert!(file.undo(&tree).unwrap_err().contains("no such file"));
    }
}
