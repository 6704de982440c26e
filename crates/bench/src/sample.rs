//! Repeated measurements of one quantity.

use serde::Serialize;

/// Median and spread of repeats.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Sample {
    /// Median of the repeats.
    pub median: f64,
    /// Lower quartile of the repeats.
    pub lower_quartile: f64,
    /// Upper quartile of the repeats.
    pub upper_quartile: f64,
    /// Number of repeats.
    pub repeats: usize,
}

impl Sample {
    /// Summarises the values; `None` if there are none.
    pub fn summarise(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let at = |quarter: usize| values.get((values.len().checked_sub(1)? * quarter + 2) / 4);
        Some(Self {
            median: *at(2)?,
            lower_quartile: *at(1)?,
            upper_quartile: *at(3)?,
            repeats: values.len(),
        })
    }
}

/// Sorts the values and returns the middle one; zero if there are none.
pub fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_do_not_depend_on_order() {
        let sample = Sample::summarise(vec![5.0, 1.0, 4.0, 2.0, 3.0]).unwrap();
        assert_eq!(
            sample,
            Sample { median: 3.0, lower_quartile: 2.0, upper_quartile: 4.0, repeats: 5 }
        );
        assert_eq!(Sample::summarise(vec![7.0]).unwrap().median, 7.0);
        assert_eq!(Sample::summarise(vec![]), None);
    }
}
