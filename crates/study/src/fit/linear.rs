//! Linear least squares with the uncertainty of the result.

use super::estimate::Estimate;
use nalgebra::{DMatrix, DVector};

/// Singular values below this fraction of the largest count as zero: the rows then cannot
/// distinguish the parameters.
const RANK_TOLERANCE: f64 = 1e-10;

/// Solution of a least-squares problem.
pub(super) struct Solution {
    /// One value with its interval for each column of the design.
    pub(super) estimates: Vec<Estimate>,
}

/// Solves `design * x = target` for the least squared error; `None` if the columns are dependent.
pub(super) fn solve(design: &DMatrix<f64>, target: &DVector<f64>) -> Option<Solution> {
    if design.nrows() < design.ncols() || design.ncols() == 0 {
        return None;
    }
    let svd = design.clone().svd(true, true);
    let largest = svd.singular_values.max();
    let values = svd.solve(target, RANK_TOLERANCE * largest).ok()?;
    let squares = (target - design * &values).norm_squared();
    let freedom = design.nrows() - design.ncols();
    let deviations = deviations(design, squares, freedom)?;
    let pairs = values.iter().zip(deviations.iter());
    let estimates = pairs.map(|(value, deviation)| Estimate::new(*value, *deviation, freedom));
    Some(Solution { estimates: estimates.collect() })
}

/// Standard deviation of each parameter of a least-squares fit, from the derivatives `jacobian` and
/// the sum of squared residuals `squares`. `None` if the rows cannot distinguish the parameters.
pub(super) fn deviations(
    jacobian: &DMatrix<f64>,
    squares: f64,
    freedom: usize,
) -> Option<DVector<f64>> {
    // Columns of very different size would make the rank test meaningless.
    let norms: Vec<f64> = jacobian.column_iter().map(|column| column.norm()).collect();
    if norms.contains(&0.0) {
        return None;
    }
    let mut scaled = jacobian.clone();
    for (mut column, norm) in scaled.column_iter_mut().zip(&norms) {
        column /= *norm;
    }
    let svd = scaled.svd(false, true);
    if svd.singular_values.min() <= RANK_TOLERANCE * svd.singular_values.max() {
        return None;
    }
    let directions = svd.v_t?;
    let variance = squares / freedom.max(1) as f64;
    let parameter = |index: usize| {
        let spread: f64 = directions
            .column(index)
            .iter()
            .zip(svd.singular_values.iter())
            .map(|(share, singular)| (share / singular).powi(2))
            .sum();
        (variance * spread).sqrt() / norms[index]
    };
    Some(DVector::from_fn(jacobian.ncols(), |index, _| parameter(index)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A straight line through four points, computed by hand: 1.4 x + 0.4, sum of squared residuals
    /// 0.2. The textbook formulas give the deviations.
    #[test]
    fn line_through_four_points() {
        let design = DMatrix::from_row_slice(4, 2, &[1.0, 0.0, 1.0, 1.0, 1.0, 2.0, 1.0, 3.0]);
        let target = DVector::from_row_slice(&[0.5, 1.5, 3.5, 4.5]);
        let solution = solve(&design, &target).unwrap();
        assert!((solution.estimates[0].value - 0.4).abs() < 1e-12);
        assert!((solution.estimates[1].value - 1.4).abs() < 1e-12);
        // s² = 0.2 / 2, var(slope) = s² / 5; t(2) = 4.3027.
        let half = 4.3027 * (0.1f64 / 5.0).sqrt();
        assert!((solution.estimates[1].high.unwrap() - 1.4 - half).abs() < 1e-3);
    }

    #[test]
    fn dependent_columns_have_no_answer() {
        let design = DMatrix::from_row_slice(3, 2, &[1.0, 2.0, 2.0, 4.0, 3.0, 6.0]);
        assert!(solve(&design, &DVector::from_row_slice(&[1.0, 2.0, 3.0])).is_none());
    }
}
