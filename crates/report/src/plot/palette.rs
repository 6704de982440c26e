//! The colours of series.

/// The palette of Okabe and Ito, which colour-blind people can distinguish, without black (used for
/// published values) and yellow (too pale for lines).
const COLOURS: [&str; 6] = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"];

/// Colour of the series with this number.
pub(super) fn colour(index: usize) -> &'static str {
    COLOURS[index % COLOURS.len()]
}
