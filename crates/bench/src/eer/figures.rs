//! Figures derived from power at several loads.

use super::class::Weighted;

/// Returns weighted throughput over weighted power: EER = Σ B T / Σ B P, in bits per second per
/// watt (draft-ietf-bmwg-powerbench; ETSI ES 203 136). Each entry has its weight, throughput and
/// power. `None` without power.
pub fn efficiency_ratio(loads: &[(Weighted, f64, f64)]) -> Option<f64> {
    let throughput: f64 = loads.iter().map(|(load, bps, _)| load.weight * bps).sum();
    let watts: f64 = loads.iter().map(|(load, _, watts)| load.weight * watts).sum();
    (watts > 0.0).then(|| throughput / watts)
}

/// Returns the energy proportionality of a curve of (share of the highest load, watts), in order of
/// load from 0 to 1: 1 for power proportional to the load, 0 for constant power, negative for
/// worse.
///
/// It is one minus the area between the curve and the ideal curve, over the area below the ideal
/// curve, of power relative to full load (Ryckbosch, Polfliet and Eeckhout, "Trends in server
/// energy proportionality", IEEE Computer, 2011). `None` with fewer than two points or no power.
pub fn proportionality(curve: &[(f64, f64)]) -> Option<f64> {
    let (_, full) = *curve.last()?;
    if curve.len() < 2 || full <= 0.0 {
        return None;
    }
    let area: f64 = curve
        .windows(2)
        .map(|pair| (pair[1].0 - pair[0].0) * (pair[0].1 + pair[1].1) / 2.0 / full)
        .sum();
    const IDEAL: f64 = 0.5;
    Some(1.0 - (area - IDEAL) / IDEAL)
}

/// Returns the share of its power at full load that a device saves when idle; 1 if it takes no
/// power.
pub fn dynamic_range(idle_watts: f64, full_watts: f64) -> Option<f64> {
    (full_watts > 0.0).then(|| (full_watts - idle_watts) / full_watts)
}

#[cfg(test)]
mod tests {
    use super::super::class::Class;
    use super::*;

    #[test]
    fn ratio_weighs_throughput_and_power() {
        // 100, 30 and 0 % of 10 Gbit/s at 200, 150 and 100 W.
        let [full, typical, idle] = Class::Core.loads();
        let ratio =
            efficiency_ratio(&[(full, 10e9, 200.0), (typical, 3e9, 150.0), (idle, 0.0, 100.0)]);
        // (0.1 · 10 + 0.8 · 3) / (20 + 120 + 10) = 3.4 Gbit/s / 150 W.
        assert!((ratio.unwrap() - 3.4e9 / 150.0).abs() < 1.0);
        assert_eq!(efficiency_ratio(&[(full, 1.0, 0.0)]), None);
    }

    #[test]
    fn proportionality_is_one_for_the_ideal_and_zero_for_a_constant() {
        let near = |curve: &[(f64, f64)], expected: f64| {
            let found = proportionality(curve).unwrap();
            assert!((found - expected).abs() < 1e-12, "{found}");
        };
        near(&[(0.0, 0.0), (0.5, 50.0), (1.0, 100.0)], 1.0);
        near(&[(0.0, 80.0), (1.0, 80.0)], 0.0);
        near(&[(0.0, 50.0), (1.0, 100.0)], 0.5);
        assert_eq!(proportionality(&[(1.0, 5.0)]), None);
        assert_eq!(dynamic_range(25.0, 100.0), Some(0.75));
    }
}
