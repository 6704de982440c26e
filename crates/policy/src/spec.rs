//! The text form of a policy: `name`, `name+moderation` or `name+moderation:key=value,key=value`.

use crate::policies::moderated::{self, Choice};
use crate::registry::{self, FormerName};
use crate::{Kind, Parameters, PolicyInfo};
use serde::Serialize;
use std::fmt;
use thiserror::Error;

/// A policy chosen by name, with its parameters read and checked.
#[derive(Debug, Clone)]
pub struct PolicySpec {
    /// The policy.
    pub policy: &'static PolicyInfo,
    /// Its parameters, defaults filled in.
    pub parameters: Parameters,
    /// Moderation of the queues that replaces the policy's own.
    pub moderation: Option<Choice>,
    /// A former name by which the text called the policy: to be shown to whoever wrote it.
    pub former: Option<&'static FormerName>,
    /// The text, with the policy's present name.
    text: String,
}

impl PolicySpec {
    /// Returns why this policy works in a simulator alone, if it names a rule of drivers.
    pub fn needs_simulated_driver(&self) -> Option<String> {
        match self.moderation {
            Some(Choice::Driver(rule)) => Some(moderated::needs_simulated_driver(rule)),
            Some(Choice::Fixed(_)) | None => None,
        }
    }

    /// Reads the text form.
    ///
    /// # Errors
    /// All problems of the text at once, each with what would be allowed.
    pub fn parse(text: &str) -> Result<Self, SpecError> {
        let (former, present) =
            FormerName::replace_in(text).map_or((None, text.to_owned()), |(f, p)| (Some(f), p));
        let (names, settings) = present.split_once(':').unwrap_or((&present, ""));
        let (name, rule) = names.split_once('+').map_or((names, None), |(n, r)| (n, Some(r)));
        let fail = |problems| SpecError { text: text.to_owned(), problems };
        let policy = registry::find(name).ok_or_else(|| {
            fail(vec![SpecProblem::UnknownPolicy(name.into(), Known::policies(name))])
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
        Ok(Self { policy, parameters, moderation, former, text: present })
    }
}

impl fmt::Display for PolicySpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// A policy text that cannot be read, with all its problems.
#[derive(Debug, Clone, PartialEq, Eq, Error, Serialize)]
#[error("policy \"{text}\": {}", .problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct SpecError {
    /// The text.
    pub text: String,
    /// Problems of the text.
    pub problems: Vec<SpecProblem>,
}

/// One thing wrong with a policy text.
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
    /// The platform or the server model cannot support what is asked for.
    #[error("{0}")]
    Unsupported(String),
}

/// The names that exist, the nearest to a mistyped one first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Known {
    nearest: Option<String>,
    /// The former name of the nearest, where that is what is near.
    formerly: Option<String>,
    names: Vec<String>,
}

impl Known {
    /// Policies, with the present name of one whose former name is the nearest.
    fn policies(mistyped: &str) -> Self {
        let present = registry::POLICIES.iter().map(|policy| policy.name);
        let former = registry::FORMER_NAMES.iter().map(|former| former.name);
        let mut known = Self::new(mistyped, present.chain(former));
        known.names.truncate(registry::POLICIES.len());
        if let Some((former, present)) = known.nearest.as_deref().and_then(FormerName::replace_in) {
            (known.nearest, known.formerly) = (Some(present), Some(former.name.to_owned()));
        }
        known
    }

    fn new(mistyped: &str, names: impl Iterator<Item = &'static str>) -> Self {
        let names: Vec<String> = names.map(str::to_owned).collect();
        let closeness = |name: &String| strsim::jaro_winkler(mistyped, name);
        let nearest = names.iter().max_by(|a, b| closeness(a).total_cmp(&closeness(b)));
        let nearest = nearest.filter(|name| closeness(name) > 0.75).cloned();
        Self { nearest, formerly: None, names }
    }
}

