//! Tuned rivals and the grids of their settings.

use crate::playable::Stage;
use crate::policy_text::{policy, problems_of};
use crate::problems::Problems;
use crate::span::above_zero;
use crate::twice;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use wattline_traffic::Spec;
use wattline_units::Span;

/// The table `tuning` of a league file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Written {
    seeds: Vec<u64>,
    duration: Option<String>,
    #[serde(default)]
    traffics: BTreeMap<String, String>,
    #[serde(default)]
    durations: BTreeMap<String, String>,
    pub grids: Vec<String>,
}

/// Tuning of rivals before they are judged.
#[derive(Debug, Clone)]
pub struct Tuning {
    /// The seeds on which settings are tried; none of them is a seed of the league.
    pub seeds: Vec<u64>,
    /// Simulated time of a trial, after the league's warm-up, unless the traffic has its own.
    pub duration: Span,
    /// Simulated time of a trial for each traffic of the league, in its order.
    pub durations: Vec<Span>,
    /// The traffic of the trials for each traffic of the league, in its order: as text and parsed.
    /// The league's traffic unless the file names another one, such as a shorter day for shorter
    /// trials.
    pub traffics: Vec<(String, Spec)>,
    /// The rivals.
    pub contenders: Vec<Contender>,
}

/// A policy with all settings to try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contender {
    /// Its name in tables: the policy's name and ", tuned".
    pub name: String,
    /// The settings as texts of policies, in the order of the file; the first of equally good
    /// settings is chosen.
    pub settings: Vec<String>,
}

/// Traffic, budgets and seeds of the league around the tuning.
pub(crate) struct Judged<'a> {
    pub seeds: &'a [u64],
    /// `None` where it cannot be read.
    pub duration: Option<Span>,
    pub traffics: &'a [(String, Spec)],
    pub budgets: &'a [Span],
    pub stage: &'a Stage<'a>,
}

impl Written {
    /// Reads the table and notes its problems.
    pub fn read(&self, judged: &Judged<'_>, problems: &mut Problems<'_>) -> Option<Tuning> {
        for (field, empty) in
            [("tuning.seeds", self.seeds.is_empty()), ("tuning.grids", self.grids.is_empty())]
        {
            if empty {
                problems.note(field, "is empty; at least one entry is required");
            }
        }
        twice::values("tuning.seeds", &self.seeds, problems);
        for seed in self.seeds.iter().filter(|seed| judged.seeds.contains(seed)) {
            let problem = format_args!(
                "{seed} is among the league's seeds, too; a setting must be judged on seeds on \
                 which it was not chosen"
            );
            problems.note("tuning.seeds", problem);
        }
        let duration = match &self.duration {
            None => judged.duration,
            Some(text) => problems.keep("tuning.duration", above_zero(text)),
        };
        let tables = [("tuning.traffics", &self.traffics), ("tuning.durations", &self.durations)];
        for (field, table) in tables {
            for text in table.keys() {
                if !judged.traffics.iter().any(|(known, _)| known == text) {
                    let problem = format_args!("\"{text}\" is not among the league's traffics");
                    problems.note(field, problem);
                }
            }
        }
        let own = |(text, _): &(String, Spec)| match (self.durations.get(text), duration) {
            (Some(own), _) => problems.keep("tuning.durations", above_zero(own)),
            (None, of_all) => of_all,
        };
        let durations: Option<Vec<Span>> = judged.traffics.iter().map(own).collect();
        let of = |(text, spec): &(String, Spec)| match self.traffics.get(text) {
            None => Ok((text.clone(), spec.clone())),
            Some(other) => Spec::parse(other)
                .map(|spec| (other.clone(), spec))
                .map_err(|error| format!("{other}: {error}")),
        };
        let traffics = problems.keep_all("tuning.traffics", judged.traffics.iter().map(of));
        let own: Vec<_> = traffics.iter().filter(|own| !judged.traffics.contains(own)).collect();
        judged.stage.traffics("tuning.traffics", own, problems);
        let mut seen = BTreeSet::new();
        for grid in &self.grids {
            let wrong = judged.mistakes_in(grid, &traffics, &mut seen);
            if !wrong.is_empty() {
                problems.note("tuning.grids", format_args!("\"{grid}\": {}", wrong.join("; ")));
            }
        }
        let contenders = contenders(&self.grids);
        Some(Tuning {
            seeds: self.seeds.clone(),
            duration: duration?,
            durations: durations?,
            traffics,
            contenders,
        })
    }
}

impl Judged<'_> {
    /// Lists the mistakes of a grid; the same mistake in many of its settings is reported once.
    /// `seen` holds the settings of earlier grids.
    fn mistakes_in(
        &self,
        grid: &str,
        traffics: &[(String, Spec)],
        seen: &mut BTreeSet<String>,
    ) -> Vec<String> {
        let mut wrong: Vec<String> = Vec::new();
        let settings = expand(grid);
        let twice: Vec<_> = settings.iter().filter(|text| !seen.insert((*text).clone())).collect();
        match twice.as_slice() {
            [] => {}
            [one] => wrong.push(format!("\"{one}\" is there twice; leave one out")),
            [one, more @ ..] => wrong.push(format!(
                "\"{one}\" and {} more of its settings are there twice; leave them out once",
                more.len()
            )),
        }
        for text in &settings {
            for budget in self.budgets {
                wrong.extend(match policy(text, *budget) {
                    Ok(spec) => self.stage.missing_features(&spec, traffics),
                    Err(error) => problems_of(&error),
                });
            }
        }
        let mut listed = BTreeSet::new();
        wrong.retain(|problem| listed.insert(problem.clone()));
        wrong
    }
}

