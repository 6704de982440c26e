//! The plan of a league: a built-in one, or one from a file.

use crate::error::LeagueError;
use crate::tuning::{self, Judged, Tuning};
use serde::Deserialize;
use std::path::Path;
use wattline_server::{Application, ServerFile, ServerModel};
use wattline_traffic::Spec;
use wattline_units::Span;

pub use crate::policy_text::policy;

/// A league as it is written in TOML.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    servers: Vec<String>,
    policies: Vec<String>,
    traffics: Vec<String>,
    budgets: Vec<String>,
    seeds: Vec<u64>,
    #[serde(default = "ipv4")]
    application: String,
    duration: String,
    warmup: String,
    #[serde(default = "yes")]
    envelope: bool,
    tuning: Option<tuning::Written>,
}

fn yes() -> bool {
    true
}

fn ipv4() -> String {
    "ipv4".into()
}

/// A league, read and checked.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The servers.
    pub servers: Vec<ServerModel>,
    /// The policies as written; `{p99}` stands for the budget.
    pub policies: Vec<String>,
    /// The traffic specifications, as text and parsed.
    pub traffics: Vec<(String, Spec)>,
    /// The budgets.
    pub budgets: Vec<Span>,
    /// The seeds. All policies play the same ones, so that differences are paired.
    pub seeds: Vec<u64>,
    /// The application that handles each packet.
    pub application: Application,
    /// Simulated time that is measured.
    pub duration: Span,
    /// Simulated time before the measurement.
    pub warmup: Span,
    /// Whether lower bound, found schedule and best fixed point are worked out, which takes most of
    /// the time.
    pub envelope: bool,
    /// Rivals that are tuned first.
    pub tuning: Option<Tuning>,
}

impl Plan {
    /// A league that takes minutes: one server, every kind of traffic, three seeds.
    ///
    /// # Errors
    /// Never for the built-in text; a test checks that.
    pub fn quick() -> Result<Self, LeagueError> {
        Self::parse("quick", include_str!("../leagues/quick.toml"))
    }

    /// A league that takes an hour or more: more seeds and budgets, longer runs.
    ///
    /// # Errors
    /// Never for the built-in text; a test checks that.
    pub fn full() -> Result<Self, LeagueError> {
        Self::parse("full", include_str!("../leagues/full.toml"))
    }

    /// A league of rivals that are tuned first, for each kind of traffic and budget; without the
    /// lower bound. It takes an hour or more.
    ///
    /// # Errors
    /// Never for the built-in text; a test checks that.
    pub fn tuned() -> Result<Self, LeagueError> {
        Self::parse("tuned", include_str!("../leagues/tuned.toml"))
    }

