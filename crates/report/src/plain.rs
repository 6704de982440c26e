//! Text that is safe for terminals and logs.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, Write};

/// Returns the text with terminal control characters replaced by escapes such as `\u001b`, which
/// are also valid in JSON strings. Line feeds and tabs are kept.
///
/// Names of interfaces, contents of files and answers of peers may contain any character. All
/// displayed text must pass through this function.
pub fn plain(text: &str) -> Cow<'_, str> {
    if !text.contains(controls) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match controls(character) {
            // Writing into a string does not fail.
            true => drop(write!(shown, "\\u{:04x}", u32::from(character))),
            false => shown.push(character),
        }
    }
    Cow::Owned(shown)
}

/// Returns true for control characters and for characters that reorder the surrounding text.
fn controls(character: char) -> bool {
    let reorders = matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let breaks = matches!(character, '\u{2028}' | '\u{2029}');
    reorders || breaks || character.is_control() && !matches!(character, '\n' | '\t')
}

/// A writer that passes [`plain`] text on. Bytes that are not UTF-8 become U+FFFD.
#[derive(Debug)]
pub struct Plain<W: Write> {
    out: W,
    /// Beginning of a character whose rest has not arrived yet.
    partial: Vec<u8>,
}

impl<W: Write> Plain<W> {
    /// Creates a writer on top of `out`.
    pub fn new(out: W) -> Self {
        Self { out, partial: Vec::new() }
    }
}

impl<W: Write> Write for Plain<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut all = std::mem::take(&mut self.partial);
        all.extend_from_slice(bytes);
        let mut whole = all.len();
        if let Some(chunk) = all.utf8_chunks().last()
            && let invalid = chunk.invalid()
            && (1..4).contains(&invalid.len())
            && is_partial(invalid)
        {
            whole -= invalid.len();
        }
        self.partial = all.split_off(whole);
        self.out.write_all(plain(&String::from_utf8_lossy(&all)).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Returns true if these bytes are the beginning of a character.
fn is_partial(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped_and_letters_kept() {
        for same in ["", "eth0", "a\tb\nc", "Grüße 東京 🦀", "\\u001b"] {
            assert!(matches!(plain(same), Cow::Borrowed(text) if text == same), "{same}");
        }
        assert_eq!(plain("\u{1b}[31mred\u{7}"), "\\u001b[31mred\\u0007");
        assert_eq!(plain("a\rb\u{7f}\u{9b}2J\u{0}"), "a\\u000db\\u007f\\u009b2J\\u0000");
        assert_eq!(plain("\u{202e}gpj.exe\u{2028}"), "\\u202egpj.exe\\u2028");
    }

    #[test]
    fn document_of_json_keeps_its_value() {
        let value = serde_json::json!({ "name": "\u{1b}\u{9b}\u{7f}\u{202e}\n" });
        let shown = plain(&format!("{value:#}")).into_owned();
        assert!(!shown.contains(controls), "{shown}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
    }

    #[test]
    fn writer_takes_characters_in_pieces() {
        let text = "東\u{9b}京 \u{1b}🦀";
        for size in 1..text.len() {
            let mut out = Vec::new();
            let mut writer = Plain::new(&mut out);
            text.as_bytes().chunks(size).for_each(|piece| writer.write_all(piece).unwrap());
            writer.write_all(b"\xff\n").unwrap();
            assert_eq!(String::from_utf8(out).unwrap(), "東\\u009b京 \\u001b🦀\u{fffd}\n");
        }
    }
}
