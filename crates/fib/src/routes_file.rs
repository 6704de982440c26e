//! Files of routes: one prefix per line, optionally followed by a word that names its next hop.
//!
//! ```text
//! # a comment
//! 198.51.100.0/24  198.51.100.1
//! 2001:db8::/32
//! ```
//!
//! If a prefix occurs twice, its last line applies.

use crate::NextHopId;
use ipnet::IpNet;
use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::SplitWhitespace;

/// Largest number of errors that are listed; with more, the file is probably of another kind.
const MOST_LISTED: usize = 20;
/// Number of characters of a wrong value that a message repeats.
const MOST_SHOWN: usize = 60;
/// Number of ids for names: all except [`RoutesFile::UNNAMED`].
const MOST_NAMES: usize = NextHopId::MAX.0 as usize - 1;
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// Contents of a file of routes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RoutesFile {
    /// Routes in the order of the file.
    pub routes: Vec<Route>,
    /// Words that name next hops; id 1 is the first.
    names: Vec<String>,
}

/// One line of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// Prefix, with its host bits cleared.
    pub prefix: IpNet,
    /// Next hop; `None` if the line names none. See [`RoutesFile::name`].
    pub next_hop: Option<NextHopId>,
}

/// Reasons why a file of routes cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RoutesFileError {
    /// The file cannot be opened or read.
    #[error("cannot open {}: {source}", path.display())]
    Unreadable {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// The file is compressed.
    #[error("{}: is compressed; unpack it first: gunzip < {} > routes.txt", path.display(), path.display())]
    Compressed {
        /// Path of the file.
        path: PathBuf,
    },
    /// Some lines are invalid.
    #[error("{}", Located(path, problems))]
    Invalid {
        /// Path of the file.
        path: PathBuf,
        /// The invalid lines.
        problems: Problems,
    },
}

/// Invalid lines of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Problems {
    /// The first problems.
    pub listed: Vec<Problem>,
    /// Number of further problems.
    pub more: usize,
}

/// An invalid line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Line number, from 1.
    pub line: usize,
    /// The invalid word.
    pub value: String,
    /// Fault of the word, and what is allowed.
    pub reason: String,
}

/// One problem per line, each with file and line number.
struct Located<'a>(&'a Path, &'a Problems);

impl fmt::Display for Located<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(path, problems) = self;
        let file = path.display();
        for (i, Problem { line, value, reason }) in problems.listed.iter().enumerate() {
            let newline = if i == 0 { "" } else { "\n" };
            write!(out, "{newline}{file}:{line}: \"{value}\" {reason}")?;
        }
        if problems.more > 0 {
            write!(out, "\n{file}: and {} more lines like these", problems.more)?;
        }
        Ok(())
    }
}

/// Lines of a file of routes that are not empty: their numbers, from 1, and their text without
/// comments.
pub fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let before_comment = |line: &str| line.find('#').unwrap_or(line.len());
    (1..)
        .zip(text.lines().map(move |line| line[..before_comment(line)].trim()))
        .filter(|(_, content)| !content.is_empty())
}

/// Parses the prefix at the beginning of such a line; returns it with the words that follow.
///
/// # Errors
/// Returns the invalid word and its fault.
pub fn prefix_of(content: &str) -> Result<(IpNet, SplitWhitespace<'_>), (&str, String)> {
    let mut words = content.split_whitespace();
    let word = words.next().unwrap_or_default();
    let prefix: IpNet = word.parse().map_err(|_| {
        let reason = "is not a prefix: ADDRESS/LENGTH is allowed, the length up to 32 (IPv4) or \
                      128 (IPv6)";
        (word, reason.to_owned())
    })?;
    if prefix != prefix.trunc() {
        return Err((word, format!("has host bits set: the prefix is {}", prefix.trunc())));
    }
    Ok((prefix, words))
}

/// Reads the prefixes of a file of routes and ignores their next hops.
///
/// # Errors
/// Fails when the file cannot be read; otherwise returns the invalid lines.
pub fn load_prefixes(path: &Path) -> Result<Vec<IpNet>, RoutesFileError> {
    each_line(&text_of(path)?, |content| Ok(prefix_of(content)?.0))
        .map_err(|problems| RoutesFileError::Invalid { path: path.to_owned(), problems })
}

fn text_of(path: &Path) -> Result<String, RoutesFileError> {
    let bytes = wattline_files::read(path, wattline_files::MOST_TEXT)
        .map_err(|source| RoutesFileError::Unreadable { path: path.to_owned(), source })?;
    if bytes.starts_with(&GZIP_MAGIC) {
        return Err(RoutesFileError::Compressed { path: path.to_owned() });
    }
    // Text that is not UTF-8 is no prefix either, so the line is reported as invalid.
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Parses each line, or lists the invalid ones.
fn each_line<'a, T>(
    text: &'a str,
    mut read: impl FnMut(&'a str) -> Result<T, (&'a str, String)>,
) -> Result<Vec<T>, Problems> {
    let mut all = Vec::new();
    let mut problems = Problems::default();
    for (line, content) in lines(text) {
        match read(content) {
            Ok(one) => all.push(one),
            Err(_) if problems.listed.len() == MOST_LISTED => problems.more += 1,
            Err((value, reason)) => {
                let value = value.chars().take(MOST_SHOWN).collect();
                problems.listed.push(Problem { line, value, reason });
            }
        }
    }
    if problems.listed.is_empty() { Ok(all) } else { Err(problems) }
}

