//! Figures of a comparison in words.

use super::compare::{Comparison, Difference, Mean};
use crate::table;

/// Formats a mean with its interval.
pub(super) fn mean(mean: Option<&Mean>) -> String {
    let Some(Mean { count, mean, half, .. }) = mean else { return "–".to_owned() };
    let value = if *mean == 0.0 { "0".to_owned() } else { table::number(*mean) };
    match half {
        Some(0.0) => format!("{value} ({count} alike)"),
        Some(half) => format!("{value} ± {}", short(*half)),
        None => format!("{value} (1 run)"),
    }
}

/// Formats a difference with its interval and, if known, as a share.
pub(super) fn difference(difference: Option<&Difference>) -> [String; 2] {
    let Some(Difference { mean, half, relative, outcome }) = difference else {
        return ["–".to_owned(), "one of them lacks it".to_owned()];
    };
    let sign = if *mean > 0.0 { "+" } else { "" };
    let value = if *mean == 0.0 { "0".to_owned() } else { table::number(*mean) };
    let interval = half.filter(|half| *half > 0.0).map(|half| format!(" ± {}", short(half)));
    let share =
        relative.filter(|share| *share != 0.0).map(|share| format!(" ({:+.1} %)", 100.0 * share));
    let amount =
        format!("{sign}{value}{}{}", interval.unwrap_or_default(), share.unwrap_or_default());
    [amount, outcome.words().to_owned()]
}

/// Formats an uncertainty with two digits, which are enough.
fn short(half: f64) -> String {
    let power = half.abs().log10().floor() as i32 - 1;
    let step = 10_f64.powi(power);
    table::number((half / step).round() * step)
}

impl Comparison {
    /// Returns the sentences that apply to the whole comparison.
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
        Comparison::new(
            vec![run("poll", &[200.0, 202.0, 198.0]), run("<saver>", &[150.0, 151.0, 149.0])],
            None,
        )
    }

    #[test]
    fn differences_are_listed_and_the_rest_is_counted() {
        let text = comparison().page(false).plain().to_owned();
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
        assert!(comparison().page(true).plain().contains("0 (3 alike)"));
    }

    #[test]
    fn page_has_every_figure_and_escapes_names() {
        let page = comparison().page(false).end();
        assert!(page.contains("&lt;saver&gt;") && !page.contains("<saver>"), "{page}");
        for words in ["lost", "the same", "-50 ± 5.6 (-25.0 %)", "left out", "<svg"] {
            assert!(page.contains(words), "{words:?}");
        }
    }
}
