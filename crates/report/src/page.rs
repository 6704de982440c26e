//! Self-contained HTML pages, one file each.

use crate::anchors::anchored;
use crate::check::{Basis, Check, Verdict};
use crate::contents;
use crate::escape::escape;
use crate::machine::Machine;
use crate::notes::Notes;
use crate::plot::svg;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use wattline_units::Build;

/// Style of everything except plots; served pages use it, too.
pub const STYLE: &str = include_str!("page.css");
/// Script for readers on a screen; the page is readable without it.
const SCRIPT: &str = include_str!("page.js");

/// Returns the beginning of every page; `title` is plain text. Close it with [`end`].
///
/// The page's content security policy permits only its own script and style, and no loading. Even a
/// name that slipped through [`escape`] could do nothing.
pub fn begin(title: &str) -> String {
    let style = format!("{STYLE}{}", svg::STYLE);
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
         script-src 'sha256-{}'; style-src 'sha256-{}'; img-src data:; base-uri 'none'; \
         form-action 'none'\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         {}<style>{style}</style></head>{BODY}\n",
        hash(SCRIPT),
        hash(&style),
        title_of(title)
    )
}

/// Returns true if a file's text is a page of [`begin`] with this title.
pub fn is_titled(text: &str, title: &str) -> bool {
    text.contains(&title_of(title))
}

fn title_of(title: &str) -> String {
    format!("<title>Wattline: {}</title>", escape(title))
}

/// Returns the hash by which a page's policy permits a script or style.
fn hash(text: &str) -> String {
    STANDARD.encode(Sha256::digest(text))
}

/// Opening tags of a page's contents.
const BODY: &str = "<body><main>";

/// Closes a page of [`begin`]: lists its sections, gives its rows ids, and adds program, machine
/// and date.
pub fn end(page: &mut String) {
    let (nav, listed) = contents::listed(page);
    let listed = anchored(&listed);
    *page = if nav.is_empty() {
        listed
    } else {
        listed.replacen(BODY, &format!("<body class=\"listed\">{nav}<main>"), 1)
    };
    let machine = Machine::here();
    put(
        page,
        format_args!(
            "<footer><p>Page made by Wattline {} on {}, on {}.</p></footer>\n",
            Build::default(),
            machine.date,
            escape(&machine.text())
        ),
    );
    // The page has the style of its plots once; each plot's own copy is only for a separate file.
    *page = page.replace(&svg::style_element(), "");
    put(page, format_args!("</main><script>{SCRIPT}</script></body></html>\n"));
}

/// Appends formatted text. Writing into a string cannot fail.
pub fn put(page: &mut String, arguments: std::fmt::Arguments<'_>) {
    let _ = page.write_fmt(arguments);
}

/// Begins a table with these heads, which scrolls on a narrow screen. Close it with [`end_table`].
pub fn begin_table<'a>(page: &mut String, heads: impl IntoIterator<Item = &'a str>) {
    // Focusable, so that it can be scrolled by keys.
    page.push_str("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"table\"><table><thead><tr>");
    for head in heads {
        // Names of data columns may break at underscores.
        let head = escape(head).replace('_', "_<wbr>");
        put(page, format_args!("<th scope=\"col\">{head}</th>"));
    }
    page.push_str("</tr></thead><tbody>\n");
}

/// Closes a table.
pub fn end_table(page: &mut String) {
    page.push_str("</tbody></table></div>\n");
}

/// Returns true if a cell of a table is a number, perhaps with an interval or a unit, or a
/// placeholder for a missing number.
pub(crate) fn is_number(cell: &str) -> bool {
    let first = cell.split([' ', '%']).next().unwrap_or_default();
    matches!(cell, "" | "-" | "–") || first.replace(',', "").parse::<f64>().is_ok()
}

/// Appends a table of plain texts; columns of numbers are right-aligned, except the first column.
pub fn table<const N: usize>(
    page: &mut String,
    head: [&str; N],
    rows: impl Iterator<Item = [String; N]>,
) {
    table_of(page, &head, rows);
}

