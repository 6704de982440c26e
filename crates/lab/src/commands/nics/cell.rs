//! Numbers in tables of cards.

/// A number with so many decimals, or a dash.
pub(super) fn cell(value: Option<f64>, decimals: usize) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:.decimals$}"))
}