/// Returns the contenders of some grids; the grids of one policy form one contender.
fn contenders(grids: &[String]) -> Vec<Contender> {
    let mut found: Vec<Contender> = Vec::new();
    for grid in grids {
        let policy = grid.split([':', '+']).next().unwrap_or_default();
        let name = format!("{policy}, tuned");
        let settings = expand(grid);
        match found.iter_mut().find(|contender| contender.name == name) {
            Some(contender) => contender.settings.extend(settings),
            None => found.push(Contender { name, settings }),
        }
    }
    found
}

/// Expands a grid, the text of a policy in which `|` separates alternatives, into its settings. The
/// first parameter changes slowest.
fn expand(grid: &str) -> Vec<String> {
    let (name, parameters) = grid.split_once(':').unwrap_or((grid, ""));
    let mut settings = vec![name.to_owned()];
    for (at, parameter) in parameters.split(',').filter(|text| !text.is_empty()).enumerate() {
        let mark = if at == 0 { ':' } else { ',' };
        // Text other than `key=value` is kept, and refused when the policy is parsed.
        let (key, values) = parameter.split_once('=').map_or(("", parameter), |split| split);
        let equals = if key.is_empty() { "" } else { "=" };
        let of = |before: &String| {
            let of_value = |value| format!("{before}{mark}{key}{equals}{value}");
            values.split('|').map(of_value).collect::<Vec<_>>()
        };
        settings = settings.iter().flat_map(of).collect();
    }
    settings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grid_expands_in_a_fixed_order() {
        let of = |grid: &str| expand(grid);
        assert_eq!(of("napi"), ["napi"]);
        assert_eq!(of("napi+84us"), ["napi+84us"]);
        assert_eq!(
            of("queue-length:batch=8|16,c_down=5|20|80,q_h=32"),
            [
                "queue-length:batch=8,c_down=5,q_h=32",
                "queue-length:batch=8,c_down=20,q_h=32",
                "queue-length:batch=8,c_down=80,q_h=32",
                "queue-length:batch=16,c_down=5,q_h=32",
                "queue-length:batch=16,c_down=20,q_h=32",
                "queue-length:batch=16,c_down=80,q_h=32",
            ]
        );
        let grids = ["napi:cores=1|2", "poll", "napi+84us:cores=1"].map(str::to_owned);
        let found = contenders(&grids);
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].name, "napi, tuned");
        assert_eq!(found[0].settings, ["napi:cores=1", "napi:cores=2", "napi+84us:cores=1"]);
    }

    fn read(text: &str) -> Result<Tuning, String> {
        let mut problems = Problems::new("x.toml");
        let stage = Stage {
            servers: &[],
            application: None,
            duration: Span::from_micros(1_000),
            warmup: Span::ZERO,
        };
        let traffic = "poisson:1Mpps,size=64".to_owned();
        let judged = Judged {
            seeds: &[1, 2],
            duration: Some(Span::from_micros(1_000)),
            traffics: &[(traffic.clone(), Spec::parse(&traffic).unwrap())],
            budgets: &[Span::from_micros(50), Span::from_micros(100)],
            stage: &stage,
        };
        let tuning = toml::from_str::<Written>(text).unwrap().read(&judged, &mut problems);
        problems.check().map_err(|error| error.to_string())?;
        Ok(tuning.expect("it has no problem"))
    }

    #[test]
    fn too_long_time_is_refused() {
        let error = read("seeds = [3]\nduration = \"1000000s\"\ngrids = [\"poll\"]").unwrap_err();
        assert!(error.contains("tuning.duration: \"1000000s\" is too long"), "{error}");
    }

    #[test]
    fn all_mistakes_are_reported_at_once() {
        let error = read(
            "seeds = [2, 3]\nduration = \"0ms\"\ntraffics = { \"poisson:1Mpps\" = \"poisson:2Mpps\" }\n\
             grids = [\"napi:cores=one|2\", \"queue-length:bach=1|2,q_h=8|16|32\", \"poll\", \"poll\"]",
        )
        .unwrap_err();
        for part in [
            "tuning.seeds: 2 is among the league's seeds, too",
            "tuning.duration: \"0ms\" is 0; it must be above 0",
            "tuning.traffics: \"poisson:1Mpps\" is not among",
            "tuning.grids: \"napi:cores=one|2\": cores = \"one\": must be",
            "there is no parameter \"bach\"",
            "tuning.grids: \"poll\": \"poll\" is there twice; leave one out",
        ] {
            assert!(error.contains(part), "{part:?} is missing in {error}");
        }
        assert_eq!(error.matches("napi:cores=one").count(), 1, "{error}");
        assert_eq!(error.matches("queue-length:bach").count(), 1, "once for a grid: {error}");
        let error = read("seeds = []\ngrids = []").unwrap_err();
        assert!(
            error.contains("tuning.seeds: is empty") && error.contains("tuning.grids: is empty"),
            "{error}"
        );
    }

    #[test]
    fn missing_fields_default_to_those_of_the_league() {
        let tuning = read("seeds = [3]\ngrids = [\"poll\"]").unwrap();
        assert_eq!(tuning.duration, Span::from_micros(1_000));
        assert_eq!(tuning.traffics[0].0, "poisson:1Mpps,size=64");
        let other = "seeds = [3]\nduration = \"2ms\"\ngrids = [\"poll\"]\n\
                     [traffics]\n\"poisson:1Mpps,size=64\" = \"poisson:2Mpps,size=64\"";
        let tuning = read(other).unwrap();
        assert_eq!(tuning.duration, Span::from_micros(2_000));
        assert_eq!(tuning.traffics[0].0, "poisson:2Mpps,size=64");
    }
}
