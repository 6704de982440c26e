//! Names that policies once had.

use std::fmt;

/// Names that policies once had, and still answer to.
pub(crate) static FORMER_NAMES: &[FormerName] = &[FormerName {
    name: "powersave",
    now: "queue-length",
    remark: "Linux's governor of that name is \"powersave-governor\"",
}];

/// A name that a policy once had. Its text form is the note for whoever still uses it.
#[derive(Debug, PartialEq, Eq)]
pub struct FormerName {
    pub(crate) name: &'static str,
    /// The policy's present name.
    pub(crate) now: &'static str,
    remark: &'static str,
}

impl FormerName {
    /// Returns the former name with which the text form of a policy begins, and the text with the
    /// present name in its place.
    pub fn replace_in(text: &str) -> Option<(&'static Self, String)> {
        let end = text.find([':', '+']).unwrap_or(text.len());
        let (name, rest) = text.split_at(end);
        let former = FORMER_NAMES.iter().find(|former| former.name == name)?;
        Some((former, format!("{}{rest}", former.now)))
    }
}

impl fmt::Display for FormerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "policy \"{}\" is called \"{}\" now; {}", self.name, self.now, self.remark)
    }
}