impl RoutesFile {
    /// Id without a name, for tables, which need an id for routes without a next hop.
    pub const UNNAMED: NextHopId = NextHopId::MAX;

    /// Reads a file.
    ///
    /// # Errors
    /// Fails when the file cannot be read; otherwise returns the invalid lines.
    pub fn load(path: &Path) -> Result<Self, RoutesFileError> {
        Self::parse(&text_of(path)?)
            .map_err(|problems| RoutesFileError::Invalid { path: path.to_owned(), problems })
    }

    /// Reads the text of a file.
    ///
    /// # Errors
    /// Returns the invalid lines.
    pub fn parse(text: &str) -> Result<Self, Problems> {
        let mut file = Self::default();
        let mut ids = HashMap::new();
        let routes = each_line(text, |content| file.line(content, &mut ids))?;
        Ok(Self { routes, ..file })
    }

    /// Returns the word in the file that names a next hop.
    pub fn name(&self, id: NextHopId) -> Option<&str> {
        let index = usize::from(id.0).checked_sub(1)?;
        self.names.get(index).map(String::as_str)
    }

    fn line<'a>(
        &mut self,
        content: &'a str,
        ids: &mut HashMap<&'a str, NextHopId>,
    ) -> Result<Route, (&'a str, String)> {
        let (prefix, mut rest) = prefix_of(content)?;
        let next_hop = match rest.next() {
            None => None,
            Some(name) => Some(match ids.get(name) {
                Some(&id) => id,
                None => {
                    if self.names.len() == MOST_NAMES {
                        let most = MOST_NAMES;
                        return Err((
                            name,
                            format!("is one next hop too many: {most} are allowed"),
                        ));
                    }
                    self.names.push(name.to_owned());
                    let id = NextHopId(self.names.len() as u16);
                    ids.insert(name, id);
                    id
                }
            }),
        };
        match rest.next() {
            None => Ok(Route { prefix, next_hop }),
            Some(extra) => {
                let reason = "is one word too many: a prefix and one word for its next hop are \
                              allowed";
                Err((extra, reason.to_owned()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_prefixes_next_hops_and_comments() {
        let text =
            "# all\n10.0.0.0/8 gw1\n\n  10.1.0.0/16\tgw2  # two\n::/0 gw1\r\n2001:db8::/32\n";
        let file = RoutesFile::parse(text).unwrap();
        let read: Vec<_> = file
            .routes
            .iter()
            .map(|route| (route.prefix.to_string(), route.next_hop.and_then(|id| file.name(id))))
            .collect();
        let expected = [
            ("10.0.0.0/8".to_owned(), Some("gw1")),
            ("10.1.0.0/16".to_owned(), Some("gw2")),
            ("::/0".to_owned(), Some("gw1")),
            ("2001:db8::/32".to_owned(), None),
        ];
        assert_eq!(read, expected);
        assert_eq!(file.name(NextHopId::NONE), None);
        assert_eq!(RoutesFile::parse(""), Ok(RoutesFile::default()));
    }

    #[test]
    fn names_every_wrong_line_and_its_value() {
        let text = "10.0.0.0/8\n10.0.0.0/33\n10.0.0.0\n10.0.0.1/8\nx\n10.0.0.0/8 a b\n::/129 a\n";
        let problems = RoutesFile::parse(text).unwrap_err().listed;
        let named: Vec<_> = problems.iter().map(|p| (p.line, p.value.as_str())).collect();
        let expected = [
            (2, "10.0.0.0/33"),
            (3, "10.0.0.0"),
            (4, "10.0.0.1/8"),
            (5, "x"),
            (6, "b"),
            (7, "::/129"),
        ];
        assert_eq!(named, expected);
        assert!(problems[2].reason.contains("10.0.0.0/8"));
    }

    #[test]
    fn refuses_more_next_hops_than_there_are_ids() {
        let most = MOST_NAMES;
        let text: String = (0..=most).map(|i| format!("10.0.0.0/8 gw{i}\n")).collect();
        let problems = RoutesFile::parse(&text).unwrap_err().listed;
        assert_eq!(problems.len(), 1);
        assert_eq!((problems[0].line, problems[0].value.as_str()), (most + 1, "gw32766"));
    }

    #[test]
    fn unusable_files_are_distinguished() {
        let directory =
            std::env::temp_dir().join(format!("wattline-routes-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let path = directory.join("routes");
        let load = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            RoutesFile::load(&path).unwrap_err().to_string()
        };
        assert!(load(&[0x1f, 0x8b, 8, 0]).contains("gunzip"));
        let many = load("bad\n".repeat(50).as_bytes());
        assert!(many.contains("routes:20: \"bad\""), "{many}");
        assert!(many.ends_with("and 30 more lines like these"), "{many}");
        assert!(load(b"10.0.0.0/8\n\xff\xfe/8\n").contains("routes:2:"));
        std::fs::remove_dir_all(&directory).unwrap();
        assert!(RoutesFile::load(&path).unwrap_err().to_string().starts_with("cannot open"));
    }
}
