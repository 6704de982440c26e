//! Typed values from a TOML table, with a [`Problem`] for each invalid one.

use super::duration::{between, parse_duration};
use super::key::{Allowed, Section};
use super::problem::{Problem, Problems, SYNTAX};
use super::schema::Schema;
use std::ops::{Range, RangeInclusive};
use std::time::Duration;
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};
use zeroize::Zeroizing;

/// A value and its place in the text.
#[derive(Debug, Clone)]
pub struct At<T> {
    /// The value.
    pub value: T,
    /// Place in the file, in bytes.
    pub span: Range<usize>,
}

/// Unwraps the value of a key that has a default in the list of keys, from one of the reading
/// functions of [`Reader`]: they replace missing and invalid values by the default.
///
/// # Panics
/// If the list of keys has no default for the key, or one that the reading function does not
/// understand. That is a mistake in the list: no configuration can cause it, and every one shows
/// it.
pub fn defaulted<T>(found: Option<At<T>>) -> T {
    found.expect("a default that the list of keys has, in a form that is understood").value
}

/// Collects problems while values are read.
pub struct Reader<'t> {
    text: &'t str,
    /// Places of the line ends in the text, ascending.
    line_ends: Vec<usize>,
    schema: Schema,
    /// Problems so far.
    pub problems: Vec<Problem>,
    /// Remarks on valid values.
    pub notes: Vec<String>,
}

/// A section of the file.
#[derive(Clone)]
pub struct Table<'a, 't> {
    /// Kind of the section.
    pub section: Section,
    /// Contents of the section.
    pub table: &'a DeTable<'t>,
    /// Place of its heading.
    pub span: Range<usize>,
}

impl<'a, 't> Table<'a, 't> {
    fn get(&self, key: &str) -> Option<&'a Spanned<DeValue<'t>>> {
        self.table.iter().find(|(name, _)| name.get_ref() == key).map(|(_, value)| value)
    }

    /// Returns the place of the value of a key; for a section, its heading.
    pub fn span_of(&self, key: &str) -> Option<Range<usize>> {
        let (name, _) = self.table.iter().find(|(name, _)| name.get_ref() == key)?;
        Some(name.span())
    }

    /// Returns true if the key is present, valid or not.
    pub fn has(&self, key: &str) -> bool {
        self.get(key).is_some()
    }
}

impl<'t> Reader<'t> {
    /// Creates a reader for a text with the keys and sections of `schema`.
    pub fn new(text: &'t str, schema: Schema) -> Self {
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let line_ends = ends.map(|(at, _)| at).collect();
        Self { text, line_ends, schema, problems: Vec::new(), notes: Vec::new() }
    }

    /// Parses the text as TOML and hands its top level to `read`. Notes syntax errors and unknown
    /// names at the top level.
    pub fn document<T>(&mut self, read: impl FnOnce(&mut Self, &Table) -> T) -> T {
        let (document, errors) = DeTable::parse_recoverable(self.text);
        errors.iter().for_each(|error| self.syntax(error));
        let root = Table { section: Section::Top, table: document.get_ref(), span: 0..0 };
        self.refuse_unknown(&root);
        read(self, &root)
    }

    /// Returns the allowed values of a key, as they follow "must be".
    pub fn allowed(&self, section: Section, key: &str) -> Allowed {
        self.schema.find(section, key).map_or(Allowed::Words("a known key"), |key| key.allowed)
    }

    /// Returns true if the text could not be parsed as TOML.
    pub fn has_syntax_error(&self) -> bool {
        self.problems.iter().any(|problem| problem.key == SYNTAX)
    }

    /// Returns all noted problems, in the order of lines; `file` is the name of the text.
    pub fn into_problems(self, file: String) -> Problems {
        let unreadable = self.has_syntax_error();
        let mut list = self.problems;
        // Unparsed parts also look like missing keys: report only the cause.
        list.retain(|problem| !unreadable || !problem.value.is_empty() || problem.key == SYNTAX);
        list.sort_by_key(|problem| problem.line);
        Problems { file, list, included: None }
    }

    /// Returns the line of a place in the text, from 1.
    fn line(&self, at: usize) -> usize {
        self.line_ends.partition_point(|end| *end < at) + 1
    }

