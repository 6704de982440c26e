//! The journal: every change is on disk before it is made.
//!
//! One line of JSON per entry, each with the boot to which it belongs:
//!
//! ```text
//! {"boot":"3e5a…","setting":"/sys/…/scaling_max_freq","old":"3300000","new":"1600000"}
//! {"boot":"3e5a…","setting":"/sys/…/scaling_max_freq","found":"1600000"}
//! ```
//!
//! An *intent* (`old`, `new`) is written to the file before a setting gets a value that Wattline
//! had not given it before. The first intent of a setting, with its old value, is flushed to the
//! disk. *Found* is the value that was read back. So wherever the file ends, it contains the
//! original value of every changed setting, and every value that was set. (Later values need no
//! flush: they matter only while this kernel runs, which has them in its cache.) An incomplete last
//! line describes a write that never began. A long file is rewritten with the latest values.
//! [`Journal`] describes the handling of a disk that does not accept a line.

pub(crate) mod disk;
mod writer;

pub use writer::Journal;

use crate::setting::Setting;
use rustix::fs::OFlags;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use wattline_files::Directory;

/// The journal's name in the state directory, and the name of a journal kept for its damaged lines.
const NAME: &str = "knobs.journal";
const DAMAGED: &str = "knobs.journal.damaged";

/// Longest journal in bytes; thousands of settings with dozens of values each stay far below it.
const LONGEST_JOURNAL: u64 = 64 << 20;
/// Most damaged lines that are listed; the rest are counted.
const BAD_LINES_NAMED: usize = 100;
/// First bytes of each entry. Quotes within a value are escaped, so in the middle of a line these
/// bytes begin an entry after an incomplete one.
const BEGINNING: &[u8] = br#"{"boot":""#;

#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
enum Line {
    Intent {
        boot: String,
        setting: Setting,
        old: String,
        new: String,
        /// The network namespace of an interface's setting, by the inode of its file.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        namespace: Option<u64>,
        /// The number of its interface, which survives a renaming.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        device: Option<u32>,
    },
    Found {
        boot: String,
        setting: Setting,
        found: String,
    },
}

/// A changed setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The changed setting.
    pub setting: Setting,
    /// Its value before the first change.
    pub old: String,
    /// The values that Wattline set, or that the setting showed afterwards; the latest comes last.
    pub own_values: Vec<String>,
    /// True if the last value may not have been read back: the writer was stopped in between.
    pub unfinished: bool,
    /// The network namespace of the setting: names of interfaces are unique only within one.
    pub namespace: Option<u64>,
    /// Number of its interface at the first change.
    pub device: Option<u32>,
}

/// A journal as found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Contents {
    /// Changes under the present boot, in the order of their first writes.
    pub entries: Vec<Entry>,
    /// Number of changes under another boot: they ended with that kernel.
    pub outlived: usize,
    /// Malformed and incomplete lines, with their number and the reason.
    pub bad_lines: Vec<String>,
}

/// The journal cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The journal cannot be read, created, written or flushed.
    #[error("{}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The kernel's error.
        error: io::Error,
    },
    /// Another user could have written the journal, and so could make root set any value.
    #[error("{}: {what}; it is not used. Read it, then remove it", path.display())]
    Untrusted {
        /// The file.
        path: PathBuf,
        /// The objection to it.
        what: String,
    },
}

/// Returns the journal's path, for messages.
pub fn path(directory: &Directory) -> PathBuf {
    directory.path().join(NAME)
}

