//! Selection of series of an exposition.

use std::str::FromStr;
use thiserror::Error;

/// Name of a histogram, with labels that its series must have, as in PromQL:
/// `http_request_duration_seconds{handler="/api"}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selector {
    pub(super) name: String,
    pub(super) labels: Vec<(String, String)>,
}

/// Text that is not a selector.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "\"{0}\" is no name of a histogram with labels; expected NAME or NAME{{LABEL=\"VALUE\",...}}"
)]
pub struct SelectorError(String);

impl FromStr for Selector {
    type Err = SelectorError;

    fn from_str(text: &str) -> Result<Self, SelectorError> {
        let wrong = || SelectorError(text.to_owned());
        let (name, labels, rest) = split(text).ok_or_else(wrong)?;
        // The three metrics of a histogram have these suffixes; the selector names the histogram.
        let ending = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
        let name = ending.unwrap_or(name);
        if name.is_empty() || !rest.trim().is_empty() {
            return Err(wrong());
        }
        Ok(Self { name: name.to_owned(), labels })
    }
}

impl Selector {
    /// Returns true if a series has all required labels.
    pub(super) fn takes(&self, labels: &[(String, String)]) -> bool {
        self.labels.iter().all(|label| labels.contains(label))
    }
}

/// Name, labels, and the rest of a sample line.
type Split<'a> = (&'a str, Vec<(String, String)>, &'a str);

/// Splits the name and the labels off a sample line; `None` if they are malformed.
pub(super) fn split(line: &str) -> Option<Split<'_>> {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let end = line.find(|c| !word(c)).unwrap_or(line.len());
    let (name, mut rest) = line.split_at(end);
    if name.is_empty() {
        return None;
    }
    let mut labels = Vec::new();
    let Some(inside) = rest.strip_prefix('{') else { return Some((name, labels, rest)) };
    rest = inside.trim_start();
    loop {
        if let Some(after) = rest.strip_prefix('}') {
            return Some((name, labels, after));
        }
        let end = rest.find(|c| !word(c))?;
        let (label, after) = rest.split_at(end);
        let quoted = after.trim_start().strip_prefix('=')?.trim_start().strip_prefix('"')?;
        let (value, after) = unquote(quoted)?;
        if label.is_empty() {
            return None;
        }
        labels.push((label.to_owned(), value));
        let after = after.trim_start();
        rest = match after.strip_prefix(',') {
            Some(next) => next.trim_start(),
            // The next iteration finds the bracket or fails.
            None if after.starts_with('}') => after,
            None => return None,
        };
    }
}

/// Returns the text up to the closing quotation mark, unescaped, and the rest.
fn unquote(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match (escaped, c) {
            (false, '"') => return Some((value, &text[at + 1..])),
            (false, '\\') => escaped = true,
            (true, 'n') => {
                value.push('\n');
                escaped = false;
            }
            _ => {
                value.push(c);
                escaped = false;
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_labels_are_split() {
        let selector: Selector = "a:b_seconds{x=\"1\", y = \"q\\\"}\\n\\\\\",}".parse().unwrap();
        assert_eq!(selector.name, "a:b_seconds");
        let expected = [("x", "1"), ("y", "q\"}\n\\")].map(|(l, v)| (l.to_owned(), v.to_owned()));
        assert_eq!(selector.labels, expected);
        assert_eq!("a_seconds_bucket".parse::<Selector>().unwrap().name, "a_seconds");
        assert!(selector.takes(&[&expected[..], &[("z".into(), "3".into())]].concat()));
        assert!(!selector.takes(&expected[..1]));
        for wrong in
            ["", "{x=\"1\"}", "a{", "a{x}", "a{x=1}", "a{x=\"1}", "a b", "a{x=\"1\"y=\"2\"}"]
        {
            assert!(wrong.parse::<Selector>().is_err(), "{wrong}");
        }
    }
}