    /// Returns the first line of the text at a place.
    fn excerpt(&self, span: &Range<usize>) -> String {
        const LONGEST: usize = 60;
        let text = self.text.get(span.clone()).unwrap_or_default();
        let line = text.lines().next().unwrap_or_default();
        match line.char_indices().nth(LONGEST) {
            Some((cut, _)) => format!("{}…", &line[..cut]),
            None => line.to_owned(),
        }
    }

    /// Notes a problem with the value at `span`.
    pub fn problem(&mut self, section: Section, key: &str, span: &Range<usize>, message: String) {
        let problem = Problem {
            line: self.line(span.start),
            key: full_key(section, key),
            value: self.excerpt(span),
            message,
        };
        self.problems.push(problem);
    }

    /// Notes that something is missing from (or wrong with) a section as a whole.
    pub fn problem_in(&mut self, table: &Table, key: &str, message: String) {
        let line = self.line(table.span.start);
        let key = full_key(table.section, key);
        self.problems.push(Problem { line, key, value: String::new(), message });
    }

    /// Notes that the list of keys does not allow a value.
    pub fn not_allowed(&mut self, section: Section, key: &str, span: &Range<usize>) {
        let allowed = self.allowed(section, key);
        self.problem(section, key, span, format!("must be {allowed}"));
    }

    /// Notes that the file named by a value cannot be read.
    pub fn not_readable(
        &mut self,
        section: Section,
        key: &str,
        span: &Range<usize>,
        error: &std::io::Error,
    ) {
        let allowed = self.allowed(section, key);
        self.problem(section, key, span, format!("cannot be read ({error}): must be {allowed}"));
    }

    /// Notes a syntax error.
    fn syntax(&mut self, error: &toml::de::Error) {
        let span = error.span().unwrap_or(0..0);
        // The line may hold a cryptographic key, which no message quotes.
        let before = self.text.get(..span.start).unwrap_or(self.text);
        let line = before.rfind('\n').and_then(|end| self.text.get(end..)).unwrap_or(self.text);
        let secret = line.trim_start().starts_with("key_");
        let value = if secret { String::new() } else { self.excerpt(&span) };
        let problem = Problem {
            line: self.line(span.start),
            key: SYNTAX.to_owned(),
            value,
            message: error.message().replace('\n', ", "),
        };
        self.problems.push(problem);
    }

    /// Notes every unknown key of a section, with the nearest known one.
    pub fn refuse_unknown(&mut self, table: &Table) {
        for (name, value) in table.table {
            let (section, key) = (table.section, name.get_ref().as_ref());
            if self.schema.knows(section, key) {
                continue;
            }
            if let Some(message) = self.schema.misplaced(section, key) {
                self.problem(section, key, &name.span(), message);
                continue;
            }
            let message = self.schema.unknown(section, key, is_section(value.get_ref()));
            let line = self.line(name.span().start);
            let key = full_key(section, key);
            self.problems.push(Problem { line, key, value: String::new(), message });
        }
    }

    /// Returns a value that `read` understands. The default of the key applies if the value is
    /// absent, or invalid, which is noted.
    pub fn value<T>(
        &mut self,
        table: &Table,
        key: &str,
        read: impl Fn(&DeValue) -> Option<T>,
    ) -> Option<At<T>> {
        if let Some(value) = table.get(key) {
            if let Some(found) = read(value.get_ref()) {
                return Some(At { value: found, span: value.span() });
            }
            self.not_allowed(table.section, key, &value.span());
        }
        self.default(table, key, read)
    }

    /// Returns the default of a key, if it has one.
    fn default<T>(
        &self,
        table: &Table,
        key: &str,
        read: impl Fn(&DeValue) -> Option<T>,
    ) -> Option<At<T>> {
        let default = self.schema.find(table.section, key)?.default?;
        let text = format!("default = {default}");
        let (document, _) = DeTable::parse_recoverable(&text);
        let (_, value) = document.get_ref().iter().next()?;
        Some(At { value: read(value.get_ref())?, span: table.span.clone() })
    }

    /// Returns a string.
    pub fn string(&mut self, table: &Table, key: &str) -> Option<At<String>> {
        self.value(table, key, |value| value.as_str().map(str::to_owned))
    }

