//! The documentation: links lead somewhere, every page is in the table of contents of the site, the
//! page of features names tests that exist, and the page of metrics has the program's metrics.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

pub fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Pages by their path from the root.
fn pages() -> BTreeMap<String, String> {
    let mut pages = BTreeMap::new();
    for page in ["README.md", "CONTRIBUTING.md", "python/README.md"] {
        pages.insert(page.to_owned(), read(page));
    }
    let mut open = vec!["docs".to_owned()];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(root().join(&folder)).unwrap() {
            let entry = entry.unwrap();
            let path = format!("{folder}/{}", entry.file_name().into_string().unwrap());
            if entry.file_type().unwrap().is_dir() {
                open.push(path);
            } else if path.ends_with(".md") {
                let text = read(&path);
                pages.insert(path, text);
            }
        }
    }
    pages
}

/// Returns the text without blocks and spans of code, which hold no links and headings.
fn prose(text: &str) -> String {
    let mut inside = false;
    let mut prose = String::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            inside = !inside;
        } else if !inside && !line.starts_with("    ") {
            let spans = line.split('`').enumerate();
            prose.extend(spans.filter(|(number, _)| number % 2 == 0).map(|(_, span)| span));
            prose.push('\n');
        }
    }
    prose
}

/// Targets of the links of a text.
fn links(text: &str) -> Vec<String> {
    let prose = prose(text);
    let mut links = Vec::new();
    for part in prose.split("](").skip(1) {
        let target = part.split([')', ' ']).next().unwrap_or_default();
        links.push(target.to_owned());
    }
    links
}

/// Anchors of a page's headings, as GitHub and mdBook make them.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut inside = false;
    let mut anchors = BTreeSet::new();
    for line in text.lines() {
        inside ^= line.trim_start().starts_with("```");
        let heading = line.trim_start_matches('#');
        if inside || heading.len() == line.len() || !heading.starts_with(' ') {
            continue;
        }
        let kept = heading.trim().chars().filter_map(|letter| match letter {
            ' ' => Some('-'),
            '-' | '_' => Some(letter),
            _ if letter.is_alphanumeric() => Some(letter.to_ascii_lowercase()),
            _ => None,
        });
        anchors.insert(kept.collect());
    }
    anchors
}

/// A path without `..` in it, as the file system would follow it.
pub fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            other => plain.push(other),
        }
    }
    plain
}

