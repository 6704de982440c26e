//! HTML pages in one file each, without external resources.

use crate::check::{Check, Verdict};
use crate::escape::escape;
use std::fmt::Write as _;

const STYLE: &str = "
:root{color-scheme:light}
body{font:16px/1.5 system-ui,'DejaVu Sans',sans-serif;max-width:1100px;margin:2rem auto;padding:0 1rem;color:#222;background:#fff}
h1{font-size:1.6rem}h2{margin-top:3rem;border-bottom:2px solid #0072B2}h3{margin-top:2.2rem}
table{border-collapse:collapse;font-size:.85rem;margin:.6rem 0 1.2rem}
th,td{border:1px solid #ccc;padding:.25rem .5rem;text-align:left;vertical-align:top;overflow-wrap:break-word}
th{background:#f2f2f2}td.n{text-align:right;white-space:nowrap}
.plots{display:flex;flex-wrap:wrap;gap:1rem}.plots svg{max-width:100%;height:auto;border:1px solid #ddd}
.v{white-space:nowrap;font-weight:600}.meets{color:#00664a}.fitted{color:#5b6b00}.differs{color:#a33c00}
.paper-contradicts-itself{color:#7a3b69}.figure-lost,.not-testable{color:#666}
details summary{cursor:pointer}nav a{margin-right:.8rem}";

/// Beginning of every page; `title` is plain text. [`end`] closes the page.
pub fn begin(title: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\">\
         <title>Wattline: {}</title><style>{STYLE}</style></head><body>\n",
        escape(title)
    )
}

/// Closes a page that [`begin`] has begun.
pub fn end(page: &mut String) {
    page.push_str("</body></html>\n");
}

/// Appends formatted text. Writing into a string cannot fail.
pub fn put(page: &mut String, arguments: std::fmt::Arguments<'_>) {
    let _ = page.write_fmt(arguments);
}

/// Appends a table of plain text: the first column aligned to the left, numbers to the right.
pub fn table<const N: usize>(
    page: &mut String,
    head: [&str; N],
    rows: impl Iterator<Item = [String; N]>,
) {
    page.push_str("<table><tr>");
    head.iter().for_each(|cell| put(page, format_args!("<th>{}</th>", escape(cell))));
    page.push_str("</tr>\n");
    for row in rows {
        page.push_str("<tr>");
        for (column, cell) in row.iter().enumerate() {
            let class = if column == 0 { "" } else { " class=\"n\"" };
            put(page, format_args!("<td{class}>{}</td>", escape(cell)));
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</table>\n");
}

/// Appends a table of comparisons with published values; nothing if there are no checks.
pub fn checks(page: &mut String, checks: &[Check]) {
    if checks.is_empty() {
        return;
    }
    page.push_str(
        "<table><tr><th>quantity</th><th>ours</th><th>published</th><th>tolerance</th>\
         <th>verdict</th><th>claims</th><th>note</th></tr>\n",
    );
    for check in checks {
        put(
            page,
            format_args!(
                "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
                escape(&check.quantity),
                escape(&check.ours),
                escape(&check.published),
                escape(&check.tolerance),
                verdict(check.verdict),
                check.claims.join(" "),
                escape(&check.note),
            ),
        );
    }
    page.push_str("</table>\n");
}

/// A verdict in its colour, as HTML.
pub fn verdict(verdict: Verdict) -> String {
    let text = verdict.text();
    format!("<span class=\"v {}\">{text}</span>", text.replace(' ', "-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_whole_and_its_texts_are_escaped() {
        let mut page = begin("a < b");
        table(&mut page, ["x & y", "n"], [["<1>".to_owned(), "2".to_owned()]].into_iter());
        checks(&mut page, &[]);
        checks(&mut page, &[Check::near(&["PS-001"], "\"watts\"", 1.0, 3.0, 0.5)]);
        end(&mut page);
        assert!(page.starts_with("<!doctype html>") && page.ends_with("</body></html>\n"));
        assert!(page.contains("<title>Wattline: a &lt; b</title>"));
        assert!(page.contains("<th>x &amp; y</th><th>n</th>"));
        assert!(page.contains("<td>&lt;1&gt;</td><td class=\"n\">2</td>"));
        assert!(page.contains("<td>&quot;watts&quot;</td><td>1</td><td>3</td><td>± 0.5</td>"));
        assert!(page.contains("<span class=\"v differs\">differs</span></td><td>PS-001</td>"));
        assert_eq!(page.matches("<table>").count(), page.matches("</table>").count());
    }
}
