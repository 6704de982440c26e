//! A page of a few plots and tables, in the design of all pages.

use crate::escape::escape;
use crate::page::{self, put};

/// A page, until it is [ended](Self::end). Texts are escaped.
pub struct FigurePage(String);

impl FigurePage {
    /// Begins with a title, which is the first heading as well.
    pub fn titled(title: &str) -> Self {
        Self::headed(title, title)
    }

    /// Begins with a title for the browser and a first heading.
    pub fn headed(title: &str, heading: &str) -> Self {
        let mut page = page::begin(title);
        put(&mut page, format_args!("<h1>{}</h1>\n", escape(heading)));
        Self(page)
    }

    /// Begins with a title and the outcome in a sentence.
    pub fn begin(title: &str, verdict: &str) -> Self {
        let mut page = Self::titled(title);
        page.strong(verdict);
        page
    }

    /// Text of the page, for parts that no method writes; the caller escapes what it appends.
    pub fn html(&mut self) -> &mut String {
        &mut self.0
    }

    /// Appends a paragraph.
    pub fn text(&mut self, text: &str) {
        put(&mut self.0, format_args!("<p>{}</p>\n", escape(text)));
    }

    /// Appends a paragraph in bold.
    pub fn strong(&mut self, text: &str) {
        put(&mut self.0, format_args!("<p><strong>{}</strong></p>\n", escape(text)));
    }

    /// Appends a heading.
    pub fn heading(&mut self, text: &str) {
        put(&mut self.0, format_args!("<h2>{}</h2>\n", escape(text)));
    }

    /// Appends a heading below [`heading`](Self::heading).
    pub fn subheading(&mut self, text: &str) {
        put(&mut self.0, format_args!("<h3>{}</h3>\n", escape(text)));
    }

    /// Appends plots side by side, where the screen is wide enough.
    pub fn plots(&mut self, plots: impl IntoIterator<Item = String>) {
        let plots: String = plots.into_iter().collect();
        put(&mut self.0, format_args!("<div class=\"plots\">{plots}</div>\n"));
    }

    /// Appends a list of remarks; nothing if there are none.
    pub fn remarks(&mut self, remarks: impl IntoIterator<Item = impl AsRef<str>>) {
        let remarks = remarks.into_iter();
        let items: String =
            remarks.map(|it| format!("<li>{}</li>\n", escape(it.as_ref()))).collect();
        if !items.is_empty() {
            put(&mut self.0, format_args!("<ul>\n{items}</ul>\n"));
        }
    }

    /// Appends a part that is closed until a reader opens it.
    pub fn details(&mut self, summary: &str, content: impl FnOnce(&mut Self)) {
        let summary = escape(summary);
        put(&mut self.0, format_args!("<details><summary>{summary}</summary>\n"));
        content(self);
        self.0.push_str("</details>\n");
    }

    /// Appends a table.
    pub fn table<const N: usize>(
        &mut self,
        head: [&str; N],
        rows: impl IntoIterator<Item = [String; N]>,
    ) {
        page::table(&mut self.0, head, rows.into_iter());
    }

    /// Appends a table of names and values.
    pub fn values<N: Into<String>>(&mut self, rows: impl IntoIterator<Item = (N, String)>) {
        self.table(["what", "value"], rows.into_iter().map(|(what, value)| [what.into(), value]));
    }

    /// Appends the command that gives the same again.
    pub fn again(&mut self, command: &str) {
        put(&mut self.0, format_args!("<p>Again: <code>{}</code></p>\n", escape(command)));
    }

    /// Returns the whole page.
    pub fn end(mut self) -> String {
        page::end(&mut self.0);
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::{Axis, Bars};

    #[test]
    fn hostile_texts_are_escaped_and_the_page_is_whole() {
        let mut page = FigurePage::begin("<b>", "&");
        page.text("<i>");
        page.remarks(["<q>"]);
        page.plots([Bars::new("bars", "of", Axis::new("Mpps"), ["<u>", "two"])
            .series("a", [1.0, 2.0])
            .svg()]);
        page.table(["one"], [["<s>".to_owned()]]);
        page.values([("runs", "<3>".to_owned())]);
        page.again("<a>");
        let page = page.end();
        for hostile in ["<b>", "<i>", "<u>", "<s>", "<q>", "<3>", "<a>"] {
            assert!(!page.contains(hostile), "{hostile}");
        }
        assert!(page.contains("</html>"), "{page}");
    }
}
