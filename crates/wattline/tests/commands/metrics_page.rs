//! The page of metrics names kind and labels of every sample that a router and a governor tell.

use std::collections::{BTreeMap, BTreeSet};

const PAGE: &str = include_str!("../../../../docs/reference/metrics.md");

/// What a family is: its kind and labels.
type Shape = (String, BTreeSet<String>);

/// The words between backquotes.
fn quoted(cell: &str) -> BTreeSet<String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The shapes that a page names for each family: one for every table that has it, and those that
/// its sentence about the governor's packets and bytes gives.
fn shapes_of(page: &str) -> BTreeMap<String, Vec<Shape>> {
    let mut shapes = BTreeMap::<String, Vec<Shape>>::new();
    for row in page.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let name = cells[1].trim_matches('`').to_owned();
        shapes.entry(name).or_default().push((cells[2].to_owned(), quoted(cells[3])));
    }
    let have = |sentence: &&str| sentence.contains(" have the labels ");
    for sentence in page.replace('\n', " ").split(". ").filter(have) {
        let (families, labels) = sentence.split_once(" have the labels ").unwrap();
        for name in quoted(families) {
            let kind = shapes[&name][0].0.clone();
            shapes.get_mut(&name).unwrap().push((kind, quoted(labels)));
        }
    }
    shapes
}

/// The labels of a sample; `None` for a line that is none.
fn labels(line: &str) -> Option<(&str, BTreeSet<String>)> {
    if line.starts_with('#') {
        return None;
    }
    let (sample, _) = line.rsplit_once(' ')?;
    let Some((name, labels)) = sample.split_once('{') else {
        return Some((sample, BTreeSet::new()));
    };
    let names = labels.split("=\"").filter_map(|part| part.rsplit(['{', ',', '"']).next());
    let names = names.filter(|name| *name != "le" && *name != "}").map(str::to_owned);
    Some((name, names.collect()))
}

/// What a page says otherwise than a text of metrics; the families of Wattline that were compared.
fn compared(text: &str, page: &str) -> (BTreeSet<String>, BTreeSet<String>) {
    let shapes = shapes_of(page);
    let (mut wrong, mut seen) = (BTreeSet::new(), BTreeSet::new());
    let mut family = (String::new(), String::new());
    for line in text.lines() {
        if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').unwrap();
            family = (name.to_owned(), kind.to_owned());
        }
        let Some((name, labels)) = labels(line) else { continue };
        if !family.0.starts_with("wattline_") || !name.starts_with(&family.0) {
            continue;
        }
        let found = (family.1.clone(), labels);
        seen.insert(family.0.clone());
        if !shapes.get(&family.0).is_some_and(|shapes| shapes.contains(&found)) {
            wrong.insert(format!("{} is a {} with {:?}", family.0, found.0, found.1));
        }
    }
    (wrong, seen)
}

/// Asserts that the page says nothing else than a text of metrics, of which it is to have at least
/// `families`.
pub fn agrees_with(text: &str, families: usize) {
    let (wrong, seen) = compared(text, PAGE);
    assert!(wrong.is_empty(), "docs/reference/metrics.md should say: {wrong:#?}");
    assert!(seen.len() >= families, "{seen:?}");
}

#[test]
fn a_page_that_says_otherwise_is_found_out() {
    let page = "`wattline_b` have the labels `port` here. And\n\n| `wattline_a` | gauge | `core` | x |\n\
                | `wattline_b` | counter | `port`, `queue` | y |\n| `wattline_h` | histogram | | z |\n";
    let right = "# TYPE wattline_a gauge\nwattline_a{core=\"0\"} 1\n# TYPE wattline_b counter\n\
                 wattline_b{port=\"a,b\",queue=\"x}\"} 2\nwattline_b{port=\"a\"} 2\n\
                 # TYPE wattline_h histogram\nwattline_h_bucket{le=\"0.1\"} 2\nwattline_h_sum 3\n";
    let (wrong, seen) = compared(right, page);
    assert!(wrong.is_empty() && seen.len() == 3, "{wrong:?} {seen:?}");
    for (from, to) in [
        ("a gauge", "a counter"),
        ("core=", "cpu="),
        ("{port=\"a\"}", "{queue=\"a\"}"),
        ("h_sum 3", "h_sum{port=\"1\"} 3"),
        ("wattline_b", "wattline_c"),
    ] {
        let (wrong, _) = compared(&right.replace(from, to), page);
        assert!(!wrong.is_empty(), "{to}");
    }
}
