//! Idle power over the number of connected links (Sohan et al., Table III).

use serde::Serialize;
use wattline_units::Watts;

/// Idle power of a card as a straight line: electronics, plus a constant per connected link.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct LinkModel {
    /// Power without any link.
    #[serde(rename = "base_watts")]
    pub base: Watts,
    /// Power per connected link.
    #[serde(rename = "per_link_watts")]
    pub per_link: Watts,
}

impl LinkModel {
    /// Fits a line through the idle powers with 0, 1, 2, … links by least squares; `None` for fewer
    /// than two powers.
    pub fn fit(by_links: &[Watts]) -> Option<Self> {
        let points = by_links.iter().enumerate().map(|(links, watts)| (links as f64, watts.0));
        Self::through(&points.collect::<Vec<_>>())
    }

    /// Returns the idle power with this many links.
    pub fn idle(&self, links: usize) -> Watts {
        self.base + self.per_link * links as f64
    }

    /// Predicts each point by the line through all *other* points. Such a prediction can be wrong,
    /// while a line through all points fits them by construction. Returns `None` for fewer than
    /// three points.
    pub fn left_out(by_links: &[Watts]) -> Option<Vec<Watts>> {
        if by_links.len() < 3 {
            return None;
        }
        (0..by_links.len())
            .map(|left| {
                let others = by_links.iter().enumerate().filter(|(links, _)| *links != left);
                let others: Vec<_> = others.map(|(links, w)| (links as f64, w.0)).collect();
                Some(Self::through(&others)?.idle(left))
            })
            .collect()
    }

    fn through(points: &[(f64, f64)]) -> Option<Self> {
        if points.len() < 2 {
            return None;
        }
        let count = points.len() as f64;
        let mean_x = points.iter().map(|point| point.0).sum::<f64>() / count;
        let mean_y = points.iter().map(|point| point.1).sum::<f64>() / count;
        let spread: f64 = points.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
        let slope = points.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum::<f64>() / spread;
        Some(Self { base: Watts(mean_y - slope * mean_x), per_link: Watts(slope) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_is_recovered_and_kink_is_detected() {
        let line: Vec<Watts> = (0..5).map(|n| Watts(3.0 + 0.5 * f64::from(n))).collect();
        let model = LinkModel::fit(&line).unwrap();
        assert!((model.base.0 - 3.0).abs() < 1e-12 && (model.per_link.0 - 0.5).abs() < 1e-12);
        let kinked = [1.0, 2.0, 3.0, 9.0].map(Watts);
        let predicted = LinkModel::left_out(&kinked).unwrap();
        assert!((predicted[3].0 - 4.0).abs() < 1e-12, "{predicted:?}");
        assert!(LinkModel::fit(&[Watts(1.0)]).is_none());
        assert!(LinkModel::left_out(&kinked[..2]).is_none());
    }
}
