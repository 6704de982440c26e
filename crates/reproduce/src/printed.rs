//! Numbers that the papers print, read from `claims.csv`.

use crate::claim;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Returns all numbers in the value of a claim, in their order; none if there is no such claim.
pub(crate) fn numbers_of(id: &str) -> &'static [f64] {
    static ALL: LazyLock<BTreeMap<String, Vec<f64>>> = LazyLock::new(|| {
        let rows = claim::all().unwrap_or_default().into_iter();
        rows.map(|row| (row.id, numbers_in(&row.value))).collect()
    });
    ALL.get(id).map_or(&[], Vec::as_slice)
}

/// Returns the first number that a claim prints; NaN, which meets nothing, if it prints none.
pub(crate) fn printed(id: &str) -> f64 {
    printed_at(id, 0)
}

/// Returns the number at `index` in a claim; NaN if there is none.
pub(crate) fn printed_at(id: &str, index: usize) -> f64 {
    numbers_of(id).get(index).copied().unwrap_or(f64::NAN)
}

/// Returns the first two numbers that a claim prints, such as the ends of a range.
pub(crate) fn printed_pair(id: &str) -> (f64, f64) {
    (printed_at(id, 0), printed_at(id, 1))
}

/// Returns the value of a claim as text.
pub(crate) fn text_of(id: &str) -> String {
    claim::find(id).ok().flatten().map_or_else(String::new, |row| row.value)
}

