//! Escapes text for XML and HTML.

/// The text with all special characters of XML and HTML escaped.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