/// Like [`table`] for a number of columns known only at run time.
pub fn table_of<R: AsRef<[String]>>(
    page: &mut String,
    head: &[&str],
    rows: impl Iterator<Item = R>,
) {
    begin_table(page, head.iter().copied());
    let rows: Vec<R> = rows.collect();
    let mut numbers = vec![true; head.len()];
    for row in &rows {
        let cells = numbers.iter_mut().zip(row.as_ref());
        cells.for_each(|(all, cell)| *all &= is_number(cell));
    }
    for row in &rows {
        page.push_str("<tr>");
        for (column, (cell, number)) in row.as_ref().iter().zip(&numbers).enumerate() {
            let class = if column == 0 || !number { "" } else { " class=\"n\"" };
            put(page, format_args!("<td{class}>{}</td>", escape(cell)));
        }
        page.push_str("</tr>\n");
    }
    end_table(page);
}

/// Splits a tolerance into the amount with its separator, and the reason.
fn reason(tolerance: &str) -> (&str, &str) {
    match tolerance.find("; ") {
        Some(at) => tolerance.split_at(at + 2),
        None if tolerance.starts_with('±') => (tolerance, ""),
        None => ("", tolerance),
    }
}

/// Appends a table of computed and published figures, differing ones first; nothing if there are no
/// checks. A shared note is listed once below.
pub fn checks(page: &mut String, checks: &[Check]) {
    if checks.is_empty() {
        return;
    }
    let mut sorted: Vec<&Check> = checks.iter().collect();
    sorted.sort_by_key(|check| check.verdict != Verdict::Differs);
    let reasons = checks.iter().map(|check| reason(&check.tolerance).1);
    let notes = Notes::of(checks.iter().map(|check| check.note.as_str()).chain(reasons));
    // Checks of the demonstration have no basis.
    let has_basis = checks.iter().any(|check| check.basis.is_some());
    let heads =
        ["quantity", "ours", "published", "tolerance", "basis", "verdict", "claims", "note"];
    begin_table(page, heads.into_iter().filter(|head| has_basis || *head != "basis"));
    for check in sorted {
        let note = notes.cell(&check.note);
        let (amount, why) = reason(&check.tolerance);
        let tolerance = format!("{}{}", escape(amount), notes.cell(why));
        let basis = basis(check.basis);
        let basis_cell = if has_basis { format!("<td>{basis}</td>") } else { String::new() };
        put(
            page,
            format_args!(
                "<tr data-key=\"{0} {1}\" data-verdict=\"{2}\" data-basis=\"{basis}\"><td>{0}</td><td>{3}</td><td>{4}</td><td>{5}</td>{basis_cell}<td>{6}</td><td>{1}</td><td class=\"note\">{note}</td></tr>\n",
                escape(&check.quantity),
                check.claims.join(" "),
                class(check.verdict),
                escape(&check.ours),
                escape(&check.published),
                tolerance,
                verdict(check.verdict),
            ),
        );
    }
    end_table(page);
    notes.list(page);
}

/// Appends buttons that show only the rows of one verdict, each with the number of rows.
pub fn verdict_filter(page: &mut String, counts: impl IntoIterator<Item = (Verdict, usize)>) {
    page.push_str("<p role=\"group\" aria-label=\"show one verdict alone\">");
    for (verdict, count) in counts {
        put(
            page,
            format_args!(
                "<button type=\"button\" aria-pressed=\"false\" data-verdict=\"{}\">{} {count}</button>",
                class(verdict),
                verdict.text()
            ),
        );
    }
    page.push_str("</p>\n");
}

/// Appends buttons that show only the rows of one basis, each with its number of claims.
pub fn basis_filter(page: &mut String, counts: impl IntoIterator<Item = (Option<Basis>, usize)>) {
    page.push_str("<p role=\"group\" aria-label=\"show one basis alone\">");
    for (of, count) in counts {
        put(
            page,
            format_args!(
                "<button type=\"button\" aria-pressed=\"false\" data-basis=\"{0}\">{0} {count}</button>",
                basis(of)
            ),
        );
    }
    page.push_str("</p>\n");
}

/// Returns the text of a basis, or `unchecked`.
pub fn basis(basis: Option<Basis>) -> &'static str {
    basis.map_or("unchecked", Basis::text)
}

/// Returns the name of a verdict's class.
pub fn class(verdict: Verdict) -> String {
    verdict.text().replace(' ', "-")
}

