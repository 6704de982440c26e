//! Walks a TOML document section by section, and collects problems and figures on the way.
//!
//! Deserialising into a struct would stop at the first error and lose the line numbers. The
//! document is therefore walked: each `read` call reads one key, records its errors and continues.
//! A figure is written in one of three ways:
//!
//! ```toml
//! power_watts = 1.5
//! power_watts = { value = 1.5, origin = "derived", note = "(133 - 115) / 12" }
//! power_watts = { missing = "the figure that shows it is lost" }
//! ```

use super::nearest::nearest;
use super::{Document, FigureValue, Problem, ProblemKind};
use std::cell::RefCell;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// One table of the document.
pub(crate) struct Section<'s, 'd> {
    pub(super) document: &'s Document<'d>,
    table: &'s DeTable<'d>,
    path: String,
    pub(super) line: usize,
    known: RefCell<Vec<&'static str>>,
}

impl<'s, 'd> Section<'s, 'd> {
    /// Creates the top-level section.
    pub(super) fn root(document: &'s Document<'d>, table: &'s DeTable<'d>) -> Self {
        Self { document, table, path: String::new(), line: 1, known: RefCell::default() }
    }

    /// Creates the section of the table under `key`.
    pub(super) fn child<'c>(
        &self,
        table: &'c DeTable<'d>,
        key: &str,
        value: &Spanned<DeValue<'d>>,
    ) -> Section<'c, 'd>
    where
        's: 'c,
    {
        Section {
            document: self.document,
            table,
            path: self.field(key),
            line: self.line_of(value),
            known: RefCell::default(),
        }
    }

    /// Accepts keys that are read elsewhere, so that they are not reported as unknown.
    pub(super) fn expect_keys(&self, keys: &[&'static str]) {
        self.known.borrow_mut().extend(keys);
    }

    /// Returns the document of this section.
    pub(crate) fn document(&self) -> &'s Document<'d> {
        self.document
    }

    /// Records a contradiction between fields of this section.
    pub(crate) fn contradiction(&self, key: &str, why: String) {
        let found = self.table.iter().find(|(name, _)| name.get_ref() == key);
        let line = found.map_or(self.line, |(_, value)| self.line_of(value));
        self.problem(line, key, None, ProblemKind::Contradiction(why));
    }

    /// Reads an optional text.
    pub(crate) fn optional_text(&self, key: &'static str) -> Option<String> {
        if self.has(key) { self.text(key) } else { None }
    }

    /// Reads an optional choice between a few words.
    pub(crate) fn optional_choice<T: Copy>(
        &self,
        key: &'static str,
        choices: &[(&'static str, T)],
    ) -> Option<T> {
        if self.has(key) { self.choice(key, choices) } else { None }
    }

    /// Reads a required text.
    pub(crate) fn text(&self, key: &'static str) -> Option<String> {
        let value = self.required(key, "a text")?;
        match value.get_ref() {
            DeValue::String(text) if !text.trim().is_empty() => Some(text.to_string()),
            _ => {
                self.wrong_type(key, value, "a text that is not empty");
                None
            }
        }
    }

    /// Reads an optional list of at least one text.
    pub(crate) fn texts(&self, key: &'static str) -> Option<Vec<String>> {
        let value = self.find(key)?;
        let text = |item: &Spanned<DeValue<'_>>| item.get_ref().as_str().map(str::to_owned);
        let texts: Option<Vec<String>> =
            value.get_ref().as_array().and_then(|list| list.iter().map(text).collect());
        let texts = texts.filter(|texts| !texts.is_empty());
        if texts.is_none() {
            self.wrong_type(key, value, "a list of texts, one at least");
        }
        texts
    }

    /// Reads a choice between a few words; the first is the default if the key is absent.
    pub(crate) fn choice_or_first<T: Copy>(
        &self,
        key: &'static str,
        choices: &[(&'static str, T)],
    ) -> Option<T> {
        match self.find(key) {
            None => choices.first().map(|(_, value)| *value),
            Some(_) => self.choice(key, choices),
        }
    }

    /// Reads a required choice between a few words.
    pub(crate) fn choice<T: Copy>(
        &self,
        key: &'static str,
        choices: &[(&'static str, T)],
    ) -> Option<T> {
        let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
        let expected = format!("one of {}", words.join(", "));
        let value = self.required(key, &expected)?;
        if matches!(value.get_ref(), DeValue::Table(_)) {
            // Like a number, a word can be marked as missing, with a reason.
            match self.figure(key, value, &(0.0..=0.0))? {
                FigureValue::Missing(_) => {}
                _ => self.wrong_type(key, value, &expected),
            }
            return None;
        }
        let found = value.get_ref().as_str().and_then(|text| {
            choices.iter().find(|(word, _)| *word == text).map(|(_, choice)| *choice)
        });
        if found.is_none() {
            self.wrong_type(key, value, &expected);
        }
        found
    }

    /// Returns true if the value is the given word; otherwise the key remains unread.
    pub(crate) fn is_word(&self, key: &'static str, word: &str) -> bool {
        self.find(key).is_some_and(|value| value.get_ref().as_str() == Some(word))
    }

    /// Reads a required section.
    pub(crate) fn required_section<T>(
        &self,
        key: &'static str,
        read: impl FnOnce(&Section<'s, 'd>) -> Option<T>,
    ) -> Option<T> {
        self.required(key, &format!("a section [{}]", self.field(key)))?;
        self.section(key, read)
    }

    /// Reads an optional section.
    pub(crate) fn section<T>(
        &self,
        key: &'static str,
        read: impl FnOnce(&Section<'s, 'd>) -> Option<T>,
    ) -> Option<T> {
        let value = self.find(key)?;
        match value.get_ref() {
            DeValue::Table(table) => self.enter(table, key.to_string(), value, read),
            _ => {
                self.wrong_type(key, value, &format!("a section [{}]", self.field(key)));
                None
            }
        }
    }

    /// Reads a list of sections `[[key]]`, possibly empty. Records the problems of invalid sections
    /// and skips these sections.
    pub(crate) fn sections<T>(
        &self,
        key: &'static str,
        read: impl Fn(&Section<'s, 'd>) -> Option<T>,
    ) -> Vec<T> {
        let Some(value) = self.find(key) else { return Vec::new() };
        let DeValue::Array(array) = value.get_ref() else {
            self.wrong_type(key, value, &format!("sections [[{}]]", self.field(key)));
            return Vec::new();
        };
        if array.is_empty() {
            self.wrong_type(key, value, "a list of at least one section");
        }
        let mut all = Vec::with_capacity(array.len());
        for (index, item) in array.iter().enumerate() {
            match item.get_ref() {
                DeValue::Table(table) => {
                    all.extend(self.enter(table, format!("{key}[{index}]"), item, &read));
                }
                _ => self.wrong_type(key, item, &format!("a section [[{}]]", self.field(key))),
            }
        }
        all
    }

    /// Returns true if the file has the key.
    pub(crate) fn has(&self, key: &'static str) -> bool {
        self.find(key).is_some()
    }

    /// Returns true if the section `key` of this one has the key `inner`.
    pub(crate) fn has_within(&self, key: &'static str, inner: &str) -> bool {
        let table = self.find(key).and_then(|value| value.get_ref().as_table());
        table.is_some_and(|table| table.iter().any(|(name, _)| name.get_ref() == inner))
    }

    fn enter<T>(
        &self,
        table: &'s DeTable<'d>,
        key: String,
        value: &Spanned<DeValue<'d>>,
        read: impl FnOnce(&Section<'s, 'd>) -> Option<T>,
    ) -> Option<T> {
        let section = self.child(table, &key, value);
        let result = read(&section);
        section.report_unknown_keys();
        result
    }

    pub(super) fn find(&self, key: &'static str) -> Option<&'s Spanned<DeValue<'d>>> {
        if !self.known.borrow().contains(&key) {
            self.known.borrow_mut().push(key);
        }
        self.table.iter().find(|(name, _)| name.get_ref() == key).map(|(_, value)| value)
    }

    pub(super) fn required(
        &self,
        key: &'static str,
        expected: &str,
    ) -> Option<&'s Spanned<DeValue<'d>>> {
        let found = self.find(key);
        if found.is_none() {
            let kind = ProblemKind::Missing { expected: expected.to_string() };
            self.problem(self.line, key, None, kind);
        }
        found
    }

    pub(super) fn report_unknown_keys(&self) {
        let known = self.known.borrow();
        for (key, value) in self.table.iter() {
            let key = key.get_ref().as_ref();
            if known.contains(&key) {
                continue;
            }
            let suggestion = nearest(key, &known).map_or_else(
                || format!("known keys here: {}", known.join(", ")),
                |near| format!("did you mean `{near}`?"),
            );
            let line = self.line_of(value);
            self.problem(line, key, None, ProblemKind::Unknown { suggestion });
        }
    }

    pub(super) fn wrong_type(&self, key: &str, value: &Spanned<DeValue<'d>>, expected: &str) {
        let text = self.document.text.get(value.span()).unwrap_or_default();
        let shown = text.lines().next().unwrap_or_default().to_string();
        let kind = ProblemKind::WrongType { expected: expected.to_string() };
        self.problem(self.line_of(value), key, Some(shown), kind);
    }

    pub(super) fn problem(&self, line: usize, key: &str, value: Option<String>, kind: ProblemKind) {
        let problem = Problem { line: Some(line), field: self.field(key), value, kind };
        self.document.problems.borrow_mut().push(problem);
    }

    pub(super) fn field(&self, key: &str) -> String {
        match (self.path.as_str(), key) {
            (path, "") => path.to_string(),
            ("", key) => key.to_string(),
            (path, key) => format!("{path}.{key}"),
        }
    }

    pub(super) fn line_of(&self, value: &Spanned<DeValue<'d>>) -> usize {
        self.document.line_of(value.span().start)
    }
}
