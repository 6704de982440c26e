//! The documentation's table of how each promise is judged on each platform.

use super::findings::{Judgement, Verdict};

/// Returns the table's text for a verdict.
pub fn cell(verdict: &Verdict) -> String {
    let denied = if verdict.promised { "" } else { "denied, " };
    let judged = match &verdict.judgement {
        Judgement::ByEffect(_) => "by effect",
        Judgement::ByWitness => "by a witness",
        Judgement::NotByEffect(why) => return format!("{denied}not judged: {why}"),
        Judgement::Broken => "broken",
    };
    format!("{denied}{judged}")
}

/// Returns the cells in a platform's column that differ from its verdicts: a sentence each, with
/// the correct text.
pub fn differences(page: &str, column: &str, verdicts: &[Verdict]) -> Vec<String> {
    let rows: Vec<Vec<&str>> = page
        .lines()
        .filter(|line| line.starts_with('|'))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    let heads = rows.iter().enumerate().filter(|(_, row)| row.first() == Some(&"promise"));
    let place = heads
        .filter_map(|(number, row)| Some((number, row.iter().position(|head| *head == column)?)))
        .next();
    let Some((head, place)) = place else {
        return vec![format!("no table begins with `promise` and has a column {column:?}")];
    };
    let mut wrong = Vec::new();
    for verdict in verdicts {
        let wanted = cell(verdict);
        let row = rows[head..].iter().find(|row| row.first() == Some(&verdict.promise));
        let found = row.and_then(|row| row.get(place)).copied();
        if found != Some(&wanted) {
            let promise = verdict.promise;
            wrong.push(format!("{promise}, {column}: {wanted:?} is to stand there, not {found:?}"));
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differing_table_is_found() {
        let judgement = Judgement::NotByEffect("nothing moves".to_owned());
        let verdicts = [Verdict { promise: "watts", promised: true, judgement }];
        let page = "| promise | host |\n|---|---|\n| watts | not judged: nothing moves |\n";
        assert_eq!(differences(page, "host", &verdicts), Vec::<String>::new());
        assert_eq!(differences(&page.replace("moves", "falls"), "host", &verdicts).len(), 1);
        assert_eq!(differences(page, "sim", &verdicts).len(), 1);
    }
}
