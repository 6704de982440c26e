//! Openings of comments, names and messages: the subject comes first. No documentation comment
//! begins with a question word or a pronoun; function names and texts that do are counted over all
//! crates, and their counts only fall.

use crate::documents::root;
use std::path::{Path, PathBuf};

/// First words that hide the subject of a sentence.
const OPENINGS: [&str; 8] = ["what", "how", "where", "why", "which", "of", "whoever", "that"];

/// More such words of documentation comments.
const OPENINGS_OF_COMMENTS: [&str; 2] = ["whether", "those"];

/// Most function names and messages. Lower a figure whenever the count has fallen.
const MOST_FUNCTIONS: usize = 53;
const MOST_MESSAGES: usize = 36;

#[derive(Debug, Default, PartialEq)]
struct Openings {
    /// Lines that begin a documentation comment, by their numbers.
    comments: Vec<usize>,
    functions: usize,
    /// Texts of three words and more.
    messages: usize,
}

/// Returns the first word of a text in lower case if `next` accepts the character after it.
fn first_word(text: &str, next: impl Fn(char) -> bool) -> Option<String> {
    let word: String = text.chars().take_while(char::is_ascii_alphabetic).collect();
    let ends = text[word.len()..].chars().next().is_none_or(next);
    ends.then(|| word.to_ascii_lowercase())
}

/// Returns true if a text begins with one of the words.
fn opens(text: &str, next: impl Fn(char) -> bool) -> bool {
    first_word(text, next).is_some_and(|word| OPENINGS.contains(&word.as_str()))
}

/// Returns true if a documentation comment begins with one of the words.
fn opens_comment(text: &str) -> bool {
    let word = first_word(text, |it| !it.is_ascii_alphanumeric()).unwrap_or_default();
    [&OPENINGS[..], &OPENINGS_OF_COMMENTS].concat().contains(&word.as_str())
}

/// Returns the text of a line of a documentation comment.
fn documentation(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let text = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"))?;
    (!text.starts_with('/')).then(|| text.trim_start())
}

/// Returns the contents of the string literals of a source without comments, and the source without
/// them.
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
    for (index, line) in source.lines().enumerate() {
        let comment = documentation(line);
        if !inside && comment.is_some_and(opens_comment) {
            count.comments.push(index + 1);
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
fn comments_names_and_messages_open_with_their_subject() {
    let mut files = Vec::new();
    for folder in ["crates", "tests", "python/src"] {
        sources(&root().join(folder), &mut files);
    }
    assert!(files.len() > 500, "{} files", files.len());
    let (mut comments, mut functions, mut messages) = (Vec::new(), 0, 0);
    for file in files {
        let found = openings(&std::fs::read_to_string(&file).unwrap());
        let places = found.comments.iter().map(|line| format!("{}:{line}", file.display()));
        comments.extend(places);
        functions += found.functions;
        messages += found.messages;
    }
    println!("{functions} functions, {messages} messages");
    assert!(
        comments.is_empty(),
        "begin these comments with a noun or a verb, not with {OPENINGS:?} or {OPENINGS_OF_COMMENTS:?}:\n{}",
        comments.join("\n")
    );
    assert!(
        functions <= MOST_FUNCTIONS && messages <= MOST_MESSAGES,
        "{functions} functions and {messages} messages begin with {OPENINGS:?}, allowed are \
         {MOST_FUNCTIONS} and {MOST_MESSAGES}; begin with the subject or a verb"
    );
}

#[test]
fn openings_of_each_kind_are_counted() {
    let source = "//! What it is.\n\n/// Returns that.\n/// What follows is the same comment.\n\
                  fn what_is(text: &'static str) { say(\"where it is: {text}\", 'x', \"of it\"); }\n\
                  // Why not.\nfn offer() { say(r#\"which \"is\" it\"#); }\nfn of() {}\
                  \n/// Whether.\nfn f() {}\n";
    assert_eq!(openings(source), Openings { comments: vec![1, 9], functions: 2, messages: 2 });
}
