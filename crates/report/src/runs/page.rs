//! A comparison as a page.

use super::compare::{Comparison, Figure, Mean};
use super::{quantity, show};
use crate::escape::escape;
use crate::page::{self, put};
use crate::plot::{BarSeries, Bars};

/// Figures that are drawn; more are in the table.
const DRAWN: usize = 12;
/// Rows of the table at most, and files that are named: a page stays below a megabyte whatever is in
/// the folders.
const ROWS: usize = 1_500;
const NAMED: usize = 50;
/// Letters of a name or path that are shown.
const LETTERS: usize = 160;

/// A name as it is shown: shortened in the middle where it is very long.
fn short(name: &str) -> String {
    let count = name.chars().count();
    if count <= LETTERS {
        return escape(name);
    }
    let head: String = name.chars().take(LETTERS / 2).collect();
    let tail: String = name.chars().skip(count - LETTERS / 2).collect();
    escape(&format!("{head} … {tail}"))
}

impl Comparison {
    /// The page.
    pub fn html(&self) -> String {
        let mut page = page::begin("runs compared");
        page.push_str("<h1>Runs compared</h1>\n");
        for sentence in self.sentences() {
            put(&mut page, format_args!("<p>{}</p>\n", escape(&sentence)));
        }
        page.push_str("<ul>\n");
        for (index, run) in self.runs.iter().enumerate() {
            let role = if index == 0 { ", the others are compared with it" } else { "" };
            let count = run.repetitions.len();
            let name = short(&run.name);
            put(&mut page, format_args!("<li><b>{name}</b>: {count} repetitions{role}"));
            for one in run.left_out.iter().take(NAMED) {
                let (file, why) = (short(&one.file), short(&one.why));
                put(&mut page, format_args!("<br>left out: {file}: {why}"));
            }
            if run.left_out.len() > NAMED {
                let more = run.left_out.len() - NAMED;
                put(&mut page, format_args!("<br>left out: {more} files more"));
            }
            page.push_str("</li>\n");
        }
        page.push_str("</ul>\n<h2>What differs</h2>\n<p>Power, latency and loss of the whole run first, then what differs most.</p>\n<div class=\"plots\">\n");
        let sorted = self.sorted();
        let differs = |figure: &&&Figure| {
            figure.differences.iter().flatten().any(|difference| difference.outcome.differs())
        };
        sorted
            .iter()
            .filter(differs)
            .take(DRAWN)
            .for_each(|figure| page.push_str(&self.bars(figure)));
        page.push_str("</div>\n<h2>All figures</h2>\n");
        let all: usize = sorted.iter().map(|figure| figure.differences.len()).sum();
        if all > ROWS {
            put(
                &mut page,
                format_args!(
                    "<p>The first {ROWS} rows of {all}, those that differ most; <code>--only</code> \
                     picks others, <code>--json</code> has all.</p>\n"
                ),
            );
        }
        let mut left = ROWS;
        page::begin_table(&mut page, ["figure", "run", "first", "this", "difference", "outcome"]);
        for figure in sorted {
            for (index, difference) in figure.differences.iter().enumerate().take(left) {
                left -= 1;
                let [by, outcome] = show::difference(difference.as_ref());
                let this = show::mean(figure.means[index + 1].as_ref());
                let texts = [&figure.path, &self.runs[index + 1].name];
                let numbers = [&show::mean(figure.means[0].as_ref()), &this, &by];
                page.push_str("<tr>");
                for cell in texts {
                    put(&mut page, format_args!("<td>{}</td>", short(cell)));
                }
                for cell in numbers {
                    put(&mut page, format_args!("<td class=\"n\">{}</td>", escape(cell)));
                }
                put(&mut page, format_args!("<td>{}</td></tr>\n", escape(&outcome)));
            }
        }
        page::end_table(&mut page);
        page.push_str(
            "<p>± is half a 95 % confidence interval: of means by Student's distribution, of \
             differences by Welch's test. \"No difference shown\" does not show that there is none.</p>\n",
        );
        page::end(&mut page);
        page
    }

    /// The means of a figure side by side, with their intervals.
    fn bars(&self, figure: &Figure) -> String {
        let known = || figure.means.iter().flatten().map(|mean| mean.mean.abs());
        let (y, factor) = quantity::axis(&figure.path, known().fold(0.0, f64::max));
        let values = figure.means.iter().map(|mean| mean.map_or(f64::NAN, |it| it.mean * factor));
        let half = |mean: &Option<Mean>| mean.and_then(|it| it.half).map_or(0.0, |it| it * factor);
        let bars = Bars {
            title: figure.path.clone(),
            x_label: "run".to_owned(),
            y,
            groups: self.runs.iter().map(|run| run.name.clone()).collect(),
            series: vec![BarSeries {
                name: "mean, with its 95 % interval".to_owned(),
                values: values.collect(),
                published: vec![None; self.runs.len()],
            }],
            stacked: false,
            ordered: false,
            halves: vec![figure.means.iter().map(half).collect()],
            published: vec![None; self.runs.len()],
        };
        bars.svg()
    }
}
