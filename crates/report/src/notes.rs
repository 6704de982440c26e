//! Notes of rows. A note of several rows is listed once below the table, and the rows have its
//! number.

use crate::escape::escape;
use std::fmt::Write as _;

/// Shared notes of a table.
#[derive(Debug)]
pub struct Notes<'a>(Vec<&'a str>);

impl<'a> Notes<'a> {
    /// Collects the notes of all rows.
    pub fn of(all: impl Iterator<Item = &'a str>) -> Self {
        let mut once = std::collections::HashSet::new();
        let mut shared: Vec<&str> = Vec::new();
        let mut known = std::collections::HashSet::new();
        for note in all.filter(|note| !note.is_empty()) {
            if !once.insert(note) && known.insert(note) {
                shared.push(note);
            }
        }
        Self(shared)
    }

    /// Returns the cell of a row, as HTML.
    pub fn cell(&self, note: &str) -> String {
        match self.0.iter().position(|shared| *shared == note) {
            Some(index) => format!("note {}", index + 1),
            None => escape(note),
        }
    }

    /// Appends the shared notes.
    pub fn list(&self, page: &mut String) {
        if self.0.is_empty() {
            return;
        }
        page.push_str("<ol class=\"notes\">\n");
        for note in &self.0 {
            // Writing into a string cannot fail.
            let _ = writeln!(page, "<li>{}</li>", escape(note));
        }
        page.push_str("</ol>\n");
    }
}
