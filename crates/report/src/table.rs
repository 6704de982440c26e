//! The data of a figure.

use serde::Serialize;

/// Columns with their units in the head, and rows.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Table {
    /// Names of the columns; a quantity's name ends in its unit.
    pub columns: Vec<String>,
    /// Rows, each with one cell per column.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// Creates a table without rows.
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

/// Formats a number with six significant digits, without superfluous zeros; below a thousandth,
/// with a power of ten.
pub fn number(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return if value == 0.0 { "0".into() } else { String::new() };
    }
    if value.abs() < 1e-3 {
        let text = format!("{value:.5e}");
        let (digits, power) = text.split_once('e').unwrap_or((&text, "0"));
        return format!("{}e{power}", digits.trim_end_matches('0').trim_end_matches('.'));
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
        assert_eq!(number(0.000_019_1), "1.91e-5");
        assert_eq!(number(-0.000_2), "-2e-4");
        assert_eq!(number(0.012_5), "0.0125");
        assert_eq!(number(29e6), "29000000");
        assert_eq!(number(f64::NAN), "");
        assert_eq!(number(0.0), "0");
    }
}
