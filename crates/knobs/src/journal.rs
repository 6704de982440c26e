//! What was changed, on disk before it is changed.
//!
//! One line of JSON per entry, each with the boot to which it belongs:
//!
//! ```text
//! {"boot":"3e5a…","setting":"/sys/…/scaling_max_freq","old":"3300000","new":"1600000"}
//! {"boot":"3e5a…","setting":"/sys/…/scaling_max_freq","found":"1600000"}
//! ```
//!
//! An *intent* (`old`, `new`) is in the file before a setting gets a value that it was not given
//! before, and the first one of a setting, with its old value, is flushed to the disk; *found*
//! says what reading back gave. So however the file ends, it holds the original value of
//! everything that was touched, and every value that is ours. (Later values need no flush: they
//! count only while this kernel runs, and that has them in its cache.) A last line that was cut
//! describes a write that never began. A file that grows long is written anew with the latest
//! values of ours.

use crate::setting::Setting;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Thousands of settings with dozens of values each stay far below it.
const LONGEST_JOURNAL: u64 = 64 << 20;
/// A journal is written anew when it has grown by so much.
const COMPACT_AFTER: usize = 1 << 20;
/// Values of ours that a journal keeps of a setting when it is written anew.
const VALUES_KEPT: usize = 64;
/// `O_NOFOLLOW | O_NONBLOCK`: neither a link to another file nor a pipe is a journal.
const O_PLAIN: i32 = rustix::fs::OFlags::NOFOLLOW.union(rustix::fs::OFlags::NONBLOCK).bits() as i32;

#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
enum Line {
    Intent { boot: String, setting: Setting, old: String, new: String },
    Found { boot: String, setting: Setting, found: String },
}

/// One setting that was changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// What was changed.
    pub setting: Setting,
    /// Its value before the first change.
    pub old: String,
    /// The values that it was given, or showed after it was given one; the latest comes last.
    pub ours: Vec<String>,
    /// The last value may not have been read back: the writer was stopped in between.
    pub unfinished: bool,
}

/// A journal as it was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Contents {
    /// Changes under the present boot, in the order in which they were first made.
    pub entries: Vec<Entry>,
    /// Changes under another boot: they went away with that kernel.
    pub outlived: usize,
    /// Lines that make no sense, with their number and the reason; a cut last line excepted.
    pub bad_lines: Vec<String>,
}

/// The journal cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// It cannot be read, made, written or flushed.
    #[error("{}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        error: io::Error,
    },
    /// Somebody else could have written it, and would set our values as root.
    #[error("{}: {what}; it is not followed. Look at it, then remove it", path.display())]
    Untrusted {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
}

/// A journal that is being written.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    boot: String,
    entries: Vec<Entry>,
    index: BTreeMap<Setting, usize>,
    /// Bytes since it was written anew.
    grown: usize,
}

/// Reads a journal; an absent one is empty.
///
/// # Errors
/// [`JournalError`].
pub fn read(path: &Path, boot: &str) -> Result<Contents, JournalError> {
    let failed = |error| JournalError::File { path: path.to_path_buf(), error };
    let untrusted = |what: String| JournalError::Untrusted { path: path.to_path_buf(), what };
    let file = match File::options().read(true).custom_flags(O_PLAIN).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Contents::default()),
        Err(error) => return Err(failed(error)),
    };
    let metadata = file.metadata().map_err(failed)?;
    let own = rustix::process::geteuid().as_raw();
    if !metadata.is_file() || metadata.len() > LONGEST_JOURNAL {
        return Err(untrusted("not a plain file of sensible length".into()));
    }
    if metadata.mode() & 0o022 != 0 || (metadata.uid() != own && metadata.uid() != 0) {
        return Err(untrusted(format!(
            "others may write it (mode {:o}, owner {})",
            metadata.mode() & 0o7777,
            metadata.uid()
        )));
    }
    let mut bytes = Vec::new();
    file.take(LONGEST_JOURNAL).read_to_end(&mut bytes).map_err(failed)?;
    Ok(parse(&bytes, boot))
}

/// The meaning of the bytes of a journal under the boot `boot`.
pub fn parse(bytes: &[u8], boot: &str) -> Contents {
    let mut contents = Contents::default();
    let mut index: BTreeMap<Setting, usize> = BTreeMap::new();
    for (number, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
        // Cut: the write that it announces had not begun.
        let Some(line) = line.strip_suffix(b"\n") else { break };
        match serde_json::from_slice::<Line>(line) {
            Ok(Line::Intent { boot: other, .. } | Line::Found { boot: other, .. })
                if other != boot =>
            {
                contents.outlived += 1;
            }
            Ok(line) => {
                if let Err(why) = take(&mut contents.entries, &mut index, line) {
                    contents.bad_lines.push(format!("line {}: {why}", number + 1));
                }
            }
            Err(error) => contents.bad_lines.push(format!("line {}: {error}", number + 1)),
        }
    }
    contents
}

