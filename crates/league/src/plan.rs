//! The plan of a league: a built-in one, or one from a file.

use crate::error::LeagueError;
use crate::playable::Stage;
use crate::policy_text::problems_of;
use crate::problems::Problems;
use crate::span::above_zero;
use crate::tuning::{self, Judged, Tuning};
use crate::twice;
use serde::Deserialize;
use std::path::Path;
use wattline_server::{Application, Path as PacketPath, ServerFile, ServerModel};
use wattline_traffic::Spec;
use wattline_units::Span;

pub use crate::policy_text::policy;

/// A league in TOML.
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
    #[serde(default = "workers")]
    path: String,
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

fn workers() -> String {
    PacketPath::Workers.name().into()
}

/// A league, read and checked.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The servers.
    pub servers: Vec<ServerModel>,
    /// The policies as text; `{p99}` stands for the budget.
    pub policies: Vec<String>,
    /// The traffic specifications, as text and parsed.
    pub traffics: Vec<(String, Spec)>,
    /// The budgets.
    pub budgets: Vec<Span>,
    /// The seeds. All policies play the same seeds, so that differences are paired.
    pub seeds: Vec<u64>,
    /// The application that handles each packet.
    pub application: Application,
    /// Simulated time that is measured.
    pub duration: Span,
    /// Simulated time before the measurement.
    pub warmup: Span,
    /// True if lower bound, found schedule and best fixed point are computed, which takes most of
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

    /// A league of tuned rivals, for each kind of traffic and budget, without the lower bound. It
    /// takes an hour or more.
    ///
    /// # Errors
    /// Never for the built-in text; a test checks that.
    pub fn tuned() -> Result<Self, LeagueError> {
        Self::parse("tuned", include_str!("../leagues/tuned.toml"))
    }

    /// Returns the text of a built-in league: `quick`, `full` or `tuned`.
    pub fn built_in(name: &str) -> Option<&'static str> {
        match name {
            "quick" => Some(include_str!("../leagues/quick.toml")),
            "full" => Some(include_str!("../leagues/full.toml")),
            "tuned" => Some(include_str!("../leagues/tuned.toml")),
            _ => None,
        }
    }

    /// Reads a plan from a file.
    ///
    /// # Errors
    /// When the file cannot be read or [`Self::parse`] fails.
    pub fn load(path: &Path) -> Result<Self, LeagueError> {
        let text = wattline_files::read_text(path, wattline_files::MOST_TEXT)
            .map_err(|source| LeagueError::Io { path: path.display().to_string(), source })?;
        Self::parse(&path.display().to_string(), &text)
    }

    /// Parses the text of a file; `name` is used in messages.
    ///
    /// # Errors
    /// [`LeagueError::File`] gives the place of a syntax error; [`LeagueError::Plan`] lists all
    /// wrong fields, and their allowed values.
    pub fn parse(name: &str, text: &str) -> Result<Self, LeagueError> {
        let written: Written = toml::from_str(text).map_err(|error| LeagueError::File {
            place: format!("{name}{}", place(text, &error)),
            problem: error.message().lines().collect::<Vec<_>>().join(", "),
        })?;
        let mut problems = Problems::new(name);
        let read = written.read(&mut problems);
        problems.check()?;
        // A field that cannot be read has been noted as a problem.
        read.ok_or_else(|| LeagueError::Plan(vec![format!("{name}: cannot be read")]))
    }
}