/// Returns all numbers in a text. Digits that follow a letter belong to a name, such as C6; a minus
/// after a word or a number is a dash.
pub(crate) fn numbers_in(text: &str) -> Vec<f64> {
    let mut all = Vec::new();
    let mut rest = text;
    let mut before = String::new();
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        before.push_str(&rest[..start]);
        let digits = &rest[start..];
        let is_part = |(at, c): (usize, char)| {
            c.is_ascii_digit()
                || (c == '.' && digits[at + 1..].starts_with(|next: char| next.is_ascii_digit()))
        };
        let end = digits
            .char_indices()
            .find(|&(at, c)| !is_part((at, c)))
            .map_or(digits.len(), |(at, _)| at);
        let named = before.ends_with(|c: char| c.is_alphabetic());
        let is_negative = before.strip_suffix('-').is_some_and(|head| {
            !head.trim_end().ends_with(|c: char| c.is_alphanumeric() || c == ')')
        });
        if !named && let Ok(value) = digits[..end].parse::<f64>() {
            all.push(if is_negative { -value } else { value });
        }
        before.push_str(&digits[..end]);
        rest = &digits[end..];
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paper::Paper;

    #[test]
    fn numbers_are_read_as_they_are_printed() {
        for (text, numbers) in [
            ("up to 0.5x (half)", vec![0.5]),
            ("<5", vec![5.0]),
            ("12-25", vec![12.0, 25.0]),
            ("-42.3", vec![-42.3]),
            ("1.6-3.3", vec![1.6, 3.3]),
            ("7 + 32/3 = 17.7", vec![7.0, 32.0, 3.0, 17.7]),
            ("C1, C3 and C6", vec![]),
            ("40 to 85 %.", vec![40.0, 85.0]),
            ("a1: -89.8629", vec![-89.8629]),
        ] {
            assert_eq!(numbers_in(text), numbers, "{text}");
        }
        assert!(printed("PS-000").is_nan() && printed_at("PS-027", 7).is_nan());
        assert_eq!(printed_pair("PS-118"), (27.0, 50.0));
    }

    /// Returns source text without tests, comments, and strings other than ids of claims.
    fn code(source: &str) -> String {
        let source = source.split("#[cfg(test)]").next().unwrap_or_default();
        let mut code = String::new();
        let mut chars = source.chars().peekable();
        while let Some(c) = chars.next() {
            match c {
                '/' if chars.peek() == Some(&'/') => {
                    while chars.peek().is_some_and(|c| *c != '\n') {
                        chars.next();
                    }
                }
                '"' => {
                    let mut text = String::new();
                    while let Some(c) = chars.next() {
                        match c {
                            '\\' => drop(chars.next()),
                            '"' => break,
                            _ => text.push(c),
                        }
                    }
                    // Keeps ids of claims.
                    let is_id = text.len() == 6 && text.as_bytes()[2] == b'-';
                    code.push_str(&format!("\"{}\"", if is_id { &text } else { "" }));
                }
                _ => code.push(c),
            }
        }
        code
    }

    /// Returns the numbers in code, except those that are parts of names.
    fn literals(code: &str) -> Vec<(String, f64)> {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
        let words = code.split(|c| !is_part(c)).flat_map(|word| word.split(".."));
        words
            .filter(|word| word.starts_with(|c: char| c.is_ascii_digit()))
            .filter_map(|word| {
                let suffixes = ["f64", "u16", "u32", "u64", "usize"];
                let word = suffixes.iter().find_map(|s| word.strip_suffix(s)).unwrap_or(word);
                Some((word.to_owned(), word.replace('_', "").parse().ok()?))
            })
            .collect()
    }

    /// Returns the text from `at` to the end of the call that begins there.
    fn call(code: &str, at: usize) -> &str {
        let mut depth = 0;
        for (index, c) in code[at..].char_indices() {
            match c {
                '(' => depth += 1,
                ')' if depth == 1 => return &code[at..at + index],
                ')' => depth -= 1,
                _ => {}
            }
        }
        &code[at..]
    }

    /// Returns the claims named in code.
    fn ids(code: &str) -> impl Iterator<Item = &str> {
        code.split('"').filter(|text| text.len() == 6 && text.as_bytes()[2] == b'-')
    }

    /// Returns code without ids of claims and without calls that read a printed number, whose
    /// arguments are indices.
    fn without_places(code: &str) -> String {
        let mut rest = ids(code).fold(code.to_owned(), |rest, id| rest.replace(id, ""));
        while let Some(at) = rest.find("printed_at(") {
            let end = at + call(&rest[at..], 0).len();
            rest.replace_range(at..end, "");
        }
        rest
    }

    /// Returns code without seeds, and without powers of two in lists of three and more numbers:
    /// these are sweeps of lengths, bursts or rings.
    fn without_sweeps(code: &str) -> String {
        let is_power = |number: f64| number.log2().fract() == 0.0;
        let lines = code.lines().filter(|line| !line.contains("SEED: u64"));
        let mut rest: String = lines.collect::<Vec<_>>().join("\n");
        let mut from = 0;
        while let Some(start) = rest[from..].find('[').map(|at| from + at + 1) {
            from = start;
            let end = rest[start..].find(['[', ']']).map_or(rest.len(), |at| start + at);
            let listed = literals(&rest[start..end]);
            if listed.len() >= 3 {
                let kept = listed.iter().filter(|(_, number)| !is_power(*number));
                let kept: Vec<&str> = kept.map(|(word, _)| word.as_str()).collect();
                rest.replace_range(start..end, &kept.join(", "));
            }
        }
        rest
    }

    /// Returns the numbers of `claims.csv` that the source of a paper's figures repeats: any of
    /// them where a plot marks values as printed, elsewhere those of three digits and more. Zero,
    /// one and a hundred (for percent) are too common to test.
    fn repeated(source: &str, printed: &[f64]) -> Vec<String> {
        let code = code(source);
        let among =
            |all: &[f64], number: f64| number > 1.0 && number != 100.0 && all.contains(&number);
        let mut repeated: Vec<String> = Vec::new();
        let mut collect = |text: &str, all: &[f64]| {
            let found = literals(&without_places(text)).into_iter();
            repeated.extend(found.filter(|(_, number)| among(all, *number)).map(|(word, _)| word));
        };
        for (at, _) in code.match_indices(".band(") {
            collect(call(&code, at), printed);
        }
        for (at, _) in code.match_indices("Mark::Published") {
            collect(call(&code, code[..at].rfind('(').unwrap_or(at)), printed);
        }
        let long = |word: &str| {
            let digits: String = word.chars().filter(char::is_ascii_digit).collect();
            !word.contains('e') && digits.trim_matches('0').len() >= 3
        };
        let elsewhere = literals(&without_sweeps(&without_places(&code))).into_iter();
        let elsewhere = elsewhere.filter(|(word, number)| long(word) && among(printed, *number));
        repeated.extend(elsewhere.map(|(word, _)| word));
        repeated
    }

    #[test]
    fn sources_repeat_no_printed_number() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/");
        let rows = claim::all().unwrap();
        let mut all = Vec::new();
        for paper in Paper::ALL {
            let printed: Vec<f64> = rows
                .iter()
                .filter(|row| row.paper == paper.name())
                .flat_map(|row| numbers_in(&row.value))
                .collect();
            let mut folders = vec![std::path::PathBuf::from(format!("{folder}{}", paper.name()))];
            while let Some(path) = folders.pop() {
                for entry in std::fs::read_dir(path).unwrap() {
                    let path = entry.unwrap().path();
                    if path.is_dir() {
                        folders.push(path);
                        continue;
                    }
                    let text = std::fs::read_to_string(&path).unwrap();
                    let file = path.file_name().unwrap().to_string_lossy().into_owned();
                    let own = repeated(&text, &printed).into_iter();
                    all.extend(own.map(|word| format!("{}/{file}: {word}", paper.name())));
                }
            }
        }
        assert!(all.is_empty(), "printed numbers that are typed again: {all:#?}");
    }

    #[test]
    fn repeated_number_is_found() {
        let printed = [115.0, 12.0, 0.782, 128.0, 256.0];
        for source in [
            "chart.series(\"printed\", Mark::Published, [(0.5, 12.0)])",
            "chart.band(\"printed\", 0.0, 12.0)",
            "const RATIO: f64 = 115.0;",
            "const LIST: [u32; 3] = [64, 115, 128];",
            "let entries = 256;",
        ] {
            assert!(!repeated(source, &printed).is_empty(), "{source}");
        }
        for source in [
            "plan.check(\"115 W\", &[watts[12], printed(\"PS-028\")]) // 115",
            "let cores = 12; fn of() {} #[cfg(test)] const IDLE: f64 = 115.0;",
            "const SEED: u64 = 115;\nconst LIST: [u32; 3] = [64, 128, 256];",
        ] {
            let found = repeated(source, &printed);
            assert!(found.iter().all(|word| word == "12"), "{source}: {found:?}");
        }
    }
}