fn take(
    entries: &mut Vec<Entry>,
    index: &mut BTreeMap<Setting, usize>,
    line: Line,
) -> Result<(), String> {
    match line {
        Line::Intent { setting, old, new, .. } => {
            if [&old, &new].iter().any(|value| value.contains(char::is_control)) {
                return Err(format!("a value of {setting} holds control characters"));
            }
            if let Some(at) = index.get(&setting) {
                entries[*at].note(new);
                entries[*at].unfinished = true;
            } else {
                index.insert(setting.clone(), entries.len());
                entries.push(Entry { setting, old, ours: vec![new], unfinished: true });
            }
        }
        Line::Found { setting, found, .. } => {
            let at = index.get(&setting).ok_or_else(|| format!("{setting} was never written"))?;
            entries[*at].unfinished = false;
            entries[*at].note(found);
        }
    }
    Ok(())
}

impl Entry {
    /// Takes a value as ours, the latest.
    fn note(&mut self, value: String) {
        self.ours.retain(|known| *known != value);
        self.ours.push(value);
    }
}

impl Journal {
    /// Begins a new one in the place of whatever was there; restore that first.
    ///
    /// # Errors
    /// [`JournalError::File`].
    pub fn create(path: &Path, boot: &str) -> Result<Self, JournalError> {
        let failed = |error| JournalError::File { path: path.to_path_buf(), error };
        remove(path)?;
        let file =
            File::options().append(true).create_new(true).mode(0o600).open(path).map_err(failed)?;
        sync_directory(path).map_err(failed)?;
        let (entries, index) = (Vec::new(), BTreeMap::new());
        let (path, boot) = (path.to_path_buf(), boot.to_string());
        Ok(Self { path, file, boot, entries, index, grown: 0 })
    }

    /// Notes that `setting`, now at `present`, is about to get `new`; returns when the old value
    /// is on the disk. Costs nothing for a value that it was given before.
    ///
    /// # Errors
    /// [`JournalError::File`]: then the setting must not be written.
    pub fn intend(
        &mut self,
        setting: &Setting,
        present: &str,
        new: &str,
    ) -> Result<(), JournalError> {
        if self.grown > COMPACT_AFTER {
            self.compact().map_err(|error| self.failed(error))?;
        }
        let known = self.index.get(setting).and_then(|at| self.entries.get_mut(*at));
        let (old, first) = match known {
            Some(entry) if entry.ours.iter().any(|value| value == new) => {
                entry.note(new.to_string());
                return Ok(());
            }
            Some(entry) => (entry.old.clone(), false),
            None => (present.to_string(), true),
        };
        let boot = self.boot.clone();
        let (setting, new) = (setting.clone(), new.to_string());
        self.append(Line::Intent { boot, setting, old, new })?;
        if first { self.file.sync_data().map_err(|error| self.failed(error)) } else { Ok(()) }
    }

    /// Writes the file anew, with the latest values of each setting, in the place of the old.
    fn compact(&mut self) -> io::Result<()> {
        let mut bytes = Vec::new();
        for entry in &mut self.entries {
            entry.ours.drain(..entry.ours.len().saturating_sub(VALUES_KEPT));
            let Entry { setting, old, ours, unfinished } = &*entry;
            let (boot, setting) = (&self.boot, setting.clone());
            let mut put = |line: Line| -> io::Result<()> {
                serde_json::to_writer(&mut bytes, &line)?;
                bytes.push(b'\n');
                Ok(())
            };
            for new in ours {
                let (setting, old, new) = (setting.clone(), old.clone(), new.clone());
                put(Line::Intent { boot: boot.clone(), setting, old, new })?;
            }
            if let (false, Some(found)) = (unfinished, ours.last()) {
                put(Line::Found { boot: boot.clone(), setting, found: found.clone() })?;
            }
        }
        let new = self.path.with_extension("journal.new");
        let _ = std::fs::remove_file(&new);
        let mut file = File::options().append(true).create_new(true).mode(0o600).open(&new)?;
        file.write_all(&bytes)?;
        file.sync_all()?;
        std::fs::rename(&new, &self.path)?;
        sync_directory(&self.path)?;
        (self.file, self.grown) = (file, 0);
        Ok(())
    }

    /// Notes what `setting` shows after it was written.
    ///
    /// # Errors
    /// [`JournalError::File`].
    pub fn found(&mut self, setting: &Setting, value: &str) -> Result<(), JournalError> {
        let known = self.entry(setting);
        if known.is_some_and(|entry| !entry.unfinished && entry.ours.iter().any(|v| v == value)) {
            return Ok(());
        }
        // Not flushed: it matters only while this kernel runs, and that has it in its cache.
        self.append(Line::Found {
            boot: self.boot.clone(),
            setting: setting.clone(),
            found: value.to_string(),
        })
    }

