//! Build of a program: every figure can be traced to the sources that computed it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::OnceLock;

/// Number of displayed digits of a commit.
const SHOWN: usize = 10;
/// Suffix of a commit with changes on top of it, as written by the build script.
const MODIFIED: &str = "-modified";

static THIS: OnceLock<Build> = OnceLock::new();

/// Build of a program: its version, and the commit of its sources.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Build {
    /// Version of the program.
    pub version: String,
    /// Commit of its sources; null if it was unknown at build time.
    pub commit: Option<String>,
    /// True if the sources had changes that were not committed.
    pub modified: bool,
}

impl Build {
    /// Reads a build from a version and a commit, as a build script writes them: an empty commit is
    /// unknown.
    pub fn new(version: &str, commit: &str) -> Self {
        let clean = commit.strip_suffix(MODIFIED);
        Self {
            version: version.to_owned(),
            commit: Some(clean.unwrap_or(commit)).filter(|it| !it.is_empty()).map(str::to_owned),
            modified: clean.is_some(),
        }
    }

    /// Sets the build of this program: once, when it starts.
    pub fn set(self) {
        // A second call could only come from a test.
        let _ = THIS.set(self);
    }
}

impl Default for Build {
    /// Returns the build of this program; its commit is unknown until it is [set](Self::set).
    fn default() -> Self {
        THIS.get().cloned().unwrap_or_else(|| Self::new(env!("CARGO_PKG_VERSION"), ""))
    }
}

impl fmt::Display for Build {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { version, commit, modified } = self;
        match commit {
            Some(commit) => {
                write!(formatter, "{version} ({}", commit.get(..SHOWN).unwrap_or(commit))?
            }
            None => write!(formatter, "{version} (unknown commit")?,
        }
        formatter.write_str(if *modified { ", modified)" } else { ")" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn build_names_version_commit_and_changes() {
        let commit = "3f2a1bc9d0e1f2a3b4c5d6e7f8091a2b3c4d5e6f";
        let text = |commit: &str| Build::new("0.1.0", commit).to_string();
        assert_eq!(text(commit), "0.1.0 (3f2a1bc9d0)");
        assert_eq!(text(&format!("{commit}-modified")), "0.1.0 (3f2a1bc9d0, modified)");
        assert_eq!(text("3f2a1bc"), "0.1.0 (3f2a1bc)");
        assert_eq!(text(""), "0.1.0 (unknown commit)");
        assert_eq!(Build::new("0.1.0", commit).commit.as_deref(), Some(commit), "the whole");
        assert_eq!(Build::default().commit, None, "this test has no build script");
    }
}
