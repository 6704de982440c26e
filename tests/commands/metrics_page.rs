//! The page of metrics names kind and labels of every sample of a router and a governor.

use std::collections::{BTreeMap, BTreeSet};

const PAGE: &str = include_str!("../../docs/reference/metrics.md");

/// Source of metrics.
#[derive(Debug, Clone, Copy)]
pub enum Role {
    Router,
    Governor,
}

impl Role {
    /// Returns true if the table below this heading describes the role.
    fn has(self, heading: &str) -> bool {
        heading == "Router and governor"
            || match self {
                Self::Router => heading == "Router alone",
                Self::Governor => heading == "Governor of a server alone",
            }
    }
}

/// Kind and labels of a family.
type Shape = (String, BTreeSet<String>);

/// The words between backquotes.
fn quoted(cell: &str) -> BTreeSet<String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The families that a page names for a role: in its tables, and in sentences that give labels to
/// counters of another table.
fn shapes_of(page: &str, role: Role) -> BTreeMap<String, Shape> {
    let mut shapes = BTreeMap::new();
    for section in page.split("\n## ").skip(1) {
        let (heading, text) = section.split_once('\n').unwrap_or((section, ""));
        if !role.has(heading) {
            continue;
        }
        for row in text.lines().filter(|line| line.starts_with("| `")) {
            let cells: Vec<&str> = row.split('|').map(str::trim).collect();
            let name = cells[1].trim_matches('`').to_owned();
            shapes.insert(name, (cells[2].to_owned(), quoted(cells[3])));
        }
        for sentence in text.replace('\n', " ").split(". ") {
            if let Some((families, labels)) = sentence.split_once(" have the labels ") {
                for name in quoted(families) {
                    shapes.insert(name, ("counter".to_owned(), quoted(labels)));
                }
            }
        }
    }
    shapes
}

/// Name and labels of a sample; `None` for a line that is none of Wattline's.
fn sample(line: &str) -> Option<(&str, BTreeSet<String>)> {
    let (sample, _) = line.rsplit_once(' ')?;
    let (name, labels) = sample.split_once('{').unwrap_or((sample, ""));
    let names = labels.split("=\"").filter_map(|part| part.rsplit([',', '"']).next());
    let names = names.filter(|name| *name != "}" && !name.is_empty()).map(str::to_owned);
    name.starts_with("wattline_").then(|| (name, names.collect()))
}

/// Returns the shape of a sample's family; `None` for a sample of another family.
fn shape_in(kind: &str, family: &str, name: &str, mut labels: BTreeSet<String>) -> Option<Shape> {
    let of_histogram = match name.strip_prefix(family)? {
        "" => kind != "histogram",
        // Each bucket has its bound beside the labels of the family.
        "_bucket" => kind == "histogram" && labels.remove("le"),
        "_sum" | "_count" => kind == "histogram",
        _ => false,
    };
    of_histogram.then(|| (kind.to_owned(), labels))
}

/// Returns the differences of a page from a text of metrics, and the compared families.
fn compared(text: &str, page: &str, role: Role) -> (BTreeSet<String>, BTreeSet<String>) {
    let shapes = shapes_of(page, role);
    let (mut wrong, mut seen) = (BTreeSet::new(), BTreeSet::new());
    let (mut family, mut kind) = ("", "");
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            (family, kind) = rest.split_once(' ').unwrap();
        }
        let Some((name, labels)) = sample(line) else { continue };
        let shown = labels.clone();
        match shape_in(kind, family, name, labels) {
            Some(shape) if shapes.get(family) == Some(&shape) => {
                seen.insert(family.to_owned());
            }
            _ => {
                wrong.insert(format!("{name} of {family}, a {kind}, has {shown:?}"));
            }
        }
    }
    (wrong, seen)
}

/// Asserts that the page agrees with a text of metrics, and that at least `families` were compared.
pub fn agrees_with(text: &str, role: Role, families: usize) {
    let (wrong, seen) = compared(text, PAGE, role);
    assert!(wrong.is_empty(), "docs/reference/metrics.md says otherwise: {wrong:#?}");
    assert!(seen.len() >= families, "{seen:?}");
}

#[test]
fn page_that_differs_is_detected() {
    let page = "\n## Router and governor\n| `wattline_a` | gauge | `core` | x |\n\
                | `wattline_h` | histogram | | z |\n\n\
                ## Router alone\n| `wattline_b` | counter | `port`, `queue` | y |\n\n\
                ## Governor of a server alone\n`wattline_b` has no queue:\n\
                they have the labels `port` here. `wattline_b` have the labels `port` here. And\n";
    let right = "# TYPE wattline_a gauge\nwattline_a{core=\"0\"} 1\n# TYPE wattline_b counter\n\
                 wattline_b{port=\"a,b\",queue=\"x}\"} 2\n# TYPE wattline_h histogram\n\
                 wattline_h_bucket{le=\"0.1\"} 2\nwattline_h_sum 3\nprocess_cpu_seconds_total 1\n";
    let (wrong, seen) = compared(right, page, Role::Router);
    assert!(wrong.is_empty() && seen.len() == 3, "{wrong:?} {seen:?}");
    for (from, to) in [
        ("a gauge", "a counter"),
        ("core=", "cpu="),
        (",queue=\"x}\"", ""),
        ("{core=\"0\"}", "{core=\"0\",le=\"1\"}"),
        ("h_sum 3", "h_sum{port=\"1\"} 3"),
        ("wattline_b{", "wattline_b_of_all{"),
        ("# TYPE wattline_b counter\n", ""),
    ] {
        let (wrong, _) = compared(&right.replace(from, to), page, Role::Router);
        assert!(!wrong.is_empty(), "{from} -> {to}");
    }
    assert!(!compared(right, page, Role::Governor).0.is_empty(), "a governor has no queues");
    let governor = right.replace(",queue=\"x}\"", "");
    assert!(compared(&governor, page, Role::Governor).0.is_empty());
}
