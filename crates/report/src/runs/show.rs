//! A comparison in a terminal.

use super::compare::{Comparison, Difference, Mean};
use crate::columns::{Columns, number, text};
use crate::table;
use std::fmt::Write as _;

/// Lines of a table unless all are wanted.
const MOST: usize = 40;

/// A mean with its interval.
pub(super) fn mean(mean: Option<&Mean>) -> String {
    let Some(Mean { count, mean, half, .. }) = mean else { return "–".to_owned() };
    let value = if *mean == 0.0 { "0".to_owned() } else { table::number(*mean) };
    match half {
        Some(0.0) => format!("{value} ({count} alike)"),
        Some(half) => format!("{value} ± {}", short(*half)),
        None => format!("{value} (1 run)"),
    }
}

/// A difference with its interval and, where there is one, as a share.
pub(super) fn difference(difference: Option<&Difference>) -> [String; 2] {
    let Some(Difference { mean, half, relative, outcome }) = difference else {
        return ["–".to_owned(), "one of them lacks it".to_owned()];
    };
    let sign = if *mean > 0.0 { "+" } else { "" };
    let value = if *mean == 0.0 { "0".to_owned() } else { table::number(*mean) };
    let interval = half.filter(|half| *half > 0.0).map(|half| format!(" ± {}", short(half)));
    let share =
        relative.filter(|share| *share != 0.0).map(|share| format!(" ({:+.1} %)", 100.0 * share));
    let told =
        format!("{sign}{value}{}{}", interval.unwrap_or_default(), share.unwrap_or_default());
    [told, outcome.words().to_owned()]
}

/// Formats an uncertainty with two digits, which is all that it needs.
fn short(half: f64) -> String {
    let power = half.abs().log10().floor() as i32 - 1;
    let step = 10_f64.powi(power);
    table::number((half / step).round() * step)
}

impl Comparison {
    /// Returns the sentences that hold for everything shown.
    pub(super) fn sentences(&self) -> Vec<String> {
        let (shown, intervals) = self.counts();
        let mut sentences = vec![format!(
            "Intervals at 95 %: {intervals}, of which {shown} show a difference; about {} would do so \
             by chance if nothing differed.",
            (intervals as f64 / 20.0).ceil()
        )];
        if let Some(build) = self.runs.first().and_then(|run| run.build.as_ref()) {
            sentences.push(format!("All runs are of Wattline {build}."));
        }
        if self.runs.iter().any(|run| run.repetitions.len() < 2) {
            sentences.push(
                "A run with one repetition has no interval: repeat it with other seeds or at other \
                 times."
                    .to_owned(),
            );
        }
        sentences
    }

    /// As text; without `all`, only what differs, and not more than a screen.
    pub fn text(&self, all: bool) -> String {
        let mut told = String::new();
        let mut put = |line: &str| {
            // Writing into a string does not fail.
            let _ = writeln!(told, "{line}");
        };
        for (index, run) in self.runs.iter().enumerate() {
            let role = if index == 0 { ", the others are compared with it" } else { "" };
            put(&format!("{}: {} repetitions{role}", run.name, run.repetitions.len()));
            for left_out in &run.left_out {
                put(&format!("  left out: {}: {}", left_out.file, left_out.why));
            }
        }
        put("");
        let mut hidden = 0;
        let mut rows = 0;
        let mut columns = Columns::new([
            text("figure"),
            text("run"),
            number("first"),
            number("this"),
            number("difference"),
            text("outcome"),
        ]);
        for figure in self.sorted() {
            for (index, one) in figure.differences.iter().enumerate() {
                let differs = one.is_some_and(|it| it.outcome.differs());
                let unknown = one.is_some_and(|it| it.half.is_none() && it.mean != 0.0);
                if !all && (!(differs || unknown) || rows >= MOST) {
                    hidden += 1;
                    continue;
                }
                rows += 1;
                let [by, outcome] = difference(one.as_ref());
                columns.row([
                    figure.path.clone(),
                    self.runs[index + 1].name.clone(),
                    mean(figure.means[0].as_ref()),
                    mean(figure.means[index + 1].as_ref()),
                    by,
                    outcome,
                ]);
            }
        }
        if rows > 0 {
            put(&columns.to_string());
        }
        if hidden > 0 {
            put(&format!(
                "{hidden} more, without a shown difference or further down: --all shows them."
            ));
        }
        self.sentences().iter().for_each(|sentence| put(sentence));
        told
    }
}

#[cfg(test)]
mod tests {
    use super::super::read::{LeftOut, Run};
    use super::*;

    fn comparison() -> Comparison {
        let run = |name: &str, watts: &[f64]| Run {
            build: None,
            name: name.to_owned(),
            repetitions: (watts.iter())
                .map(|watts| [("watts".to_owned(), *watts), ("lost".to_owned(), 0.0)].into())
                .collect(),
            left_out: vec![LeftOut { file: "9.json".to_owned(), why: "is empty".to_owned() }],
        };
        Comparison::of(
            vec![run("poll", &[200.0, 202.0, 198.0]), run("<saver>", &[150.0, 151.0, 149.0])],
            None,
        )
    }

    #[test]
    fn differences_are_shown_and_the_rest_is_counted() {
        let text = comparison().text(false);
        for words in [
            "poll: 3 repetitions",
            "left out: 9.json: is empty",
            "200 ± 5",
            "150 ± 2.5",
            "-50 ± 5.6 (-25.0 %)",
            "less",
            "1 more, without",
            "Intervals at 95 %: 1, of which 1 show a difference",
        ] {
            assert!(text.contains(words), "{words:?} is missing in\n{text}");
        }
        assert!(comparison().text(true).contains("0 (3 alike)"));
    }

    #[test]
    fn a_page_has_every_figure_and_no_name_becomes_markup() {
        let page = comparison().html();
        assert!(page.contains("&lt;saver&gt;") && !page.contains("<saver>"), "{page}");
        for words in ["lost", "the same", "-50 ± 5.6 (-25.0 %)", "left out", "<svg"] {
            assert!(page.contains(words), "{words:?}");
        }
    }
}