impl fmt::Display for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(nearest) = &self.nearest {
            write!(f, ", did you mean \"{nearest}\"")?;
            if let Some(name) = &self.formerly {
                write!(f, " (formerly \"{name}\")")?;
            }
            f.write_str("?")?;
        }
        if self.names.is_empty() {
            return f.write_str(" (it has none)");
        }
        write!(f, " (known: {})", self.names.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_problem_is_reported_at_once() {
        let error = PolicySpec::parse("queue-length:q_hi=3,q_l=x,c_up=1,c_up=2,batch").unwrap_err();
        let text = error.to_string();
        for part in
            ["did you mean \"q_h\"", "q_l = \"x\"", "c_up\" is set twice", "\"batch\" is not"]
        {
            assert!(text.contains(part), "{part} missing in {text}");
        }
    }

    #[test]
    fn a_mistyped_policy_is_suggested() {
        let text = PolicySpec::parse("queue-lenght").unwrap_err().to_string();
        assert!(text.contains("did you mean \"queue-length\"?"), "{text}");
        let text = PolicySpec::parse("powersav").unwrap_err().to_string();
        let hint = "did you mean \"queue-length\" (formerly \"powersave\")? (known: poll, ";
        assert!(text.contains(hint), "{text}");
        let text = PolicySpec::parse("powersave-govenor").unwrap_err().to_string();
        assert!(text.contains("did you mean \"powersave-governor\"?"), "{text}");
        let text = PolicySpec::parse("xyzzy").unwrap_err().to_string();
        assert!(!text.contains("did you mean") && text.contains("ondemand"), "{text}");
    }

    #[test]
    fn former_name_is_read_as_the_present_one_with_a_note() {
        for rest in ["", "+84us", ":preset=efficient,q_h=16", "+dim:c_up=1"] {
            let former = PolicySpec::parse(&format!("powersave{rest}")).unwrap();
            let present = PolicySpec::parse(&format!("queue-length{rest}")).unwrap();
            assert_eq!(former.to_string(), present.to_string());
            assert_eq!(former.policy.name, "queue-length");
            assert_eq!(former.parameters, present.parameters);
            assert_eq!(former.moderation, present.moderation);
            assert_eq!(
                former.former.unwrap().to_string(),
                "policy \"powersave\" is called \"queue-length\" now; Linux's governor of that name is \
                 \"powersave-governor\""
            );
            assert_eq!(present.former, None);
        }
        assert_eq!(PolicySpec::parse("powersave-governor").unwrap().former, None);
        // What is wrong is named as it was written.
        let text = PolicySpec::parse("powersave:q_h=0").unwrap_err().to_string();
        assert!(text.starts_with("policy \"powersave:q_h=0\": q_h"), "{text}");
    }

    #[test]
    fn preset_gives_values_that_are_not_set() {
        let of = |text: &str| PolicySpec::parse(text).unwrap().parameters;
        let same = |text: &str, values: &str| {
            let (preset, written) = (of(text), of(values));
            for name in ["q_h", "q_l", "c_up", "c_down", "batch"] {
                assert_eq!(preset.count(name), written.count(name), "{text}: {name}");
            }
            assert_eq!(preset.word("read"), written.word("read"), "{text}");
        };
        same("queue-length:preset=efficient", "queue-length:c_up=7,c_down=10,read=after");
        same("queue-length:c_down=30,preset=efficient", "queue-length:c_up=7,c_down=30,read=after");
        same("queue-length:preset=latency", "queue-length");
        let text = PolicySpec::parse("queue-length:preset=fast").unwrap_err().to_string();
        assert!(text.contains("must be latency or efficient"), "{text}");
    }

    #[test]
    fn a_moderation_follows_a_plus() {
        let spec = PolicySpec::parse("ondemand+dim:sampling_rate=1ms").unwrap();
        assert_eq!(spec.moderation, Some(Choice::Driver(crate::moderation::RuleKind::Dim)));
        let text = PolicySpec::parse("ondemand+din").unwrap_err().to_string();
        assert!(text.contains("moderation = \"din\"") && text.contains("ixgbe"), "{text}");
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in ".{0,60}", name in "(powersave|queue-length|table|poll|ondemand[+]).{0,40}") {
            let _ = PolicySpec::parse(&text);
            let _ = PolicySpec::parse(&name);
        }
    }
}