impl Written {
    /// Reads the fields and notes their problems.
    fn read(self, problems: &mut Problems<'_>) -> Option<Plan> {
        for (field, empty) in [
            ("servers", self.servers.is_empty()),
            ("policies", self.policies.is_empty()),
            ("traffics", self.traffics.is_empty()),
            ("budgets", self.budgets.is_empty()),
            ("seeds", self.seeds.is_empty()),
        ] {
            if empty {
                problems.note(field, "is empty; at least one entry is required");
            }
        }
        let budget = |text: &String| Ok::<_, String>((text.clone(), above_zero(text)?));
        let budgets = problems.keep_all("budgets", self.budgets.iter().map(budget));
        let path = problems.keep("path", self.path.parse::<PacketPath>()).unwrap_or_default();
        if path != PacketPath::Workers && self.envelope {
            problems.note("envelope", "is worked out for path workers only; set it to false");
        }
        let servers = self.servers.iter().map(|name| server(name, path));
        let servers = problems.keep_all("servers", servers);
        let traffics =
            problems.keep_all("traffics", self.traffics.iter().map(|text| traffic(text)));
        let application = problems.keep("application", self.application.parse::<Application>());
        let duration = problems.keep("duration", above_zero(&self.duration));
        let warmup = problems.keep("warmup", self.warmup.parse::<Span>());
        let stage = Stage {
            servers: &servers,
            application,
            duration: duration.unwrap_or(Span::from_millis(1)),
            warmup: warmup.unwrap_or(Span::ZERO),
        };
        for text in &self.policies {
            for (_, budget) in &budgets {
                let wrong = match policy(text, *budget) {
                    Ok(spec) => stage.missing_features(&spec, &traffics),
                    Err(error) => vec![problems_of(&error).join("; ")],
                };
                for problem in wrong {
                    problems.note("policies", format_args!("\"{text}\": {problem}"));
                }
            }
        }
        stage.traffics("traffics", &traffics, problems);
        stage.budgets(&budgets, &traffics, problems);
        twice::texts("servers", &servers, (same_name, "servers of one name"), problems);
        twice::policies(&self.policies, &budgets, problems);
        twice::texts("traffics", &traffics, (Spec::eq, "the same"), problems);
        twice::texts("budgets", &budgets, (same_nanos, "the same span of time"), problems);
        twice::values("seeds", &self.seeds, problems);
        let budgets: Vec<Span> = budgets.into_iter().map(|(_, budget)| budget).collect();
        let judged = Judged {
            seeds: &self.seeds,
            duration,
            traffics: &traffics,
            budgets: &budgets,
            stage: &stage,
        };
        let tuning = match &self.tuning {
            None => None,
            Some(tuning) => Some(tuning.read(&judged, problems)?),
        };
        Some(Plan {
            servers: servers.into_iter().map(|(_, server)| server).collect(),
            policies: self.policies,
            traffics,
            budgets,
            seeds: self.seeds,
            application: application?,
            duration: duration?,
            warmup: warmup?,
            envelope: self.envelope,
            tuning,
        })
    }
}

fn server(name: &str, path: PacketPath) -> Result<(String, ServerModel), String> {
    let file = ServerFile::load(name).map_err(|error| error.to_string())?;
    let model = file.model().map_err(|error| error.to_string())?;
    Ok((name.to_owned(), model.on_path(path).map_err(|error| error.to_string())?))
}

fn traffic(text: &str) -> Result<(String, Spec), String> {
    let spec = Spec::parse(text).map_err(|error| format!("{text}: {error}"))?;
    Ok((text.to_owned(), spec))
}

/// Results are identified by the name of the server.
fn same_name(a: &ServerModel, b: &ServerModel) -> bool {
    a.name == b.name
}

/// Results are identified by the nanoseconds of the budget.
fn same_nanos(a: &Span, b: &Span) -> bool {
    a.as_picos() / 1_000 == b.as_picos() / 1_000
}

/// Returns the place of a part of a text: its line, and the key whose value it is or belongs to.
/// Empty for the whole text, such as for a missing key.
fn place(text: &str, error: &toml::de::Error) -> String {
    // For a missing field the parser gives the whole text as the place.
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
    fn built_in_leagues_are_valid() {
        for plan in [Plan::quick().unwrap(), Plan::full().unwrap(), Plan::tuned().unwrap()] {
            assert!(plan.seeds.len() >= 3 && plan.traffics.len() >= 7);
            assert!(plan.policies.iter().any(|text| text.starts_with("wattline")));
        }
    }

    #[test]
    fn path_applies_to_each_server_and_refuses_policies_of_workers() {
        let text = include_str!("../leagues/kernel-path.toml");
        let plan = Plan::parse("kernel-path.toml", text).unwrap();
        let names: Vec<&str> = plan.servers.iter().map(|server| server.name.as_str()).collect();
        assert_eq!(names, ["westmere-2010+kernel", "xeon-platinum-8470+kernel"]);
        let wrong = text.replace("\"schedutil\"", "\"poll\"");
        let error = Plan::parse("x.toml", &wrong).unwrap_err().to_string();
        assert!(error.contains("policies") && error.contains("path workers"), "{error}");
        let error = Plan::parse("x.toml", &text.replace("= false", "= true")).unwrap_err();
        assert!(error.to_string().contains("envelope: "), "{error}");
        let wrong = text.replace("\"kernel\"", "\"bridge\"");
        let error = Plan::parse("x.toml", &wrong).unwrap_err().to_string();
        assert!(error.contains("path: ") && error.contains("workers, xdp, kernel"), "{error}");
    }

    #[test]
    fn error_names_its_place() {
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
