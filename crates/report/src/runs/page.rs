//! A comparison as a page.

use super::compare::{Comparison, Figure, Mean};
use super::{quantity, show};
use crate::escape::escape;
use crate::figure_page::FigurePage;
use crate::page::put;
use crate::plot::Bars;

/// Figures that are drawn; more are in the table.
const DRAWN: usize = 12;
/// Rows of the table at most, and files that are named: a page stays below a megabyte whatever is in
/// the folders.
const ROWS: usize = 1_500;
const NAMED: usize = 50;
/// Letters of a name or path that are shown.
const LETTERS: usize = 160;

/// Returns a name as it is shown, shortened in the middle where it is very long.
fn short(name: &str) -> String {
    let count = name.chars().count();
    if count <= LETTERS {
        return name.to_owned();
    }
    let head: String = name.chars().take(LETTERS / 2).collect();
    let tail: String = name.chars().skip(count - LETTERS / 2).collect();
    format!("{head} … {tail}")
}

impl Comparison {
    /// The page.
    pub fn html(&self) -> String {
        let mut page = FigurePage::headed("runs compared", "Runs compared");
        self.sentences().iter().for_each(|sentence| page.text(sentence));
        let list = page.html();
        list.push_str("<ul>\n");
        for (index, run) in self.runs.iter().enumerate() {
            let role = if index == 0 { ", the others are compared with it" } else { "" };
            let count = run.repetitions.len();
            let name = escape(&short(&run.name));
            put(list, format_args!("<li><b>{name}</b>: {count} repetitions{role}"));
            for one in run.left_out.iter().take(NAMED) {
                let [file, why] = [&one.file, &one.why].map(|text| escape(&short(text)));
                put(list, format_args!("<br>left out: {file}: {why}"));
            }
            if run.left_out.len() > NAMED {
                let more = run.left_out.len() - NAMED;
                put(list, format_args!("<br>left out: {more} files more"));
            }
            list.push_str("</li>\n");
        }
        list.push_str("</ul>\n");
        page.heading("Differences");
        page.text("Power, latency and loss of the whole run first, then what differs most.");
        let sorted = self.sorted();
        let differs = |figure: &&&Figure| {
            figure.differences.iter().flatten().any(|difference| difference.outcome.differs())
        };
        page.plots(sorted.iter().filter(differs).take(DRAWN).map(|figure| self.bars(figure)));
        page.heading("All figures");
        let all: usize = sorted.iter().map(|figure| figure.differences.len()).sum();
        if all > ROWS {
            put(
                page.html(),
                format_args!(
                    "<p>The first {ROWS} rows of {all}, those that differ most; <code>--only</code> \
                     picks others, <code>--json</code> has all.</p>\n"
                ),
            );
        }
        let rows = sorted.iter().flat_map(|figure| {
            figure.differences.iter().enumerate().map(move |(index, difference)| {
                let [by, outcome] = show::difference(difference.as_ref());
                let mean = |run: usize| show::mean(figure.means[run].as_ref());
                let run = short(&self.runs[index + 1].name);
                [short(&figure.path), run, mean(0), mean(index + 1), by, outcome]
            })
        });
        page.table(["figure", "run", "first", "this", "difference", "outcome"], rows.take(ROWS));
        page.text(
            "± is half a 95 % confidence interval: of means by Student's distribution, of \
             differences by Welch's test. \"No difference shown\" does not show that there is none.",
        );
        page.end()
    }

    /// The means of a figure side by side, with their intervals.
    fn bars(&self, figure: &Figure) -> String {
        let known = || figure.means.iter().flatten().map(|mean| mean.mean.abs());
        let (y, factor) = quantity::axis(&figure.path, known().fold(0.0, f64::max));
        let bar = |mean: &Option<Mean>| {
            let half = mean.and_then(|it| it.half).unwrap_or(0.0);
            (mean.map_or(f64::NAN, |it| it.mean * factor), half * factor)
        };
        Bars::new(&figure.path, "run", y, self.runs.iter().map(|run| &run.name))
            .uncertain("mean, with its 95 % interval", figure.means.iter().map(bar))
            .svg()
    }
}
