//! Rows of text under heads, lined up: each column is as wide as its widest cell.

use comfy_table::{CellAlignment, ContentArrangement, presets};
use std::fmt;

/// The head of a column.
#[derive(Debug, Clone, Copy)]
pub struct Head<'a>(&'a str, CellAlignment);

/// A column of text.
pub const fn text(name: &str) -> Head<'_> {
    Head(name, CellAlignment::Left)
}

/// A column of numbers; the unit is part of its name.
pub const fn number(name: &str) -> Head<'_> {
    Head(name, CellAlignment::Right)
}

/// Columns without lines between them. A line never ends in blanks.
#[derive(Debug)]
pub struct Columns<const N: usize>(comfy_table::Table);

impl<const N: usize> Columns<N> {
    /// Columns without rows.
    pub fn new(heads: [Head<'_>; N]) -> Self {
        let mut table = comfy_table::Table::new();
        table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        table.set_header(heads.map(|Head(name, _)| name));
        let columns = table.column_iter_mut().zip(heads);
        for (index, (column, Head(_, alignment))) in columns.enumerate() {
            column.set_cell_alignment(alignment);
            column.set_padding((if index == 0 { 0 } else { 2 }, 0));
        }
        Self(table)
    }

    /// All rows at once: the first `texts` columns are text, those after them numbers.
    pub fn of(heads: [&str; N], texts: usize, rows: impl IntoIterator<Item = [String; N]>) -> Self {
        let mut column = 0..;
        let mut all = Self::new(heads.map(|name| {
            if column.next().is_some_and(|index| index < texts) { text(name) } else { number(name) }
        }));
        rows.into_iter().for_each(|row| all.row(row));
        all
    }

    /// Appends a row.
    pub fn row(&mut self, cells: [String; N]) {
        self.0.add_row(cells);
    }
}

impl<const N: usize> fmt::Display for Columns<N> {
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
