//! The table of docs/reference/meters.md, from the registrations.

use crate::external;
use crate::registration::{Registration, Row};

/// Returns the table with a row for each meter, configured ones last.
pub fn table(kinds: &[&Registration]) -> String {
    let mut table = "| meter | files | sees | class |\n|---|---|---|---|\n".to_owned();
    let rows = kinds.iter().flat_map(|kind| kind.rows).chain([&external::ROW]);
    for Row { meter, files, sees, class } in rows {
        table.push_str(&format!("| {meter} | {files} | {sees} | {class} |\n"));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::KINDS;
    use std::path::Path;

    /// `UPDATE_GOLDEN=1 cargo test -p wattline-meters` rewrites the table.
    #[test]
    fn table_of_meters_matches_the_registrations() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/meters.md");
        let page = std::fs::read_to_string(&path).unwrap();
        let begin = page.find("| meter |").expect("the page has a table of meters");
        let end = begin + page[begin..].find("\n\n").expect("a table ends with an empty line") + 1;
        let table = table(KINDS);
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            let whole = [&page[..begin], &table, &page[end..]].concat();
            return std::fs::write(&path, whole).unwrap();
        }
        assert_eq!(page[begin..end], table, "run with UPDATE_GOLDEN=1");
    }
}
