//! The journal being written.
//!
//! A disk can be full, break, or turn read-only at any call, and a write can fail half-way. The
//! rules: a failed line is cut off again, at once or before the next one; a value missing from the
//! file is not written to the machine; lines that are in memory but not in the file are written
//! first when the disk accepts lines again. After a failed flush the kernel no longer knows which
//! bytes are on the disk, and a second flush may succeed without them (fsync(2), under "Notes"):
//! the file is rewritten then.

use super::disk::{Disk, Named};
use super::{Entry, JournalError, LONGEST_JOURNAL, Line, NAME, path, remove, take};
use crate::devices;
use crate::setting::Setting;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use wattline_files::Directory;
use wattline_linux::sysfs::Tree;

/// Growth after which a journal is rewritten.
const COMPACT_AFTER: u64 = 1 << 20;
/// Number of a setting's own values that a rewritten journal keeps.
const VALUES_KEPT: usize = 64;

/// A journal being written.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    disk: Box<dyn Disk>,
    boot: String,
    namespace: Option<u64>,
    /// Source of interface numbers; without it, interfaces are identified by name.
    tree: Option<Tree>,
    entries: Vec<Entry>,
    index: BTreeMap<Setting, usize>,
    /// Bytes of the whole lines in the file.
    length: u64,
    /// Length above which it is rewritten.
    compact_at: u64,
    /// True if the beginning of another line may follow the whole ones.
    cut: bool,
    /// True if a flush failed.
    unsynced: bool,
    /// Lines that count in memory but are not in the file.
    missing: Vec<u8>,
}

impl Journal {
    /// Creates a new journal in place of an existing one; restore that first.
    ///
    /// # Errors
    /// [`JournalError::File`].
    pub fn create(directory: &Directory, boot: &str) -> Result<Self, JournalError> {
        let path = path(directory);
        let failed = |error| JournalError::File { path: path.clone(), error };
        remove(directory)?;
        let mut disk = Named::create(directory, NAME).map_err(failed)?;
        disk.sync_name().map_err(failed)?;
        Ok(Self::on(Box::new(disk), &path, boot))
    }

    /// Sets the machine, and the network namespace of the changed interfaces, by the inode of its
    /// file.
    #[must_use]
    pub(crate) fn belonging_to(self, tree: &Tree, namespace: Option<u64>) -> Self {
        Self { namespace, tree: Some(tree.clone()), ..self }
    }

    /// Creates a journal on an empty disk.
    pub(crate) fn on(disk: Box<dyn Disk>, path: &Path, boot: &str) -> Self {
        Self {
            path: path.to_path_buf(),
            disk,
            boot: boot.to_string(),
            namespace: None,
            tree: None,
            entries: Vec::new(),
            index: BTreeMap::new(),
            length: 0,
            compact_at: COMPACT_AFTER,
            cut: false,
            unsynced: false,
            missing: Vec::new(),
        }
    }

    /// Records that `setting`, now at `present`, is about to get `new`; returns when the old value
    /// is on the disk. Free for a value that the setting was given before.
    ///
    /// # Errors
    /// [`JournalError::File`]: then the setting must not be written.
    pub fn intend(
        &mut self,
        setting: &Setting,
        present: &str,
        new: &str,
    ) -> Result<(), JournalError> {
        self.settle()?;
        if self.length > self.compact_at && self.rewrite().is_err() {
            // The old file is as good. An unfinished renaming is not: it is tried again.
            self.settle()?;
            self.compact_at = self.length + COMPACT_AFTER;
        }
        let device = self.device(setting);
        let known = self.index.get(setting).and_then(|at| self.entries.get_mut(*at));
        let (old, first) = match known.filter(|entry| entry.device == device) {
            Some(entry) if entry.own_values.iter().any(|value| value == new) => {
                entry.note(new.to_string());
                return Ok(());
            }
            Some(entry) => (entry.old.clone(), false),
            None => (present.to_string(), true),
        };
        let namespace = setting.interface().and(self.namespace);
        let (setting, new) = (setting.clone(), new.to_string());
        let line = Line::Intent { boot: self.boot.clone(), setting, old, new, namespace, device };
        let bytes = self.bytes_of(&line)?;
        self.append(&bytes).map_err(|error| self.failed(error))?;
        if first && let Err(error) = self.disk.sync() {
            self.unsynced = true;
            // The announced write does not happen.
            self.length -= bytes.len() as u64;
            let _ = self.cut_off();
            return Err(self.failed(error));
        }
        self.count(line);
        Ok(())
    }

