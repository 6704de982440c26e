//! All errors of a description of traffic at once.

use std::fmt;

/// One error: its place, and what is allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// Source and key, such as `poisson: size`; with the line if there are lines.
    pub place: String,
    /// Fault with the value, and what is allowed.
    pub problem: String,
}

/// All errors of a description; at least one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct SpecError {
    /// Errors in the order of the description.
    pub mistakes: Vec<Mistake>,
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, mistake) in self.mistakes.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{}: {}", mistake.place, mistake.problem)?;
        }
        Ok(())
    }
}

/// Question that suggests the nearest of `known`, if one is near.
pub(super) fn did_you_mean<'a>(
    written: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Option<String> {
    let most = 1 + written.chars().count() / 3;
    known
        .into_iter()
        .map(|name| (strsim::damerau_levenshtein(written, name), name))
        .filter(|(distance, _)| *distance <= most)
        .min()
        .map(|(_, name)| format!("did you mean \"{name}\"?"))
}
