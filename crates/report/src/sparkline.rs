//! A curve in one line of text.

const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Draws the last `width` values as bars from zero to `top`, or to the highest value without `top`.
/// Unknown values are blanks.
pub fn sparkline(values: &[f64], width: usize, top: Option<f64>) -> String {
    let shown = &values[values.len().saturating_sub(width)..];
    let highest = shown.iter().copied().filter(|v| v.is_finite()).fold(0.0, f64::max);
    let top = top.unwrap_or(highest);
    let bar = |value: &f64| {
        if !value.is_finite() {
            return ' ';
        }
        let part = if top > 0.0 { (value / top).clamp(0.0, 1.0) } else { 0.0 };
        BARS[((part * BARS.len() as f64) as usize).min(BARS.len() - 1)]
    };
    shown.iter().map(bar).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_grow_with_values_and_gaps_stay_open() {
        assert_eq!(sparkline(&[0.0, 4.0, f64::NAN, 8.0], 9, None), "▁▅ █");
        assert_eq!(sparkline(&[9.0, 1.0, 2.0], 2, Some(2.0)), "▅█");
        assert_eq!(sparkline(&[0.0, 0.0], 2, None), "▁▁");
        assert_eq!(sparkline(&[], 2, None), "");
    }
}