/// Returns a verdict as coloured text.
pub fn verdict(verdict: Verdict) -> String {
    format!("<span class=\"v {}\">{}</span>", class(verdict), verdict.text())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::{Axis, Chart};

    #[test]
    fn page_is_complete_and_its_texts_are_escaped() {
        let mut page = begin("a < b");
        table(&mut page, ["x & y", "n"], [["<1>".to_owned(), "2".to_owned()]].into_iter());
        checks(&mut page, &[]);
        checks(&mut page, &[Check::near(&["PS-001"], "\"watts\"", 1.0, 3.0, 0.5)]);
        end(&mut page);
        assert!(page.starts_with("<!doctype html>") && page.ends_with("</body></html>\n"));
        assert!(page.contains("<title>Wattline: a &lt; b</title>"));
        assert!(page.contains("<th scope=\"col\">x &amp; y</th><th scope=\"col\">n</th>"));
        assert!(page.contains("<td>&lt;1&gt;</td><td class=\"n\">2</td>"));
        assert!(page.contains("<td>&quot;watts&quot;</td><td>1</td><td>3</td><td>± 0.5</td>"));
        assert!(page.contains("data-verdict=\"differs\" data-basis=\"unchecked\""));
        assert!(
            !page.contains("<th scope=\"col\">basis</th>") && !page.contains("<td>unchecked</td>")
        );
        assert!(page.contains("<span class=\"v differs\">differs</span></td><td>PS-001</td>"));
        assert_eq!(page.matches("<table>").count(), page.matches("</table>").count());
    }

    #[test]
    fn numbers_are_right_aligned_and_texts_left_aligned() {
        let mut page = String::new();
        let rows = [["1", "1.5 ± 0.2", "napi", "–", "1"], ["2", "-3", "2,000", "1,234", "a"]];
        let rows = rows.map(|row| row.map(str::to_owned));
        table(&mut page, ["a", "b", "c", "d", "e"], rows.into_iter());
        let right: Vec<&str> = (page.split("<td class=\"n\">").skip(1))
            .map(|rest| rest.split('<').next().unwrap_or_default())
            .collect();
        assert_eq!(right, ["1.5 ± 0.2", "–", "-3", "1,234"]);
    }

    #[test]
    fn policy_of_a_page_allows_only_its_own_script_and_style() {
        let chart = Chart::new("t", Axis::new("x"), Axis::new("y"));
        let mut page = begin("t");
        page.push_str(&chart.svg());
        end(&mut page);
        for (element, directive) in [("script", "script-src"), ("style", "style-src")] {
            let (open, close) = (format!("<{element}>"), format!("</{element}>"));
            let mut found = page.split(&open).skip(1);
            let text = found.next().and_then(|rest| rest.split(&close).next());
            let hash = hash(text.expect("the page has one"));
            assert!(page.contains(&format!("{directive} 'sha256-{hash}'")), "{element}");
            assert!(found.next().is_none(), "one {element} alone");
        }
        assert!(chart.svg().contains("<style>"), "a plot alone has its colours");
    }

    #[test]
    fn differing_rows_come_first_and_shared_notes_are_listed_once() {
        let check = |ours, note: &str| Check::near(&[], "q", ours, 1.0, 0.1).note(note);
        let mut page = String::new();
        checks(&mut page, &[check(1.0, "shared"), check(3.0, "own"), check(1.0, "shared")]);
        assert_eq!(page.matches("shared").count(), 1);
        assert_eq!(page.matches("note 1").count(), 2);
        let (differs, meets) = (page.find("v differs"), page.find("v meets"));
        assert!(differs.is_some() && differs < meets, "{page}");
        let mut page = String::new();
        let because = |ours, why: &str| check(ours, "").planned("2026-11-22", why);
        checks(
            &mut page,
            &[because(1.0, "half a digit"), because(1.0, "half a digit"), because(1.0, "own")],
        );
        assert_eq!(page.matches("half a digit").count(), 1, "{page}");
        assert_eq!(page.matches("<td>± 0.1; note 1</td>").count(), 2, "{page}");
        assert!(page.contains("<td>± 0.1; own (set 2026-11-22)</td>"), "{page}");
        verdict_filter(&mut page, [(Verdict::Differs, 1)]);
        assert!(page.contains("data-verdict=\"differs\">differs 1</button>"));
    }
}
