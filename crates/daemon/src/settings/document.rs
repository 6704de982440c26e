//! A whole configuration.

use super::problem::{ConfigError, Problem, Problems, SYNTAX};
use super::reader::{Reader, Table};
use super::schema::Schema;
use std::path::Path;

/// Maximum size of a configuration; one with 100,000 tables has a tenth of it.
const MOST_BYTES: u64 = 16 << 20;

/// Reads the text of a configuration file.
///
/// # Errors
/// Fails if the file cannot be read, is longer than 16 MiB, or is not text.
pub fn read_text(path: &Path) -> Result<String, ConfigError> {
    let unreadable =
        |source| ConfigError::Unreadable { named_by: "", path: path.to_owned(), source };
    let bytes = wattline_files::read(path, MOST_BYTES).map_err(unreadable)?;
    Ok(String::from_utf8(bytes).map_err(|error| not_text(path, &error))?)
}

fn not_text(path: &Path, error: &std::string::FromUtf8Error) -> Problems {
    let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
    let problem = Problem {
        line: good.iter().filter(|byte| **byte == b'\n').count() + 1,
        key: SYNTAX.to_owned(),
        value: String::new(),
        message: "is not UTF-8 text".to_owned(),
    };
    Problems { file: path.display().to_string(), list: vec![problem], included: None }
}

/// Reads a text with the keys and sections of `schema`; `file` is its name in messages.
///
/// # Errors
/// Returns all problems of the text.
pub fn read<T>(
    (text, file): (&str, &str),
    schema: Schema,
    read: impl FnOnce(&mut Reader, &Table) -> T,
) -> Result<T, Problems> {
    let mut reader = Reader::new(text, schema);
    let read = reader.document(read);
    if reader.problems.is_empty() { Ok(read) } else { Err(reader.into_problems(file.to_owned())) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{
        Key, LogLevel, Misplaced, Section, defaulted, log, required, single_or_empty,
    };
    use std::time::Duration;

    const ANT: Section = Section::Named("[ant]");
    const KEYS: &[Key] = &[
        Key::new(ANT, "name", None, "\"x\"", "a name", "Required."),
        Key::whole(ANT, "legs", Some("6"), "4", 2..=8, "Legs."),
        Key::duration(ANT, "rest", Some("\"1s\""), "\"2s\"", ("1ms", "1min", "2s"), "Rest."),
    ];

    #[derive(Debug, PartialEq)]
    struct Ant {
        name: Option<String>,
        legs: u32,
        rest: Duration,
        level: LogLevel,
    }

    fn parse(text: &str) -> Result<Ant, Problems> {
        let schema = Schema {
            sections: vec!["ant", log::NAME],
            keys: KEYS.iter().chain(log::KEYS).collect(),
            anywhere: &["remark"],
            misplaced: Misplaced { names: &["bee"], message: "belongs in the hive".to_owned() },
        };
        read((text, "ants.toml"), schema, |reader, root| {
            let table = single_or_empty(reader, root, ANT, "ant");
            reader.refuse_unknown(&table);
            Ant {
                name: required(reader, &table, "name", crate::settings::parse_name)
                    .map(|name| name.value),
                legs: defaulted(reader.number(&table, "legs")),
                rest: defaulted(reader.duration(&table, "rest")),
                level: log::read(reader, root),
            }
        })
    }

    #[test]
    fn missing_values_get_defaults() {
        let name = Some("anna".to_owned());
        let expected = Ant { name, legs: 8, rest: Duration::from_secs(1), level: LogLevel::Warn };
        let text = "[ant]\nname = \"anna\"\nlegs = 8\nremark = 1\n[log]\nlevel = \"warn\"\n";
        assert_eq!(parse(text), Ok(expected));
    }

    #[test]
    fn all_mistakes_are_reported_at_once_in_the_order_of_lines() {
        let text = "bee = 1\n[ant]\nlegs = 9\nrest = \"1h\"\nleg = 2\nlevel = \"info\"\n\
                    [log]\nlevel = 3\n[aunt]\n";
        let message = parse(text).unwrap_err().to_string();
        let expected = "\
            ants.toml:1: bee = bee: belongs in the hive\n\
            ants.toml:2: [ant] name: is missing; it must be a name\n\
            ants.toml:3: [ant] legs = 9: must be a whole number from 2 to 8\n\
            ants.toml:4: [ant] rest = \"1h\": must be a duration from \"1ms\" to \"1min\", such as \"2s\"\n\
            ants.toml:5: [ant] leg: unknown key: did you mean \"legs\"?\n\
            ants.toml:6: [ant] level: unknown key here: it belongs in [log]\n\
            ants.toml:8: [log] level = 3: must be \"error\", \"warn\", \"info\", \"debug\" or \"trace\"\n\
            ants.toml:9: aunt: unknown section: did you mean `[ant]`?";
        assert_eq!(message, expected);
    }

    #[test]
    fn invalid_toml_is_reported_by_its_cause_alone() {
        let problems = parse("[ant\nlegs = 4\n").unwrap_err();
        assert!(problems.list.iter().all(|problem| problem.key == SYNTAX), "{problems}");
        assert_eq!(problems.list[0].line, 1, "{problems}");
    }

    #[test]
    fn file_of_more_than_16_mib_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(16 << 20).unwrap();
        assert_eq!(read_text(file.path()).unwrap().len(), 16 << 20);
        file.as_file().set_len((16 << 20) + 1).unwrap();
        let error = read_text(file.path()).unwrap_err().to_string();
        assert!(error.contains("is longer than 16777216 bytes"), "{error}");
    }

    #[test]
    fn invalid_utf8_is_reported_with_its_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ants.toml");
        assert!(matches!(read_text(&path), Err(ConfigError::Unreadable { .. })));
        std::fs::write(&path, b"[ant]\nname = \xff").unwrap();
        let Err(ConfigError::Invalid(problems)) = read_text(&path) else { panic!("accepted") };
        assert_eq!((problems.list.len(), problems.list[0].line), (1, 2), "{problems}");
    }

    #[test]
    fn any_text_is_accepted_or_refused_with_a_reason() {
        const GOOD: &str =
            "[ant]\nname = \"a\"\nlegs = 8\nrest = \"1s\"\n[log]\nlevel = \"info\"\n";
        assert!(parse(GOOD).is_ok());
        bolero::check!().with_type::<Vec<u8>>().for_each(|bytes| {
            let mut changed = GOOD.as_bytes().to_vec();
            for pair in bytes.chunks_exact(2) {
                let at = usize::from(pair[0]) % changed.len();
                changed[at] = pair[1];
            }
            for text in [bytes, &changed].map(|bytes| String::from_utf8_lossy(bytes)) {
                if let Err(problems) = parse(&text) {
                    let lines = text.lines().count();
                    assert!(!problems.list.is_empty());
                    assert!(problems.list.iter().all(|it| (1..=lines + 1).contains(&it.line)));
                }
            }
        });
    }
}