    /// Records the value that `setting` shows after a write.
    ///
    /// # Errors
    /// [`JournalError::File`]: the value counts in memory, and is written to the file before
    /// anything else. Until then a restore from the file may take the value for another program's.
    pub fn found(&mut self, setting: &Setting, value: &str) -> Result<(), JournalError> {
        let known = self.index.get(setting).and_then(|at| self.entries.get_mut(*at));
        if let Some(entry) = known
            && !entry.unfinished
            && entry.own_values.iter().any(|known| known == value)
        {
            // It is the latest all the same: the requested value may have been refused.
            entry.note(value.to_string());
            return Ok(());
        }
        let (boot, found) = (self.boot.clone(), value.to_string());
        let line = Line::Found { boot, setting: setting.clone(), found };
        let bytes = self.bytes_of(&line)?;
        self.count(line);
        // Not flushed: it matters only while this kernel runs, which has it in its cache.
        let noted = self.settle_lines().and_then(|()| self.append(&bytes));
        noted.map_err(|error| {
            self.missing.extend(bytes);
            self.failed(error)
        })
    }

    /// Updates the file from memory, if an earlier failure left it behind.
    ///
    /// # Errors
    /// [`JournalError::File`]: it is still behind.
    pub fn settle(&mut self) -> Result<(), JournalError> {
        if self.unsynced {
            self.rewrite().map_err(|error| self.failed(error))?;
        }
        // If the end cannot be cut off, or the lines find no space, a new file may succeed.
        self.settle_lines().or_else(|_| self.rewrite()).map_err(|error| self.failed(error))
    }

    fn settle_lines(&mut self) -> io::Result<()> {
        if self.cut {
            self.cut_off()?;
        }
        if !self.missing.is_empty() {
            let missing = std::mem::take(&mut self.missing);
            self.append(&missing).inspect_err(|_| self.missing = missing)?;
        }
        Ok(())
    }

    /// Returns the entry of a changed setting.
    pub fn entry(&self, setting: &Setting) -> Option<&Entry> {
        self.index.get(setting).map(|at| &self.entries[*at])
    }

    /// Returns true if an entry belongs to the interface that has the name now.
    pub(crate) fn is_in_place(&self, entry: &Entry) -> bool {
        entry.device == self.device(&entry.setting)
    }

    fn device(&self, setting: &Setting) -> Option<u32> {
        devices::number(self.tree.as_ref()?, setting)
    }

    /// Returns changed settings whose interface still has its name.
    pub(crate) fn in_place(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(|entry| self.is_in_place(entry))
    }

    /// Returns all changed settings, in the order of their first change.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Writes all lines or none.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let length = self.length + bytes.len() as u64;
        if length > LONGEST_JOURNAL {
            return Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                format!("longer than {LONGEST_JOURNAL} bytes, and it cannot be rewritten"),
            ));
        }
        if self.cut {
            self.cut_off()?;
        }
        if let Err(error) = self.disk.append(bytes) {
            let _ = self.cut_off();
            return Err(error);
        }
        self.length = length;
        Ok(())
    }

    /// Truncates the file to whole lines; needs no space.
    fn cut_off(&mut self) -> io::Result<()> {
        self.cut = true;
        self.disk.truncate(self.length)?;
        self.cut = false;
        Ok(())
    }

    /// Rewrites the file with the latest values of each setting, in place of the old one.
    fn rewrite(&mut self) -> io::Result<()> {
        let mut bytes = Vec::new();
        for entry in &self.entries {
            let Entry { setting, old, own_values, unfinished, namespace, device } = entry;
            let (boot, setting) = (&self.boot, setting.clone());
            let mut put = |line: Line| -> io::Result<()> {
                serde_json::to_writer(&mut bytes, &line)?;
                bytes.push(b'\n');
                Ok(())
            };
            for new in latest(own_values) {
                let (setting, old, new) = (setting.clone(), old.clone(), new.clone());
                let (namespace, device) = (*namespace, *device);
                put(Line::Intent { boot: boot.clone(), setting, old, new, namespace, device })?;
            }
            if let (false, Some(found)) = (unfinished, own_values.last()) {
                put(Line::Found { boot: boot.clone(), setting, found: found.clone() })?;
            }
        }
        self.disk.replace(&bytes)?;
        self.length = bytes.len() as u64;
        self.compact_at = self.length + COMPACT_AFTER;
        self.cut = false;
        self.missing.clear();
        for entry in &mut self.entries {
            entry.own_values.drain(..entry.own_values.len() - latest(&entry.own_values).len());
        }
        self.unsynced = true;
        self.disk.sync_name()?;
        self.unsynced = false;
        Ok(())
    }

    fn bytes_of(&self, line: &Line) -> Result<Vec<u8>, JournalError> {
        let mut bytes = serde_json::to_vec(line).map_err(|error| self.failed(error.into()))?;
        bytes.push(b'\n');
        Ok(bytes)
    }

    fn count(&mut self, line: Line) {
        // Own lines are always valid: the setting of a Found was intended before.
        let _ = take(&mut self.entries, &mut self.index, line);
    }

    fn failed(&self, error: io::Error) -> JournalError {
        JournalError::File { path: self.path.clone(), error }
    }
}

/// Returns the values that a rewritten journal keeps.
fn latest(values: &[String]) -> &[String] {
    &values[values.len().saturating_sub(VALUES_KEPT)..]
}
