//! Aligned columns of text under heads; each column is as wide as its widest cell.

use comfy_table::{CellAlignment, ContentArrangement, presets};
use std::fmt;

/// Head of a column.
#[derive(Debug, Clone, Copy)]
pub struct Head<'a>(&'a str, CellAlignment);

/// Returns the head of a column of text.
pub const fn text(name: &str) -> Head<'_> {
    Head(name, CellAlignment::Left)
}

/// Returns the head of a column of numbers; the unit is part of its name.
pub const fn number(name: &str) -> Head<'_> {
    Head(name, CellAlignment::Right)
}

/// Formats a number with this many decimals; a dash if it is unknown.
pub fn cell(value: Option<f64>, decimals: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.decimals$}"))
}

/// Columns without rules between them. Lines never end in blanks.
#[derive(Debug)]
pub struct Columns(comfy_table::Table);

impl Columns {
    /// Creates columns without rows.
    pub fn new<'a>(heads: impl IntoIterator<Item = Head<'a>>) -> Self {
        let heads: Vec<Head<'_>> = heads.into_iter().collect();
        let mut table = comfy_table::Table::new();
        table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        table.set_header(heads.iter().map(|Head(name, _)| name));
        let columns = table.column_iter_mut().zip(heads);
        for (index, (column, Head(_, alignment))) in columns.enumerate() {
            column.set_cell_alignment(alignment);
            column.set_padding((if index == 0 { 0 } else { 2 }, 0));
        }
        Self(table)
    }

    /// Creates columns with all rows: the first `texts` columns are text, the others numbers.
    pub fn of<'a, R: IntoIterator<Item = String>>(
        heads: impl IntoIterator<Item = &'a str>,
        texts: usize,
        rows: impl IntoIterator<Item = R>,
    ) -> Self {
        let heads = heads.into_iter().enumerate();
        let heads = heads.map(|(at, name)| if at < texts { text(name) } else { number(name) });
        let mut all = Self::new(heads);
        rows.into_iter().for_each(|row| all.row(row));
        all
    }

    /// Appends a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.0.add_row(cells);
    }
}

impl fmt::Display for Columns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.lines().try_for_each(|line| writeln!(f, "{}", line.trim_end()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_never_run_together() {
        let mut table = Columns::new([text("card"), number("Gbit/s"), number("W"), text("note")]);
        table.row(["a name longer than its head".into(), "0.5".into(), "12".into(), "".into()]);
        table.row(["b".into(), "100".into(), "-".into(), "best of all".into()]);
        let expected = "\
card                         Gbit/s   W  note
a name longer than its head     0.5  12
b                               100   -  best of all
";
        assert_eq!(table.to_string(), expected);
    }
}
