//! Anchors of table rows: ids made from the names in a row, so that links stay valid when other
//! rows are added, removed or moved.

use sha2::{Digest, Sha256};
use std::collections::HashSet;
use std::fmt::Write as _;

/// Longest id in characters; a longer text is cut and ends in a part of its hash.
const LONGEST: usize = 64;
const HASH_BYTES: usize = 4;

/// Returns the page with an `id` for each row of a table.
///
/// The id is the section, then the attribute `data-key` or as many of the first cells as
/// distinguish the rows of the table. A row with its own id keeps it. Only tags of the page itself
/// are found, since texts from outside are escaped.
pub(super) fn anchored(page: &str) -> String {
    let own = page.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next());
    let mut used: HashSet<String> = own.map(str::to_owned).collect();
    let mut out = String::with_capacity(page.len());
    let mut section = String::new();
    let mut rest = page;
    while let Some((before, after)) = rest.split_once("<tbody>") {
        if let Some(found) = last_section(before) {
            section = found;
        }
        let end = after.find("</tbody>").unwrap_or(after.len());
        out.push_str(before);
        out.push_str("<tbody>");
        rows(&mut out, &after[..end], &section, &mut used);
        rest = &after[end..];
    }
    out.push_str(rest);
    out
}

/// Returns the last heading's own id, or its text.
fn last_section(page: &str) -> Option<String> {
    let end = ["</h1>", "</h2>", "</h3>"].iter().filter_map(|close| page.rfind(close)).max()?;
    let (attributes, text) = page[page[..end].rfind("<h")?..end].split_once('>')?;
    let own = attributes.split_once("id=\"").and_then(|(_, rest)| rest.split('"').next());
    // A numbered id would change with the sections before it.
    Some(own.filter(|id| !id.starts_with("section-")).unwrap_or(text).to_owned())
}

fn rows(out: &mut String, body: &str, section: &str, used: &mut HashSet<String>) {
    let mut parts = body.split("<tr");
    out.push_str(parts.next().unwrap_or_default());
    let rows: Vec<&str> = parts.collect();
    let cells: Vec<Vec<String>> = rows.iter().map(|row| cells(row)).collect();
    let columns = distinguishing_columns(&cells);
    for (row, cells) in rows.iter().zip(&cells) {
        let (attributes, _) = row.split_once('>').unwrap_or_default();
        if attributes.contains(" id=\"") {
            let _ = write!(out, "<tr{row}");
            continue;
        }
        let given =
            attributes.split_once(" data-key=\"").and_then(|(_, rest)| rest.split_once('"'));
        let key = match given {
            Some((key, _)) => key.to_owned(),
            None => cells[..columns.min(cells.len())].join("-"),
        };
        let id = unused(&shortened(&format!("{section}-{key}")), used);
        let rest = match given {
            Some((key, _)) => row.replacen(&format!(" data-key=\"{key}\""), "", 1),
            None => (*row).to_owned(),
        };
        let _ = write!(out, "<tr id=\"{id}\"{rest}");
    }
}

/// Returns the texts of a row's cells.
fn cells(row: &str) -> Vec<String> {
    let text = |cell: &str| {
        let (_, inner) = cell.split_once('>')?;
        let inner = inner.split("</td>").next()?;
        Some(inner.split('<').map(|part| part.split_once('>').map_or(part, |(_, it)| it)).collect())
    };
    row.split("<td").skip(1).map(|cell| text(cell).unwrap_or_default()).collect()
}

/// Returns the smallest number of first cells that distinguishes any two rows; the length of the
/// longest row if two rows are the same.
fn distinguishing_columns(rows: &[Vec<String>]) -> usize {
    let most = rows.iter().map(Vec::len).max().unwrap_or(0);
    let apart = |columns: &usize| {
        let mut seen = HashSet::new();
        rows.iter().all(|cells| seen.insert(&cells[..(*columns).min(cells.len())]))
    };
    (1..=most).find(apart).unwrap_or(most)
}

/// Converts a text to an id of at most [`LONGEST`] characters: lower case, with one dash for each
/// run of characters other than letters, digits and `-+._`.
fn shortened(text: &str) -> String {
    let mut id = String::new();
    for letter in text.chars() {
        if letter.is_alphanumeric() || "-+._".contains(letter) {
            id.extend(letter.to_lowercase());
        } else if !id.ends_with('-') {
            id.push('-');
        }
    }
    if id.chars().count() <= LONGEST {
        return id;
    }
    let mut cut: String = id.chars().take(LONGEST - 2 * HASH_BYTES - 1).collect();
    cut.push('-');
    for byte in &Sha256::digest(&id)[..HASH_BYTES] {
        let _ = write!(cut, "{byte:02x}");
    }
    cut
}

/// Returns the id, with a number appended if it is already used.
fn unused(id: &str, used: &mut HashSet<String>) -> String {
    let numbered = (2..).map(|number| format!("{id}-{number}"));
    let free = std::iter::once(id.to_owned()).chain(numbered).find(|it| !used.contains(it));
    let free = free.unwrap_or_default();
    used.insert(free.clone());
    free
}

#[cfg(test)]
mod tests {
    use super::anchored;
    use crate::page::{begin, end, table};

    fn ids(page: &str) -> Vec<&str> {
        page.split("<tr id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect()
    }

    fn standings(rows: &[[&str; 3]]) -> String {
        let mut page = begin("t");
        page.push_str("<h1>League</h1><h2>Rows &amp; so on</h2>\n");
        let texts = rows.iter().map(|row| row.map(str::to_owned));
        table(&mut page, ["policy", "traffic", "W"], texts);
        end(&mut page);
        page
    }

    #[test]
    fn id_consists_of_section_and_names() {
        let page = standings(&[["poll", "a:1", "9"], ["poll", "b", "7"], ["hare", "b", "7"]]);
        let named = ["rows-amp-so-on-poll-a-1", "rows-amp-so-on-poll-b", "rows-amp-so-on-hare-b"];
        assert_eq!(ids(&page), named);
        let later = standings(&[["hare", "b", "8"], ["poll", "b", "9"], ["poll", "a:1", "1"]]);
        let reversed: Vec<&str> = named.into_iter().rev().collect();
        assert_eq!(ids(&later), reversed);
    }

    #[test]
    fn ids_are_unique_on_a_page() {
        let row = |cell: &str| format!("<tr><td>{cell}</td></tr>");
        let page = format!(
            "<h2 id=\"x-a\">X</h2><h2 id=\"x\">X</h2><tbody>{}{}{}</tbody><tbody>{}{}</tbody>",
            row("a"),
            row("a"),
            row(""),
            row("a"),
            "<tr id=\"own\"><td>b</td></tr>"
        );
        assert_eq!(ids(&anchored(&page)), ["x-a-2", "x-a-3", "x-", "x-a-4", "own"]);
    }

    #[test]
    fn given_key_names_a_row_and_long_keys_are_cut_but_distinct() {
        let row = |key: &str| format!("<tr data-key=\"{key}\" class=\"c\"><td>1</td></tr>");
        let long = "y".repeat(50_000);
        let page = format!(
            "<h3>S</h3><tbody>{}{}{}</tbody>",
            row("q PS-1"),
            row(&long),
            row(&format!("{long}z"))
        );
        let page = anchored(&page);
        let found = ids(&page);
        assert_eq!(found[0], "s-q-ps-1");
        assert!(page.contains("<tr id=\"s-q-ps-1\" class=\"c\"><td>1</td></tr>"), "{page:.200}");
        assert!(found[1..].iter().all(|id| id.chars().count() == 64) && found[1] != found[2]);
    }
}
