//! Tables of a document, and required values.

use super::key::Section;
use super::reader::{At, Reader, Table};
use std::sync::LazyLock;
use toml::de::{DeTable, DeValue};

/// Reads a section that appears at most once.
pub fn single<'a, 't>(
    reader: &mut Reader,
    root: &Table<'a, 't>,
    section: Section,
    name: &str,
) -> Option<Table<'a, 't>> {
    let (key, value) = root.table.iter().find(|(key, _)| key.get_ref() == name)?;
    match value.get_ref() {
        DeValue::Table(table) => Some(Table { section, table, span: key.span() }),
        _ => {
            reader.problem(
                Section::Top,
                name,
                &value.span(),
                format!("must be a section, [{name}]"),
            );
            None
        }
    }
}

/// Reads a section whose keys all have defaults: it may be absent.
pub fn single_or_empty<'a, 't>(
    reader: &mut Reader,
    root: &Table<'a, 't>,
    section: Section,
    name: &str,
) -> Table<'a, 't> {
    static EMPTY: LazyLock<DeTable<'static>> = LazyLock::new(DeTable::new);
    let table = single(reader, root, section, name);
    table.unwrap_or_else(|| Table { section, table: &EMPTY, span: 0..0 })
}

/// Reads a section that may be repeated.
pub fn each<'a, 't>(
    reader: &mut Reader,
    root: &Table<'a, 't>,
    section: Section,
    name: &str,
) -> Vec<Table<'a, 't>> {
    let Some((_, value)) = root.table.iter().find(|(key, _)| key.get_ref() == name) else {
        return Vec::new();
    };
    let wrong = format!("must be written [[{name}]], once for each");
    let DeValue::Array(items) = value.get_ref() else {
        reader.problem(Section::Top, name, &value.span(), wrong);
        return Vec::new();
    };
    let mut tables = Vec::new();
    for item in items.iter() {
        match item.get_ref() {
            DeValue::Table(table) => tables.push(Table { section, table, span: item.span() }),
            _ => reader.problem(Section::Top, name, &item.span(), wrong.clone()),
        }
    }
    tables
}

/// Returns a required value.
pub fn required<T>(
    reader: &mut Reader,
    table: &Table,
    key: &str,
    parse: impl Fn(&str) -> Option<T>,
) -> Option<At<T>> {
    if !table.has(key) {
        let allowed = reader.allowed(table.section, key);
        reader.problem_in(table, key, format!("is missing; it must be {allowed}"));
    }
    reader.parsed(table, key, parse)
}
