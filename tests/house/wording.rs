//! Openings of comments, names and messages: the subject comes first. Comments, functions and texts
//! that begin with one of a few question words are counted over all crates, and the counts only fall.

use crate::documents::root;
use std::path::{Path, PathBuf};

/// First words that hide the subject of a sentence.
const OPENINGS: [&str; 8] = ["what", "how", "where", "why", "which", "of", "whoever", "that"];

/// Most openings of each kind. Lower a figure whenever the count has fallen.
const MOST: Openings = Openings { comments: 48, functions: 113, messages: 148 };

#[derive(Debug, Default, PartialEq)]
struct Openings {
    /// Documentation comments: the first line of each.
    comments: usize,
    functions: usize,
    /// Texts of three words and more.
    messages: usize,
}

/// True if a text begins with one of the words.
fn opens(text: &str, next: impl Fn(char) -> bool) -> bool {
    let word: String = text.chars().take_while(char::is_ascii_alphabetic).collect();
    let ends = text[word.len()..].chars().next().is_none_or(next);
    ends && OPENINGS.contains(&word.to_ascii_lowercase().as_str())
}

/// Text of a line of a documentation comment.
fn documentation(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let text = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"))?;
    (!text.starts_with('/')).then(|| text.trim_start())
}

/// Contents of the string literals of a source without comments, and the source without them.
fn literals(code: &str) -> (Vec<String>, String) {
    let (mut found, mut rest) = (Vec::new(), String::new());
    let mut letters = code.chars().peekable();
    let mut before = ' ';
    while let Some(letter) = letters.next() {
        match letter {
            // A character, not a lifetime.
            '\'' => match (letters.next(), letters.peek()) {
                (Some('\\'), _) => {
                    letters.by_ref().skip(1).take_while(|it| *it != '\'').for_each(drop)
                }
                (Some(_), Some('\'')) => drop(letters.next()),
                (Some(first), _) => rest.push(first),
                (None, _) => {}
            },
            '"' => {
                let raw = before == 'r' || before == '#';
                let mut text = String::new();
                while let Some(letter) = letters.next() {
                    match letter {
                        '\\' if !raw => text.extend(letters.next()),
                        '"' if !raw || before != '#' || letters.peek() == Some(&'#') => break,
                        _ => text.push(letter),
                    }
                }
                found.push(text);
                before = ' ';
                continue;
            }
            _ => rest.push(letter),
        }
        before = letter;
    }
    (found, rest)
}

fn openings(source: &str) -> Openings {
    let mut count = Openings::default();
    let (mut code, mut inside) = (String::new(), false);
    for line in source.lines() {
        let comment = documentation(line);
        if comment.is_some_and(|text| !inside && opens(text, |it| !it.is_ascii_alphanumeric())) {
            count.comments += 1;
        }
        inside = comment.is_some();
        if !line.trim_start().starts_with("//") {
            code.push_str(line.split(" // ").next().unwrap_or_default());
            code.push('\n');
        }
    }
    let (texts, code) = literals(&code);
    let message =
        |text: &&String| opens(text, |it| it == ' ') && text.split_whitespace().nth(2).is_some();
    count.messages = texts.iter().filter(message).count();
    let names = code.split("fn ").skip(1);
    count.functions = names.filter(|name| opens(name, |it| "_(<".contains(it))).count();
    count
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|it| it == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn openings_with_question_words_become_fewer() {
    let mut files = Vec::new();
    sources(&root().join("crates"), &mut files);
    sources(&root().join("tests"), &mut files);
    assert!(files.len() > 500, "{} files", files.len());
    let mut sum = Openings::default();
    for file in files {
        let found = openings(&std::fs::read_to_string(file).unwrap());
        sum.comments += found.comments;
        sum.functions += found.functions;
        sum.messages += found.messages;
    }
    println!("{sum:?}");
    assert!(
        sum.comments <= MOST.comments
            && sum.functions <= MOST.functions
            && sum.messages <= MOST.messages,
        "openings with {OPENINGS:?}: {sum:?}, allowed {MOST:?}; begin with the subject or a verb"
    );
}

#[test]
fn openings_of_each_kind_are_counted() {
    let source = "//! What it is.\n\n/// Returns that.\n/// What follows is the same comment.\n\
                  fn what_is(text: &'static str) { say(\"where it is: {text}\", 'x', \"of it\"); }\n\
                  // Why not.\nfn offer() { say(r#\"which \"is\" it\"#); }\nfn of() {}\n";
    assert_eq!(openings(source), Openings { comments: 1, functions: 2, messages: 2 });
}
