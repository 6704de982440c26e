//! A page of a few plots and tables, in the design of all pages and as text for a terminal.

use crate::check::{Check, Verdict};
use crate::columns::{Columns, number, text};
use crate::escape::escape;
use crate::page::{self, is_number, put};

/// A page under construction; [`end`](Self::end) completes it. Texts are escaped.
pub struct FigurePage {
    html: String,
    plain: String,
}

impl FigurePage {
    /// Begins a page with a title, which is also the first heading.
    pub fn titled(title: &str) -> Self {
        Self::headed(title, title)
    }

    /// Begins a page with a title for the browser and a first heading.
    pub fn headed(title: &str, heading: &str) -> Self {
        let mut html = page::begin(title);
        put(&mut html, format_args!("<h1>{}</h1>\n", escape(heading)));
        Self { html, plain: format!("{heading}\n") }
    }

    /// Begins a page with a title and the outcome in a sentence.
    pub fn begin(title: &str, verdict: &str) -> Self {
        let mut page = Self::titled(title);
        page.strong(verdict);
        page
    }

    /// Returns the HTML of the page, for parts that no method writes; the caller escapes its text.
    pub fn html(&mut self) -> &mut String {
        &mut self.html
    }

    /// Returns headings, texts, remarks and tables for a terminal; plots and details are left out.
    pub fn plain(&self) -> &str {
        &self.plain
    }

    /// Appends a paragraph.
    pub fn text(&mut self, text: &str) {
        put(&mut self.html, format_args!("<p>{}</p>\n", escape(text)));
        put(&mut self.plain, format_args!("{text}\n"));
    }

    /// Appends a paragraph in bold.
    pub fn strong(&mut self, text: &str) {
        put(&mut self.html, format_args!("<p><strong>{}</strong></p>\n", escape(text)));
        put(&mut self.plain, format_args!("{text}\n"));
    }

    /// Appends a heading.
    pub fn heading(&mut self, text: &str) {
        put(&mut self.html, format_args!("<h2>{}</h2>\n", escape(text)));
        put(&mut self.plain, format_args!("\n{text}\n"));
    }

    /// Appends a heading below [`heading`](Self::heading).
    pub fn subheading(&mut self, text: &str) {
        put(&mut self.html, format_args!("<h3>{}</h3>\n", escape(text)));
        put(&mut self.plain, format_args!("\n{text}\n"));
    }

    /// Appends plots, side by side if the screen is wide enough.
    pub fn plots(&mut self, plots: impl IntoIterator<Item = String>) {
        let plots: String = plots.into_iter().collect();
        put(&mut self.html, format_args!("<div class=\"plots\">{plots}</div>\n"));
    }

    /// Appends a list of remarks; nothing if there are none.
    pub fn remarks(&mut self, remarks: impl IntoIterator<Item = impl AsRef<str>>) {
        let mut items = String::new();
        for remark in remarks {
            let remark = remark.as_ref();
            put(&mut items, format_args!("<li>{}</li>\n", escape(remark)));
            put(&mut self.plain, format_args!("- {remark}\n"));
        }
        if !items.is_empty() {
            put(&mut self.html, format_args!("<ul>\n{items}</ul>\n"));
        }
    }

    /// Appends a collapsed section.
    pub fn details(&mut self, summary: &str, content: impl FnOnce(&mut Self)) {
        let summary = escape(summary);
        put(&mut self.html, format_args!("<details><summary>{summary}</summary>\n"));
        let shown = self.plain.len();
        content(self);
        self.plain.truncate(shown);
        self.html.push_str("</details>\n");
    }

    /// Appends a table.
    pub fn table<const N: usize>(
        &mut self,
        head: [&str; N],
        rows: impl IntoIterator<Item = [String; N]>,
    ) {
        let rows: Vec<[String; N]> = rows.into_iter().collect();
        self.rows(&head, &rows);
    }

    /// Appends a table; each row has a cell for each head.
    pub fn rows(&mut self, head: &[&str], rows: &[impl AsRef<[String]>]) {
        page::table_of(&mut self.html, head, rows.iter());
        if rows.is_empty() {
            return;
        }
        let is_text =
            |column: usize| column == 0 || rows.iter().any(|row| !is_number(&row.as_ref()[column]));
        let heads = head.iter().enumerate();
        let heads = heads.map(|(at, name)| if is_text(at) { text(name) } else { number(name) });
        let mut columns = Columns::new(heads);
        rows.iter().for_each(|row| columns.row(row.as_ref().iter().cloned()));
        put(&mut self.plain, format_args!("{columns}"));
    }

    /// Appends a table of names and values.
    pub fn values<N: Into<String>>(&mut self, rows: impl IntoIterator<Item = (N, String)>) {
        self.table(["what", "value"], rows.into_iter().map(|(what, value)| [what.into(), value]));
    }

    /// Appends computed and published figures; a terminal gets the notes of differing ones.
    pub fn checks(&mut self, checks: &[Check]) {
        page::checks(&mut self.html, checks);
        let row = |check: &Check| {
            let published = match check.tolerance.as_str() {
                "" | "± 0" => check.published.clone(),
                tolerance => format!("{} {tolerance}", check.published),
            };
            let (claims, verdict) = (check.claims.join(" "), check.verdict.text().to_owned());
            [claims, check.quantity.clone(), published, check.ours.clone(), verdict]
        };
        let heads = ["claim", "quantity", "published", "ours", "verdict"];
        let columns = Columns::of(heads, heads.len(), checks.iter().map(row));
        put(&mut self.plain, format_args!("{columns}"));
        let differs = |check: &&Check| check.verdict == Verdict::Differs && !check.note.is_empty();
        for check in checks.iter().filter(differs) {
            put(&mut self.plain, format_args!("- {}: {}\n", check.claims.join(" "), check.note));
        }
    }

    /// Appends the command that repeats the run.
    pub fn again(&mut self, command: &str) {
        put(&mut self.html, format_args!("<p>Again: <code>{}</code></p>\n", escape(command)));
        put(&mut self.plain, format_args!("Again: {command}\n"));
    }

    /// Returns the whole page.
    pub fn end(mut self) -> String {
        page::end(&mut self.html);
        self.html
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::{Axis, Bars};

    #[test]
    fn hostile_texts_are_escaped_and_the_page_is_complete() {
        let mut page = FigurePage::begin("<b>", "&");
        page.text("<i>");
        page.remarks(["<q>"]);
        page.plots([Bars::new("bars", "of", Axis::new("Mpps"), ["<u>", "two"])
            .series("a", [1.0, 2.0])
            .svg()]);
        page.table(["one"], [["<s>".to_owned()]]);
        page.values([("runs", "<3>".to_owned())]);
        page.again("<a>");
        page.details("more", |page| page.text("hidden"));
        let expected = "<b>\n&\n<i>\n- <q>\none\n<s>\nwhat  value\nruns  <3>\nAgain: <a>\n";
        assert_eq!(page.plain(), expected);
        let page = page.end();
        for hostile in ["<b>", "<i>", "<u>", "<s>", "<q>", "<3>", "<a>"] {
            assert!(!page.contains(hostile), "{hostile}");
        }
        assert!(page.contains("</html>"), "{page}");
    }
}