    /// What is known of a setting that was changed.
    pub fn entry(&self, setting: &Setting) -> Option<&Entry> {
        self.index.get(setting).map(|at| &self.entries[*at])
    }

    /// All settings that were changed, in the order of their first change.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    fn append(&mut self, line: Line) -> Result<(), JournalError> {
        let mut bytes = serde_json::to_vec(&line).map_err(|error| self.failed(error.into()))?;
        bytes.push(b'\n');
        self.file.write_all(&bytes).map_err(|error| self.failed(error))?;
        self.grown += bytes.len();
        // Our own lines always make sense: the setting of a Found was intended before.
        let _ = take(&mut self.entries, &mut self.index, line);
        Ok(())
    }

    fn failed(&self, error: io::Error) -> JournalError {
        JournalError::File { path: self.path.clone(), error }
    }
}

/// Removes a journal whose changes are undone.
///
/// # Errors
/// [`JournalError::File`].
pub fn remove(path: &Path) -> Result<(), JournalError> {
    match std::fs::remove_file(path) {
        Ok(()) => sync_directory(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
    .map_err(|error| JournalError::File { path: path.to_path_buf(), error })
}

/// A name is on disk only when its directory is.
fn sync_directory(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), |directory| File::open(directory)?.sync_all())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: &str = "/sys/devices/system/cpu/cpufreq/policy0/scaling_max_freq";

    fn written() -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal");
        let setting: Setting = MAX.parse().unwrap();
        let mut journal = Journal::create(&path, "boot-a").unwrap();
        journal.intend(&setting, "3300000", "1650000").unwrap();
        journal.found(&setting, "1600000").unwrap();
        journal.intend(&setting, "1600000", "2400000").unwrap();
        journal.found(&setting, "2400000").unwrap();
        // Known values cost no further line.
        journal.intend(&setting, "2400000", "1650000").unwrap();
        journal.found(&setting, "1600000").unwrap();
        (directory, path)
    }

    #[test]
    fn the_original_value_and_all_of_ours_are_kept() {
        let (_directory, path) = written();
        let contents = read(&path, "boot-a").unwrap();
        assert_eq!(contents.bad_lines, Vec::<String>::new());
        let [entry] = &contents.entries[..] else { panic!("{contents:?}") };
        assert_eq!(entry.old, "3300000");
        assert_eq!(entry.ours, ["1650000", "1600000", "2400000"]);
        assert!(!entry.unfinished);
        assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 4);
    }

    #[test]
    fn a_long_run_keeps_the_journal_short_and_the_old_value_in_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal");
        let table: Setting = "ethtool:eth0/redirect-table".parse().unwrap();
        let mut journal = Journal::create(&path, "boot-a").unwrap();
        let mut present = "0,1".repeat(128);
        let old = present.clone();
        for turn in 0..20_000 {
            let new = format!("{turn},{}", "0,1".repeat(128));
            journal.intend(&table, &present, &new).unwrap();
            journal.found(&table, &new).unwrap();
            present = new;
        }
        assert!(std::fs::metadata(&path).unwrap().len() < 2 << 20);
        let contents = read(&path, "boot-a").unwrap();
        assert_eq!(contents.bad_lines, Vec::<String>::new());
        let [entry] = &contents.entries[..] else { panic!("{}", contents.entries.len()) };
        assert_eq!((&entry.old, entry.unfinished), (&old, false));
        assert_eq!(entry.ours.last(), Some(&present));
    }

    #[test]
    fn changes_of_another_boot_are_not_ours_to_undo() {
        let (_directory, path) = written();
        let contents = read(&path, "boot-b").unwrap();
        assert_eq!((contents.entries.len(), contents.outlived), (0, 4));
    }

    #[test]
    fn hostile_lines_are_named_and_the_rest_is_used() {
        let (_directory, path) = written();
        let mut text = std::fs::read_to_string(&path).unwrap();
        text.insert_str(0, "garbage\n{\"boot\":\"boot-a\",\"setting\":\"/etc/shadow\",\"old\":\"a\",\"new\":\"b\"}\n");
        text.push_str(
            "{\"boot\":\"boot-a\",\"setting\":\"ethtool:e/rx-usecs\",\"found\":\"1\"}\n{\"cut",
        );
        let contents = parse(text.as_bytes(), "boot-a");
        assert_eq!(contents.entries.len(), 1);
        assert_eq!(contents.bad_lines.len(), 3, "{:?}", contents.bad_lines);
        assert!(contents.bad_lines[1].starts_with("line 2: "), "{:?}", contents.bad_lines);
    }

    #[test]
    fn a_journal_that_others_may_write_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let (directory, path) = written();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
        assert!(matches!(read(&path, "boot-a"), Err(JournalError::Untrusted { .. })));
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(read(&link, "boot-a").is_err());
        assert_eq!(read(&directory.path().join("none"), "boot-a").unwrap(), Contents::default());
    }
}
