//! A comparison as a page and as text for a terminal.

use super::compare::{Comparison, Figure, Mean};
use super::{quantity, show};
use crate::figure_page::FigurePage;
use crate::plot::Bars;

/// Number of drawn figures; the table has the others.
const DRAWN: usize = 12;
/// Largest numbers of rows of the table and of named files; they keep a page below a megabyte
/// whatever the folders contain.
const ROWS: usize = 1_500;
const NAMED: usize = 50;
/// Largest number of rows of differences.
const MOST: usize = 40;
/// Displayed letters of a name or path.
const LETTERS: usize = 160;

/// Returns the displayed form of a name; a very long name is shortened in the middle.
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
    /// Returns the page. A terminal gets the differing figures, at most a screen of them, or `all`.
    pub fn page(&self, all: bool) -> FigurePage {
        let mut page = FigurePage::headed("runs compared", "Runs compared");
        page.remarks(self.runs.iter().enumerate().map(|(index, run)| {
            let role = if index == 0 { ", the others are compared with it" } else { "" };
            let mut line =
                format!("{}: {} repetitions{role}", short(&run.name), run.repetitions.len());
            for one in run.left_out.iter().take(NAMED) {
                line += &format!("; left out: {}: {}", short(&one.file), short(&one.why));
            }
            if run.left_out.len() > NAMED {
                line += &format!("; left out: {} files more", run.left_out.len() - NAMED);
            }
            line
        }));
        self.sentences().iter().for_each(|sentence| page.text(sentence));
        page.heading("Differences");
        page.text("Power, latency and loss of the whole run first, then the largest differences.");
        let sorted = self.sorted();
        let differs = |figure: &&&Figure| {
            figure.differences.iter().flatten().any(|difference| difference.outcome.differs())
        };
        page.plots(sorted.iter().filter(differs).take(DRAWN).map(|figure| self.bars(figure)));
        let rows = || {
            sorted.iter().flat_map(|figure| {
                figure.differences.iter().enumerate().map(|(index, difference)| {
                    let [by, outcome] = show::difference(difference.as_ref());
                    let mean = |run: usize| show::mean(figure.means[run].as_ref());
                    let run = short(&self.runs[index + 1].name);
                    (difference, [short(&figure.path), run, mean(0), mean(index + 1), by, outcome])
                })
            })
        };
        let heads = ["figure", "run", "first", "this", "difference", "outcome"];
        let count = rows().count();
        let every = |page: &mut FigurePage| {
            page.table(heads, rows().take(ROWS).map(|(_, row)| row));
        };
        if all {
            every(&mut page);
        } else {
            // A single repetition does not show that nothing differs.
            let shown = rows().filter(|(difference, _)| {
                difference
                    .is_some_and(|it| it.outcome.differs() || it.half.is_none() && it.mean != 0.0)
            });
            let shown: Vec<_> = shown.take(MOST).map(|(_, row)| row).collect();
            let hidden = count - shown.len();
            if !shown.is_empty() {
                page.table(heads, shown);
            }
            if hidden > 0 {
                page.text(&format!(
                    "{hidden} more, without a shown difference or further down: --all shows them."
                ));
            }
            page.details("All figures", every);
        }
        if count > ROWS {
            page.text(&format!(
                "The first {ROWS} rows of {count}, those that differ most; --only picks others, \
                 --json has all."
            ));
        }
        page.text(
            "± is half a 95 % confidence interval: of means by Student's distribution, of \
             differences by Welch's test. \"No difference shown\" does not show that there is none.",
        );
        page
    }

    /// Returns a plot of the means of a figure side by side, with their intervals.
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
