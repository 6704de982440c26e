//! The text form of a policy: `name`, `name+moderation` or `name+moderation:key=value,key=value`.

use crate::moderated::{self, Choice};
use crate::{Kind, Parameters, PolicyInfo};
use serde::Serialize;
use std::fmt;
use thiserror::Error;

/// A policy chosen by name, with its parsed and checked parameters.
#[derive(Debug, Clone)]
pub struct PolicySpec {
    /// The policy.
    pub policy: &'static PolicyInfo,
    /// Parameters, including defaults.
    pub parameters: Parameters,
    /// Moderation of the queues that replaces the policy's own.
    pub moderation: Option<Choice>,
    /// Text form.
    text: String,
}

impl PolicySpec {
    /// Returns the reason why this policy works only in a simulator, if it names a rule of drivers.
    pub fn needs_simulated_driver(&self) -> Option<String> {
        match self.moderation {
            Some(Choice::Driver(rule)) => Some(moderated::needs_simulated_driver(rule)),
            Some(Choice::Fixed(_)) | None => None,
        }
    }

    /// Parses the text form of one of these policies.
    pub(crate) fn read(text: &str, policies: &'static [PolicyInfo]) -> Result<Self, SpecError> {
        let (names, settings) = text.split_once(':').unwrap_or((text, ""));
        let (name, rule) = names.split_once('+').map_or((names, None), |(n, r)| (n, Some(r)));
        let fail = |problems| SpecError { text: text.to_owned(), problems };
        let policy = policies.iter().find(|policy| policy.name == name).ok_or_else(|| {
            let names = policies.iter().map(|policy| policy.name);
            fail(vec![SpecProblem::UnknownPolicy(name.into(), Known::new(name, names))])
        })?;
        let mut problems = Vec::new();
        let moderation = rule.and_then(|rule| {
            let choice = Choice::parse(rule);
            if choice.is_none() {
                let allowed = moderated::ALLOWED.into();
                let value = rule.into();
                problems.push(SpecProblem::BadValue { parameter: "moderation", value, allowed });
            }
            choice
        });
        let mut given: Vec<(&str, &str)> = Vec::new();
        for setting in settings.split(',').filter(|setting| !setting.is_empty()) {
            match setting.split_once('=') {
                None => problems.push(SpecProblem::NoValue(setting.into())),
                Some((key, _)) if given.iter().any(|(known, _)| *known == key) => {
                    problems.push(SpecProblem::Twice(key.into()));
                }
                Some((key, value)) => given.push((key, value)),
            }
        }
        for (key, _) in &given {
            if !policy.parameters.iter().any(|parameter| parameter.name == *key) {
                let names = policy.parameters.iter().map(|parameter| parameter.name);
                let known = Known::new(key, names);
                problems.push(SpecProblem::UnknownParameter((*key).into(), known));
            }
        }
        let of = |settings: &[(&str, &'static str)], name: &str| {
            settings.iter().find(|(key, _)| *key == name).map(|(_, value)| *value)
        };
        let chosen =
            |name: &str| given.iter().find(|(key, _)| *key == name).map(|(_, value)| *value);
        let preset: Vec<_> = policy
            .parameters
            .iter()
            .filter_map(|parameter| match parameter.kind {
                Kind::Preset { presets } => {
                    let name = chosen(parameter.name).unwrap_or(parameter.default);
                    presets.iter().find(|preset| preset.name == name)
                }
                _ => None,
            })
            .collect();
        let mut values = Vec::new();
        for parameter in policy.parameters {
            let preset = || preset.iter().find_map(|preset| of(preset.values, parameter.name));
            let written = chosen(parameter.name).or_else(preset).unwrap_or(parameter.default);
            match parameter.kind.parse(written) {
                Ok(value) => values.push((parameter.name, value)),
                Err(allowed) => problems.push(SpecProblem::BadValue {
                    parameter: parameter.name,
                    value: written.into(),
                    allowed,
                }),
            }
        }
        if !problems.is_empty() {
            return Err(fail(problems));
        }
        let parameters = Parameters::new(values);
        Ok(Self { policy, parameters, moderation, text: text.to_owned() })
    }
}

impl fmt::Display for PolicySpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Error for a policy text that cannot be parsed, with all its problems.
#[derive(Debug, Clone, PartialEq, Eq, Error, Serialize)]
#[error("policy \"{text}\": {}", .problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct SpecError {
    /// The text.
    pub text: String,
    /// Problems of the text.
    pub problems: Vec<SpecProblem>,
}

/// One problem of a policy text.
#[derive(Debug, Clone, PartialEq, Eq, Error, Serialize)]
pub enum SpecProblem {
    /// No policy has this name.
    #[error("there is no policy \"{0}\"{1}")]
    UnknownPolicy(String, Known),
    /// The policy has no parameter of this name.
    #[error("there is no parameter \"{0}\"{1}")]
    UnknownParameter(String, Known),
    /// A setting is not of the form `key=value`.
    #[error("\"{0}\" is not of the form key=value")]
    NoValue(String),
    /// A parameter is set more than once.
    #[error("parameter \"{0}\" is set twice")]
    Twice(String),
    /// The value cannot be read or is out of range.
    #[error("{parameter} = \"{value}\": must be {allowed}")]
    BadValue {
        /// The parameter.
        parameter: &'static str,
        /// The value as written.
        value: String,
        /// Description of the allowed values.
        allowed: String,
    },
    /// The platform or the server model does not support the request.
    #[error("{0}")]
    Unsupported(String),
}

/// Known names, the nearest to a mistyped one first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Known {
    nearest: Option<String>,
    names: Vec<String>,
}

impl Known {
    fn new(mistyped: &str, names: impl Iterator<Item = &'static str>) -> Self {
        let names: Vec<String> = names.map(str::to_owned).collect();
        let closeness = |name: &String| strsim::jaro_winkler(mistyped, name);
        let nearest = names.iter().max_by(|a, b| closeness(a).total_cmp(&closeness(b)));
        let nearest = nearest.filter(|name| closeness(name) > 0.75).cloned();
        Self { nearest, names }
    }
}

impl fmt::Display for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(nearest) = &self.nearest {
            write!(f, ", did you mean \"{nearest}\"?")?;
        }
        if self.names.is_empty() {
            return f.write_str(" (it has none)");
        }
        write!(f, " (known: {})", self.names.join(", "))
    }
}