/// Lists the faults of the links of these pages.
fn broken(pages: &BTreeMap<String, String>) -> Vec<String> {
    let mut wrong = Vec::new();
    for (page, text) in pages {
        for link in links(text) {
            if link.starts_with("https://") || link.starts_with("http://") {
                continue;
            }
            let (file, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let target = if file.is_empty() {
                PathBuf::from(page)
            } else {
                plain(&Path::new(page).parent().unwrap().join(file))
            };
            if !root().join(&target).exists() {
                wrong.push(format!("{page}: {link}: there is no such file"));
            } else if let Some(text) = pages.get(target.to_str().unwrap())
                && !anchor.is_empty()
                && !anchors(text).contains(anchor)
            {
                wrong.push(format!("{page}: {link}: the page has no such heading"));
            }
        }
    }
    wrong
}

/// The blocks of figures have the last measurement.
#[test]
fn figures_are_those_that_were_measured() {
    let check =
        std::process::Command::new(root().join("scripts/figures")).arg("check").output().unwrap();
    assert!(check.status.success(), "{}", String::from_utf8_lossy(&check.stderr));
}

#[test]
fn every_link_leads_to_a_file_and_a_heading() {
    let mut pages = pages();
    assert!(pages.len() > 40, "{} pages", pages.len());
    assert!(pages.values().map(|text| links(text).len()).sum::<usize>() > 100);
    let wrong = broken(&pages);
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    // The check can fail.
    let text = "[a](nowhere.md) [b](index.md#nothing) `[c](code.md)`".to_owned();
    pages.insert("docs/wrong.md".into(), text);
    assert_eq!(broken(&pages).len(), 2);
}

#[test]
fn every_page_is_in_the_table_of_contents_once() {
    let contents = links(&read("docs/SUMMARY.md"));
    let mut wrong = Vec::new();
    for page in pages().keys().filter_map(|page| page.strip_prefix("docs/")) {
        let times = contents.iter().filter(|link| *link == page).count();
        if page != "SUMMARY.md" && times != 1 {
            wrong.push(format!("docs/SUMMARY.md has {page} {times} times"));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// Most words of all hand-written pages below `docs`, without borders of tables. A new page
/// replaces as many words.
const MOST_WORDS: usize = 60_500;

/// Pages that are generated from types, options and keys.
const GENERATED: [&str; 4] =
    ["daemon-json.md", "commands.md", "configuration.md", "kernel-features.md"];

/// Most words of a row of the table of features.
const MOST_WORDS_OF_A_ROW: usize = 40;

#[test]
fn documentation_is_short_enough_to_be_read() {
    let pages = pages();
    let is_own = |path: &str| {
        let generated =
            path.strip_prefix("docs/reference/").is_some_and(|it| GENERATED.contains(&it));
        path.starts_with("docs/") && !generated
    };
    let own = pages.iter().filter(|(path, _)| is_own(path));
    let is_word = |word: &&str| word.contains(char::is_alphanumeric);
    let words: usize = own.map(|(_, text)| text.split_whitespace().filter(is_word).count()).sum();
    println!("{words} words");
    assert!(
        words <= MOST_WORDS,
        "docs has {words} words, allowed are {MOST_WORDS}: shorten a page"
    );
}

#[test]
fn rows_of_the_page_of_features_are_short() {
    let words = |row: &str| row.split_whitespace().filter(|word| *word != "|").count();
    let page = read("docs/explanation/status.md");
    let rows = page.lines().filter(|line| line.starts_with('|'));
    let long: Vec<&str> = rows.filter(|row| words(row) > MOST_WORDS_OF_A_ROW).collect();
    assert!(long.is_empty(), "rows of more than {MOST_WORDS_OF_A_ROW} words: {long:#?}");
    assert_eq!(words("| a b | c |"), 3);
}

/// Paths of tests between the backticks of a text.
fn tests_of(text: &str) -> BTreeSet<&str> {
    let spans = text.split('`').skip(1).step_by(2);
    let places = ["crates/", "commands/", "system/"];
    let is_path =
        |span: &&str| span.ends_with(".rs") || places.iter().any(|place| span.starts_with(place));
    spans.filter(is_path).collect()
}

/// Returns true if a path exists: from the root, among the crates, or among the tests of the
/// program.
fn exists(path: &str) -> bool {
    let roots = ["", "crates", "crates/wattline", "tests"];
    let there =
        |path: String| roots.iter().any(|root_of| root().join(root_of).join(&path).exists());
    there(path.to_owned()) || there(format!("{path}.rs"))
}

#[test]
fn every_test_that_the_page_of_features_names_exists() {
    let page = read("docs/explanation/status.md");
    let tests = tests_of(&page);
    assert!(tests.len() > 40, "{tests:?}");
    let missing: Vec<_> = tests.into_iter().filter(|path| !exists(path)).collect();
    assert!(missing.is_empty(), "docs/explanation/status.md names {missing:?}");
    assert!(tests_of("`crates/ports/tests/none.rs`").iter().all(|path| !exists(path)));
}

/// Tests that a row of a table names in its last column: a file, and a test in it.
fn named_tests(row: &str) -> Vec<(&str, Option<&str>)> {
    let cells = row.trim().trim_end_matches('|').rsplit(" | ").next().unwrap_or_default();
    let spans = cells.split('`').skip(1).step_by(2);
    spans.map(|span| span.split_once("::").map_or((span, None), |(f, t)| (f, Some(t)))).collect()
}

/// Returns an error if the named test does not exist.
fn wrong_test((file, test): (&str, Option<&str>)) -> Option<String> {
    let roots = ["", "crates", "crates/wattline", "tests"];
    let Some(path) = roots
        .iter()
        .map(|root| format!("{root}/{file}"))
        .find(|path| root().join(path.trim_start_matches('/')).is_file())
    else {
        return Some(format!("there is no file {file}"));
    };
    let Some(test) = test else { return Some(format!("no test of {file} is named")) };
    let text = read(path.trim_start_matches('/'));
    let is_there = text.contains(&format!("fn {test}("));
    (!is_there).then(|| format!("{file} has no test {test}"))
}

#[test]
fn every_kernel_feature_has_a_test_that_exists() {
    let page = read("docs/reference/kernel-features.md");
    let rows = page.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| kernel"));
    let rows: Vec<&str> = rows.collect();
    assert!(rows.len() > 25, "{} rows", rows.len());
    let mut wrong = Vec::new();
    for row in rows {
        let tests = named_tests(row);
        if tests.is_empty() {
            wrong.push(format!("no test: {row}"));
        }
        wrong.extend(tests.into_iter().filter_map(wrong_test));
    }
    assert!(wrong.is_empty(), "docs/reference/kernel-features.md:\n{}", wrong.join("\n"));
    // The check can fail.
    let row = "| a | left | `linux/src/tun.rs::no_such_test`, `linux/src/none.rs::it` |";
    assert_eq!(named_tests(row).into_iter().filter_map(wrong_test).count(), 2);
}

/// Names of metrics between the quotation marks or backticks of a text.
fn metrics(text: &str, mark: char) -> BTreeSet<String> {
    let of_metric = |part: &&str| {
        part.strip_prefix("wattline_").is_some_and(|rest| {
            !rest.is_empty()
                && rest.chars().all(|letter| letter.is_ascii_lowercase() || letter == '_')
        })
    };
    text.split(mark).filter(of_metric).map(str::to_owned).collect()
}

/// Returns the names of all metrics of the program.
pub fn metrics_of_code() -> BTreeSet<String> {
    let mut known = BTreeSet::new();
    for (file, least) in [
        ("router/src/metrics.rs", 6),
        ("daemon/src/metrics/power.rs", 6),
        ("daemon/src/metrics/build.rs", 1),
        ("daemon/src/metrics/log.rs", 1),
        ("daemon/src/metrics/build.rs", 1),
        ("govern/src/metrics.rs", 6),
        ("filter/src/acl/control.rs", 2),
        ("filter/src/urpf/control.rs", 1),
        ("flow-records/src/control/metrics.rs", 2),
        ("redundancy/src/control/encode.rs", 1),
        ("redundancy/src/control/decode.rs", 1),
        ("ipsec/src/control/mod.rs", 1),
    ] {
        let source = read(&format!("crates/{file}"));
        let code = source.split("#[cfg(test)]").next().unwrap_or_default();
        let found = metrics(code, '"');
        assert!(found.len() >= least, "{file}: {found:?}");
        known.extend(found);
    }
    known
}

/// Kinds of metrics where the code names both at one place.
fn kinds_of_code(text: &str) -> BTreeMap<String, String> {
    let mut kinds = BTreeMap::new();
    for part in text.split("family(").skip(1) {
        let mut words = part.trim_start().splitn(3, ',');
        let name = words.next().unwrap_or_default().trim();
        let kind = words.next().unwrap_or_default().trim();
        if let (Some(name), Some(kind)) =
            (name.strip_prefix("\"wattline_"), kind.strip_prefix("Kind::"))
        {
            kinds.insert(format!("wattline_{}", name.trim_end_matches('"')), kind.to_lowercase());
        }
    }
    kinds
}

#[test]
fn the_page_of_metrics_has_the_kind_of_each() {
    let page = read("docs/reference/metrics.md");
    let (mut seen, mut wrong) = (0, Vec::new());
    for file in [
        "router/src/metrics.rs",
        "daemon/src/metrics/power.rs",
        "daemon/src/metrics/build.rs",
        "daemon/src/metrics/log.rs",
        "daemon/src/metrics/build.rs",
        "govern/src/metrics.rs",
    ] {
        for (name, kind) in kinds_of_code(&read(&format!("crates/{file}"))) {
            seen += 1;
            if !page.contains(&format!("| `{name}` | {kind} |")) {
                wrong.push(format!("{name} is a {kind}"));
            }
        }
    }
    assert!(seen > 15, "{seen} metrics");
    assert!(wrong.is_empty(), "docs/reference/metrics.md: {wrong:?}");
    let text = "to.family(\n    \"wattline_a\", Kind::Gauge, \"What.\");";
    assert_eq!(kinds_of_code(text)["wattline_a"], "gauge");
}

#[test]
fn the_page_of_metrics_has_every_metric_and_no_other() {
    let known = metrics_of_code();
    let shown = metrics(&read("docs/reference/metrics.md"), '`');
    let missing: Vec<_> = known.difference(&shown).collect();
    let unknown: Vec<_> = shown.difference(&known).collect();
    assert!(
        missing.is_empty() && unknown.is_empty(),
        "docs/reference/metrics.md lacks {missing:?} and has {unknown:?}, which no file makes"
    );
}
