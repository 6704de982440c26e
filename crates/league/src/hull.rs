//! The lower convex hull of points in a plane.

/// Returns the corners of the lower convex hull, from the first point to the last. The points are
/// sorted by x, then by y.
pub(crate) fn lower_hull(points: impl IntoIterator<Item = (f64, f64)>) -> Vec<(f64, f64)> {
    let mut hull: Vec<(f64, f64)> = Vec::new();
    for point in points {
        if hull.last().is_some_and(|last| last.0 >= point.0) {
            continue;
        }
        while let [.., a, b] = hull[..] {
            // Drops a point that lies above the line between its neighbours.
            if (b.1 - a.1) * (point.0 - a.0) < (point.1 - a.1) * (b.0 - a.0) {
                break;
            }
            hull.pop();
        }
        hull.push(point);
    }
    hull
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn corners_lie_below_all_points() {
        let points = [(0.0, 1.0), (1.0, 3.0), (2.0, 4.0), (2.0, 5.0), (3.0, 9.0), (4.0, 9.5)];
        assert_eq!(lower_hull(points), [(0.0, 1.0), (2.0, 4.0), (4.0, 9.5)]);
    }
}
