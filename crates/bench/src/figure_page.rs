//! The page of a benchmark that is a few bars and tables, in the design of all pages.

use crate::calibration::Calibration;
use crate::machine::Machine;
use wattline_report::escape;
use wattline_report::page::{self, put};
use wattline_report::plot::{Axis, BarSeries, Bars};

/// Returns bars from zero: `groups` along the axis named `x`, in each a bar of each series.
pub fn bars(
    title: &str,
    [x, unit]: [&str; 2],
    groups: Vec<String>,
    series: impl IntoIterator<Item = (String, Vec<f64>)>,
) -> Bars {
    let series = series.into_iter();
    let series = series.map(|(name, values)| BarSeries { name, values, published: Vec::new() });
    Bars {
        title: title.into(),
        x_label: x.into(),
        y: Axis::new(unit).from_zero(),
        groups,
        series: series.collect(),
        stacked: false,
        ordered: false,
        halves: Vec::new(),
        published: Vec::new(),
    }
}

/// A page, until it is [ended](Self::end). Texts are escaped.
pub struct FigurePage(String);

impl FigurePage {
    /// Begins with a title and what came out, in a sentence.
    pub fn begin(title: &str, verdict: &str) -> Self {
        let mut page = page::begin(title);
        put(&mut page, format_args!("<h1>{}</h1>\n", escape(title)));
        put(&mut page, format_args!("<p><strong>{}</strong></p>\n", escape(verdict)));
        Self(page)
    }

    /// A paragraph.
    pub fn text(&mut self, text: &str) {
        put(&mut self.0, format_args!("<p>{}</p>\n", escape(text)));
    }

    /// A heading.
    pub fn heading(&mut self, text: &str) {
        put(&mut self.0, format_args!("<h2>{}</h2>\n", escape(text)));
    }

    /// A heading below [`heading`](Self::heading).
    pub fn subheading(&mut self, text: &str) {
        put(&mut self.0, format_args!("<h3>{}</h3>\n", escape(text)));
    }

    /// Bars side by side, from zero: `groups` along the axis named `x`, in each a bar of each series.
    pub fn bars(
        &mut self,
        title: &str,
        [x, unit]: [&str; 2],
        groups: Vec<String>,
        series: impl IntoIterator<Item = (String, Vec<f64>)>,
    ) {
        self.plots([bars(title, [x, unit], groups, series).svg()]);
    }

    /// Plots side by side, where the screen is wide enough.
    pub fn plots(&mut self, plots: impl IntoIterator<Item = String>) {
        let plots: String = plots.into_iter().collect();
        put(&mut self.0, format_args!("<div class=\"plots\">{plots}</div>\n"));
    }

    /// A list of remarks; nothing if there are none.
    pub fn remarks(&mut self, remarks: impl IntoIterator<Item = String>) {
        let items = remarks.into_iter().map(|it| format!("<li>{}</li>\n", escape(&it)));
        let items: String = items.collect();
        if !items.is_empty() {
            put(&mut self.0, format_args!("<ul>\n{items}</ul>\n"));
        }
    }

    /// A part that is closed until a reader opens it.
    pub fn details(&mut self, summary: &str, content: impl FnOnce(&mut Self)) {
        let summary = escape(summary);
        put(&mut self.0, format_args!("<details><summary>{summary}</summary>\n"));
        content(self);
        self.0.push_str("</details>\n");
    }

    /// A table.
    pub fn table<const N: usize>(
        &mut self,
        head: [&str; N],
        rows: impl IntoIterator<Item = [String; N]>,
    ) {
        page::table(&mut self.0, head, rows.into_iter());
    }

    /// Ends with how it was measured: what was given, and the machine.
    pub fn end(mut self, how: &[(&str, String)], calibration: Option<&Calibration>) -> String {
        self.heading("How it was measured");
        let given = how.iter().map(|(what, value)| [(*what).to_owned(), value.clone()]);
        let speed = calibration.map(|calibration| {
            let text = if calibration.disturbed {
                "changed meanwhile: repeat for firm figures"
            } else {
                "the same before and after"
            };
            ["speed of the machine".to_owned(), text.to_owned()]
        });
        let machine = ["machine".to_owned(), Machine::here().text()];
        let version = ["version".to_owned(), wattline_units::Build::default().to_string()];
        self.table(["what", "value"], given.chain(speed).chain([machine, version]));
        page::end(&mut self.0);
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_texts_are_escaped_and_the_page_is_whole() {
        let mut page = FigurePage::begin("<b>", "&");
        page.text("<i>");
        let groups = vec!["<u>".to_owned(), "two".to_owned()];
        page.bars("bars", ["of", "Mpps"], groups, [("a".to_owned(), vec![1.0, 2.0])]);
        page.table(["one"], [["<s>".to_owned()]]);
        let disturbed = Calibration { before_cycles: 1.0, after_cycles: 2.0, disturbed: true };
        let page = page.end(&[("runs", "<3>".to_owned())], Some(&disturbed));
        for hostile in ["<b>", "<i>", "<u>", "<s>", "<3>"] {
            assert!(!page.contains(hostile), "{hostile}");
        }
        assert!(page.contains("repeat for firm figures") && page.contains("</html>"), "{page}");
        crate::looked_at("figure", &page);
    }
}