    /// Reads a plan from a file.
    ///
    /// # Errors
    /// When the file cannot be read or [`Self::parse`] fails.
    pub fn load(path: &Path) -> Result<Self, LeagueError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| LeagueError::Io { path: path.display().to_string(), source })?;
        Self::parse(&path.display().to_string(), &text)
    }

    /// Parses the text of a file; `name` is used in messages.
    ///
    /// # Errors
    /// [`LeagueError::File`] says what is wrong, where, and what is allowed.
    pub fn parse(name: &str, text: &str) -> Result<Self, LeagueError> {
        let wrong = |place: &str, problem: String| LeagueError::File {
            place: if place.is_empty() { name.into() } else { format!("{name}: {place}") },
            problem,
        };
        let written: Written = toml::from_str(text).map_err(|error| LeagueError::File {
            place: format!("{name}{}", place(text, &error)),
            problem: error.message().lines().collect::<Vec<_>>().join(", "),
        })?;
        for (place, empty) in [
            ("servers", written.servers.is_empty()),
            ("policies", written.policies.is_empty()),
            ("traffics", written.traffics.is_empty()),
            ("budgets", written.budgets.is_empty()),
            ("seeds", written.seeds.is_empty()),
        ] {
            if empty {
                return Err(wrong(place, "is empty; at least one entry is required".into()));
            }
        }
        let span = |place: &str, text: &str| {
            let span = text.parse::<Span>().map_err(|error| wrong(place, error.to_string()))?;
            if span == Span::ZERO && place != "warmup" {
                return Err(wrong(place, "is 0; it must be above 0".into()));
            }
            Ok(span)
        };
        let budgets: Vec<Span> =
            written.budgets.iter().map(|text| span("budgets", text)).collect::<Result<_, _>>()?;
        for text in &written.policies {
            for budget in &budgets {
                policy(text, *budget).map_err(|problem| wrong("policies", problem))?;
            }
        }
        let server = |name: &String| {
            let file = ServerFile::load(name);
            let file = file.map_err(|error| wrong("servers", error.to_string()))?;
            file.model().cloned().map_err(|error| wrong("servers", error.to_string()))
        };
        let traffic = |text: &String| -> Result<(String, Spec), LeagueError> {
            let spec = Spec::parse(text);
            let spec = spec.map_err(|error| wrong("traffics", format!("{text}: {error}")))?;
            Ok((text.clone(), spec))
        };
        let application = written.application.parse();
        let traffics: Vec<_> = written.traffics.iter().map(traffic).collect::<Result<_, _>>()?;
        let duration = span("duration", &written.duration)?;
        let judged =
            Judged { seeds: &written.seeds, duration, traffics: &traffics, budgets: &budgets };
        let tuning = written.tuning.as_ref().map(|tuning| tuning.read(&judged)).transpose();
        let tuning = tuning.map_err(|problems| wrong("tuning", problems))?;
        Ok(Self {
            servers: written.servers.iter().map(server).collect::<Result<_, _>>()?,
            policies: written.policies,
            traffics,
            budgets,
            seeds: written.seeds,
            application: application.map_err(|error: wattline_server::UnknownApplication| {
                wrong("application", error.to_string())
            })?,
            duration,
            warmup: span("warmup", &written.warmup)?,
            envelope: written.envelope,
            tuning,
        })
    }
}

/// Where a part of a text is: its line, and the key whose value it is or belongs to. Empty for the whole
/// text, such as where a key is missing.
fn place(text: &str, error: &toml::de::Error) -> String {
    // Of what is not there the parser says that it is not in the whole.
    let part = error.span().filter(|_| !error.message().starts_with("missing field"));
    let Some(before) = part.and_then(|part| text.get(..part.start)) else {
        return String::new();
    };
    let number = before.matches('\n').count();
    let key = |line: &str| {
        let (key, _) = line.split_once('=')?;
        let is_bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        Some(key.trim().to_owned()).filter(|key| !key.is_empty() && key.chars().all(is_bare))
    };
    let lines: Vec<&str> = text.lines().take(number + 1).collect();
    let key = lines.iter().rev().find_map(|line| key(line));
    let key = key.map_or(String::new(), |key| format!(": {key}"));
    format!(":{}{key}", number + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_leagues_are_right() {
        for plan in [Plan::quick().unwrap(), Plan::full().unwrap(), Plan::tuned().unwrap()] {
            assert!(plan.seeds.len() >= 3 && plan.traffics.len() >= 7);
            assert!(plan.policies.iter().any(|text| text.starts_with("wattline")));
        }
    }

    #[test]
    fn a_mistake_is_named_with_its_place() {
        let text = "servers = [\"westmere-2010\"]\npolicies = [\"napy\"]\ntraffics = [\"poisson:1Mpps\"]\n\
                    budgets = [\"100us\"]\nseeds = [1]\nduration = \"1s\"\nwarmup = \"0s\"\n";
        let error = Plan::parse("x.toml", text).unwrap_err().to_string();
        assert!(error.contains("x.toml: policies") && error.contains("napi"), "{error}");
        let error = Plan::parse("x.toml", &text.replace("[1]", "[]")).unwrap_err().to_string();
        assert!(error.contains("seeds: is empty"), "{error}");
        let error = Plan::parse("x.toml", "sedes = [1]").unwrap_err().to_string();
        assert!(error.contains("x.toml:1: sedes: unknown field"), "{error}");
        let error = Plan::parse("x.toml", &text.replace("[1]", "1")).unwrap_err().to_string();
        assert!(error.starts_with("league x.toml:5: seeds: invalid type"), "{error}");
        let lacks = text.replace("warmup = \"0s\"\n", "");
        let error = Plan::parse("x.toml", &lacks).unwrap_err().to_string();
        assert_eq!(error, "league x.toml: missing field `warmup`");
    }
}