/// Reads the journal of a state directory; an absent one is empty.
///
/// # Errors
/// [`JournalError`].
pub fn read(directory: &Directory, boot: &str) -> Result<Contents, JournalError> {
    let path = path(directory);
    let failed = |error| JournalError::File { path: path.clone(), error };
    let untrusted = |what: String| JournalError::Untrusted { path: path.clone(), what };
    let file = match directory.open_file(Path::new(NAME), OFlags::RDONLY) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Contents::default()),
        // A link, a pipe, a device, a directory.
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::InvalidInput | io::ErrorKind::IsADirectory
            ) || error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) =>
        {
            return Err(untrusted("not a regular file".into()));
        }
        Err(error) => return Err(failed(error)),
    };
    let metadata = file.metadata().map_err(failed)?;
    let own = rustix::process::geteuid().as_raw();
    if metadata.len() > LONGEST_JOURNAL {
        return Err(untrusted("longer than 64 MiB".into()));
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

/// Parses the bytes of a journal under the boot `boot`.
pub fn parse(bytes: &[u8], boot: &str) -> Contents {
    let mut contents = Contents::default();
    let mut index: BTreeMap<Setting, usize> = BTreeMap::new();
    let mut unnamed = 0;
    for (number, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let whole = line.strip_suffix(b"\n");
        let mut bad = |why: String| {
            if contents.bad_lines.len() < BAD_LINES_NAMED {
                contents.bad_lines.push(format!("line {}: {why}", number + 1));
            } else {
                unnamed += 1;
            }
        };
        let line = whole.unwrap_or_else(|| {
            bad("incomplete: the file was cut here".into());
            line
        });
        let entry = match serde_json::from_slice::<Line>(line) {
            Ok(entry) => entry,
            Err(_) if whole.is_none() => break,
            Err(error) => {
                let behind = last_entry(line);
                let used = if behind.is_some() { "; the entry at its end is used" } else { "" };
                bad(format!("{error}{used}"));
                let Some(behind) = behind else { continue };
                behind
            }
        };
        let (Line::Intent { boot: other, .. } | Line::Found { boot: other, .. }) = &entry;
        if other != boot {
            contents.outlived += 1;
        } else if let Err(why) = take(&mut contents.entries, &mut index, entry) {
            bad(why);
        }
    }
    if unnamed > 0 {
        contents.bad_lines.push(format!("{unnamed} more lines"));
    }
    contents
}

/// Returns the entry at the end of a line with a damaged beginning: a full disk cut an entry, and
/// the next one was written behind it.
fn last_entry(line: &[u8]) -> Option<Line> {
    let at = line.windows(BEGINNING.len()).rposition(|window| window == BEGINNING)?;
    serde_json::from_slice(&line[at..]).ok()
}

fn take(
    entries: &mut Vec<Entry>,
    index: &mut BTreeMap<Setting, usize>,
    line: Line,
) -> Result<(), String> {
    match line {
        Line::Intent { setting, old, new, namespace, device, .. } => {
            if [&old, &new].iter().any(|value| value.contains(char::is_control)) {
                return Err(format!("a value of {setting} contains control characters"));
            }
            let known = index.get(&setting).map(|at| &mut entries[*at]);
            if let Some(entry) = known.filter(|entry| entry.device == device) {
                entry.note(new);
                entry.unfinished = true;
            } else {
                // The same interface name can belong to another interface.
                index.insert(setting.clone(), entries.len());
                let own_values = vec![new];
                entries.push(Entry {
                    setting,
                    old,
                    own_values,
                    unfinished: true,
                    namespace,
                    device,
                });
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
    /// Adds a value as the latest of Wattline's own.
    fn note(&mut self, value: String) {
        self.own_values.retain(|known| *known != value);
        self.own_values.push(value);
    }
}

/// Removes a journal whose changes have been undone.
///
/// # Errors
/// [`JournalError::File`].
pub fn remove(directory: &Directory) -> Result<(), JournalError> {
    let removed = directory.remove(Path::new(NAME)).and_then(|()| directory.sync());
    removed.map_err(|error| JournalError::File { path: path(directory), error })
}

/// Keeps a journal with damaged lines under another name, to make way for the next; needs no space.
///
/// # Errors
/// [`JournalError::File`].
pub fn put_aside(directory: &Directory) -> Result<(), JournalError> {
    let moved = directory.rename(Path::new(NAME), Path::new(DAMAGED));
    let moved = moved.and_then(|()| directory.sync());
    moved.map_err(|error| JournalError::File { path: path(directory), error })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: &str = "/sys/devices/system/cpu/cpufreq/policy0/scaling_max_freq";

    fn written() -> (tempfile::TempDir, Directory) {
        let directory = tempfile::tempdir().unwrap();
        let opened = Directory::open(directory.path()).unwrap();
        let setting: Setting = MAX.parse().unwrap();
        let mut journal = Journal::create(&opened, "boot-a").unwrap();
        journal.intend(&setting, "3300000", "1650000").unwrap();
        journal.found(&setting, "1600000").unwrap();
        journal.intend(&setting, "1600000", "2400000").unwrap();
        journal.found(&setting, "2400000").unwrap();
        // Known values cost no further line.
        journal.intend(&setting, "2400000", "1650000").unwrap();
        journal.found(&setting, "1600000").unwrap();
        (directory, opened)
    }

    #[test]
    fn original_value_and_all_own_values_are_kept() {
        let (_directory, opened) = written();
        let contents = read(&opened, "boot-a").unwrap();
        assert_eq!(contents.bad_lines, Vec::<String>::new());
        let [entry] = &contents.entries[..] else { panic!("{contents:?}") };
        assert_eq!(entry.old, "3300000");
        assert_eq!(entry.own_values, ["1650000", "1600000", "2400000"]);
        assert!(!entry.unfinished);
        assert_eq!(std::fs::read_to_string(path(&opened)).unwrap().lines().count(), 4);
    }

    #[test]
    fn a_long_run_keeps_the_journal_short_and_the_old_value_in_it() {
        let directory = tempfile::tempdir().unwrap();
        let opened = Directory::open(directory.path()).unwrap();
        let table: Setting = "ethtool:eth0/redirect-table".parse().unwrap();
        let mut journal = Journal::create(&opened, "boot-a").unwrap();
        let mut present = "0,1".repeat(128);
        let old = present.clone();
        for turn in 0..20_000 {
            let new = format!("{turn},{}", "0,1".repeat(128));
            journal.intend(&table, &present, &new).unwrap();
            journal.found(&table, &new).unwrap();
            present = new;
        }
        assert!(std::fs::metadata(path(&opened)).unwrap().len() < 2 << 20);
        let contents = read(&opened, "boot-a").unwrap();
        assert_eq!(contents.bad_lines, Vec::<String>::new());
        let [entry] = &contents.entries[..] else { panic!("{}", contents.entries.len()) };
        assert_eq!((&entry.old, entry.unfinished), (&old, false));
        assert_eq!(entry.own_values.last(), Some(&present));
    }

    #[test]
    fn changes_of_another_boot_are_not_undone() {
        let (_directory, opened) = written();
        let contents = read(&opened, "boot-b").unwrap();
        assert_eq!((contents.entries.len(), contents.outlived), (0, 4));
    }

    #[test]
    fn hostile_lines_are_named_and_the_rest_is_used() {
        let (_directory, opened) = written();
        let mut text = std::fs::read_to_string(path(&opened)).unwrap();
        text.insert_str(0, "garbage\n{\"boot\":\"boot-a\",\"setting\":\"/etc/shadow\",\"old\":\"a\",\"new\":\"b\"}\n");
        text.push_str(
            "{\"boot\":\"boot-a\",\"setting\":\"ethtool:e/rx-usecs\",\"found\":\"1\"}\n{\"cut",
        );
        let contents = parse(text.as_bytes(), "boot-a");
        assert_eq!(contents.entries.len(), 1);
        assert_eq!(contents.bad_lines.len(), 4, "{:?}", contents.bad_lines);
        assert!(contents.bad_lines[1].starts_with("line 2: "), "{:?}", contents.bad_lines);
    }

    #[test]
    fn entry_behind_a_cut_one_is_used() {
        let (_directory, opened) = written();
        let text = std::fs::read(path(&opened)).unwrap();
        let whole = parse(&text, "boot-a");
        let line = text.iter().position(|byte| *byte == b'\n').unwrap();
        for cut in 1..=line {
            let glued = [&text[..cut], &text].concat();
            let contents = parse(&glued, "boot-a");
            assert_eq!(contents.entries, whole.entries, "cut at {cut}");
            assert_eq!(contents.bad_lines.len(), 1, "{:?}", contents.bad_lines);
        }
        // A value cannot pass for an entry.
        let inside = [
            b"x".as_slice(),
            &serde_json::to_vec(&String::from_utf8(text).unwrap()).unwrap(),
            b"\n",
        ];
        assert_eq!(parse(&inside.concat(), "boot-a").entries, []);
    }

    #[test]
    fn many_damaged_lines_are_named_in_part_and_counted() {
        let contents = parse(&b"\n".repeat(1_000_000), "boot-a");
        assert_eq!(contents.bad_lines.len(), BAD_LINES_NAMED + 1);
        assert_eq!(contents.bad_lines.last().unwrap(), "999900 more lines");
    }

    #[test]
    fn journal_writable_by_others_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let (directory, opened) = written();
        let path = path(&opened);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
        assert!(matches!(read(&opened, "boot-a"), Err(JournalError::Untrusted { .. })));
        let other = directory.path().join("other");
        std::fs::rename(&path, &other).unwrap();
        assert_eq!(read(&opened, "boot-a").unwrap(), Contents::default());
        std::os::unix::fs::symlink(&other, &path).unwrap();
        assert!(matches!(read(&opened, "boot-a"), Err(JournalError::Untrusted { .. })));
        remove(&opened).unwrap();
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, mode).unwrap();
        assert!(matches!(read(&opened, "boot-a"), Err(JournalError::Untrusted { .. })));
    }

    #[test]
    fn journal_cut_within_a_line_is_reported_and_its_whole_lines_are_used() {
        let (_directory, opened) = written();
        let text = std::fs::read(path(&opened)).unwrap();
        for cut in 0..=text.len() {
            let contents = parse(&text[..cut], "boot-a");
            let end = text[..cut].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            let expected: &[String] = match cut - end {
                0 => &[],
                _ => {
                    let line = text[..end].iter().filter(|byte| **byte == b'\n').count() + 1;
                    &[format!("line {line}: incomplete: the file was cut here")]
                }
            };
            assert_eq!(contents.bad_lines, expected, "cut at {cut}");
            // A line that lacks only its end is used as well.
            let end = if text[cut..].first() == Some(&b'\n') { cut + 1 } else { end };
            assert_eq!(contents.entries, parse(&text[..end], "boot-a").entries, "cut at {cut}");
        }
    }
}
