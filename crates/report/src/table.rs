//! The data of a figure.

use serde::Serialize;

/// Rows under columns whose names include the units.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Table {
    /// Names of the columns; a quantity's name ends in its unit.
    pub columns: Vec<String>,
    /// Rows, each with one cell per column.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// A table without rows.
    pub fn new<const N: usize>(columns: [&str; N]) -> Self {
        Self { columns: columns.map(str::to_owned).to_vec(), rows: Vec::new() }
    }

    /// Appends a row.
    pub fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.to_vec());
    }

    /// Appends a row of numbers.
    pub fn numbers<const N: usize>(&mut self, cells: [f64; N]) {
        self.rows.push(cells.iter().map(|value| number(*value)).collect());
    }
}

/// A number with six significant digits, without trailing zeros.
pub fn number(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return if value == 0.0 { "0".into() } else { String::new() };
    }
    let digits = (5 - value.abs().log10().floor() as i32).clamp(0, 12) as usize;
    let text = format!("{value:.digits$}");
    if text.contains('.') {
        return text.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_six_digits() {
        assert_eq!(number(28.780_001_2), "28.78");
        assert_eq!(number(0.000_019_1), "0.0000191");
        assert_eq!(number(29e6), "29000000");
        assert_eq!(number(f64::NAN), "");
        assert_eq!(number(0.0), "0");
    }
}