    /// Returns a secret string: no message quotes it.
    pub fn secret(&mut self, table: &Table, key: &str) -> Option<Zeroizing<String>> {
        match table.get(key)?.get_ref() {
            DeValue::String(text) => Some(Zeroizing::new(text.clone().into_owned())),
            _ => {
                let allowed = self.allowed(table.section, key);
                self.problem_in(table, key, format!("must be {allowed} in quotes"));
                None
            }
        }
    }

    /// Returns a string that `parse` understands.
    pub fn parsed<T>(
        &mut self,
        table: &Table,
        key: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Option<At<T>> {
        self.value(table, key, |value| parse(value.as_str()?))
    }

    /// Returns a whole number, in the range of its key.
    pub fn number(&mut self, table: &Table, key: &str) -> Option<At<u32>> {
        let range = match self.allowed(table.section, key) {
            Allowed::Whole(low, high) => low..=high,
            _ => 0..=u32::MAX,
        };
        self.integer(table, key, range)
    }

    /// Returns a duration, in the range of its key.
    pub fn duration(&mut self, table: &Table, key: &str) -> Option<At<Duration>> {
        let (low, high) = match self.allowed(table.section, key) {
            Allowed::Duration { shortest, longest, .. } => {
                (parse_duration(shortest).unwrap_or_default(), parse_duration(longest))
            }
            _ => (Duration::ZERO, None),
        };
        self.parsed(table, key, between(low, high.unwrap_or(Duration::MAX)))
    }

    /// Returns a whole number in a range.
    pub fn integer(
        &mut self,
        table: &Table,
        key: &str,
        range: RangeInclusive<u32>,
    ) -> Option<At<u32>> {
        self.value(table, key, |value| whole(value).filter(|number| range.contains(number)))
    }

    /// Returns `true` or `false`, for a key with a default (see [`defaulted`]).
    pub fn flag(&mut self, table: &Table, key: &str) -> bool {
        defaulted(self.value(table, key, |value| value.as_bool()))
    }

    /// Returns `true` or `false`.
    pub fn boolean(&mut self, table: &Table, key: &str) -> Option<bool> {
        self.value(table, key, |value| value.as_bool()).map(|value| value.value)
    }

    /// Returns a list whose every item `parse` understands. Other items are reported one by one;
    /// `None` if no item is left. With `single`, one item may be written without brackets.
    pub fn list<T>(
        &mut self,
        table: &Table,
        key: &str,
        single: bool,
        parse: impl Fn(&DeValue) -> Option<T>,
    ) -> Option<At<Vec<At<T>>>> {
        let Some(value) = table.get(key) else {
            let items = |value: &DeValue| {
                let item = |item: &Spanned<DeValue>| {
                    Some(At { value: parse(item.get_ref())?, span: table.span.clone() })
                };
                value.as_array()?.iter().map(item).collect()
            };
            return self.default(table, key, items);
        };
        let items: Vec<&Spanned<DeValue>> = match value.get_ref() {
            DeValue::Array(items) => items.iter().collect(),
            _ if single => vec![value],
            _ => {
                self.not_allowed(table.section, key, &value.span());
                return None;
            }
        };
        let mut list = Vec::with_capacity(items.len());
        let is_empty = items.is_empty();
        for item in items {
            match parse(item.get_ref()) {
                Some(parsed) => list.push(At { value: parsed, span: item.span() }),
                None => self.not_allowed(table.section, key, &item.span()),
            }
        }
        // A caller that requires an item would report the same place again.
        (is_empty || !list.is_empty()).then(|| At { value: list, span: value.span() })
    }
}

/// Returns a whole number that is not negative.
pub fn whole(value: &DeValue) -> Option<u32> {
    let number = value.as_integer()?;
    u32::from_str_radix(number.as_str(), number.radix()).ok()
}

fn full_key(section: Section, key: &str) -> String {
    match (section, key) {
        (Section::Top, key) => key.to_owned(),
        (section, "") => section.heading().to_owned(),
        (section, key) => format!("{} {key}", section.heading()),
    }
}

/// Returns true if it is written as a section, `[name]` or `[[name]]`, or inline as one.
fn is_section(value: &DeValue) -> bool {
    let is_table = |item: &Spanned<DeValue>| item.get_ref().as_table().is_some();
    let is_list = |items: &DeArray| !items.is_empty() && items.iter().all(is_table);
    value.as_table().is_some() || value.as_array().is_some_and(is_list)
}
