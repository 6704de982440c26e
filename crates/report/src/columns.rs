//! Aligned columns of text.

use std::fmt;

/// Writes rows of text under a head. The first `left` columns are aligned to the left, the others
/// (numbers) to the right. Rows are as long as the head.
///
/// # Errors
/// Fails when `out` fails.
pub fn write<const N: usize>(
    out: &mut fmt::Formatter<'_>,
    head: [&str; N],
    rows: &[[String; N]],
    left: usize,
) -> fmt::Result {
    let head = head.map(str::to_owned);
    let widths: [usize; N] = std::array::from_fn(|column| {
        let lengths = rows.iter().map(|row| row[column].chars().count());
        lengths.chain([head[column].chars().count()]).max().unwrap_or(0)
    });
    for row in std::iter::once(&head).chain(rows) {
        for (column, (cell, width)) in row.iter().zip(widths).enumerate() {
            if column < left {
                write!(out, "{cell:<width$}  ")?;
            } else {
                write!(out, "{cell:>width$}  ")?;
            }
        }
        writeln!(out)?;
    }
    Ok(())
}
