//! The colours of series.

/// The palette of Okabe and Ito, which the colour-blind can tell apart; without black,
/// which is for what was published, and yellow, which is too pale for lines.
const COLOURS: [&str; 6] = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"];

/// The colour of the series of this number.
pub(super) fn colour(index: usize) -> &'static str {
    COLOURS[index % COLOURS.len()]
}
