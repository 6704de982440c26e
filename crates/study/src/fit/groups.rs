//! Groups of rows.

use super::rows::Row;

/// Frequency and number of cores of each row.
pub(super) struct Groups {
    pub(super) frequencies: Vec<f64>,
    pub(super) cores: Vec<usize>,
    /// Indices into the two lists above, for each row.
    pub(super) of_row: Vec<(usize, usize)>,
}

impl Groups {
    pub(super) fn from_rows(rows: &[Row]) -> Self {
        let mut frequencies: Vec<f64> = rows.iter().map(|row| row.frequency_hertz).collect();
        frequencies.sort_by(f64::total_cmp);
        frequencies.dedup();
        let mut cores: Vec<usize> = rows.iter().map(|row| row.cores).collect();
        cores.sort_unstable();
        cores.dedup();
        let index = |row: &Row| {
            let frequency = frequencies.partition_point(|other| *other < row.frequency_hertz);
            (frequency, cores.partition_point(|other| *other < row.cores))
        };
        let of_row = rows.iter().map(index).collect();
        Self { frequencies, cores, of_row }
    }
}
