//! Spans of time as they are written in leagues.

use wattline_units::Span;

/// A span of time that is not empty.
///
/// # Errors
/// A message that says what is wrong.
pub(crate) fn above_zero(text: &str) -> Result<Span, String> {
    match text.parse::<Span>() {
        Ok(Span::ZERO) => Err(format!("\"{text}\" is 0; it must be above 0")),
        read => read.map_err(|error| error.to_string()),
    }
}
