//! Parameters of policies: by name, with default, range and source.

use serde::Serialize;
use std::fmt;
use wattline_units::Span;

/// Kind of value that a parameter takes, with its range (both ends included).
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Kind {
    /// A whole number.
    Count {
        /// Smallest value.
        min: u64,
        /// Largest value.
        max: u64,
    },
    /// A number.
    Number {
        /// Smallest value.
        min: f64,
        /// Largest value.
        max: f64,
    },
    /// A span of time, written like `10ms`.
    Duration {
        /// Shortest, in microseconds.
        min_micros: u64,
        /// Longest, in microseconds.
        max_micros: u64,
    },
    /// A word; the allowed words depend on the platform or are checked by the policy.
    Word,
    /// A word that stands for values of other parameters. Explicitly set values take precedence.
    Preset {
        /// The words.
        presets: &'static [Preset],
    },
}

/// Values of parameters under one word.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Preset {
    /// The word.
    pub name: &'static str,
    /// Parameters and their values, as one would write them.
    pub values: &'static [(&'static str, &'static str)],
}

/// One parameter of a policy.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Parameter {
    /// Name on the command line and in configurations.
    pub name: &'static str,
    /// Kind and range.
    #[serde(flatten)]
    pub kind: Kind,
    /// Default, as one would write it.
    pub default: &'static str,
    /// Its effect, with its unit.
    pub meaning: &'static str,
    /// Source of the default.
    pub source: &'static str,
}

/// A parsed value.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Value of [`Kind::Count`].
    Count(u64),
    /// Value of [`Kind::Number`].
    Number(f64),
    /// Value of [`Kind::Duration`].
    Duration(Span),
    /// Value of [`Kind::Word`].
    Word(String),
}

impl Kind {
    /// Reads a value and checks its range.
    ///
    /// # Errors
    /// Describes the allowed values.
    pub fn parse(&self, text: &str) -> Result<Value, String> {
        let value = match *self {
            Self::Count { min, max } => {
                let count = text.parse().ok().filter(|count| (min..=max).contains(count));
                count.map(Value::Count)
            }
            Self::Number { min, max } => {
                let number = text.parse().ok().filter(|number| (min..=max).contains(number));
                number.map(Value::Number)
            }
            Self::Duration { min_micros, max_micros } => {
                let range = Span::from_micros(min_micros)..=Span::from_micros(max_micros);
                text.parse().ok().filter(|span| range.contains(span)).map(Value::Duration)
            }
            Self::Word => (!text.is_empty()).then(|| Value::Word(text.to_owned())),
            Self::Preset { presets } => {
                let known = presets.iter().any(|preset| preset.name == text);
                known.then(|| Value::Word(text.to_owned()))
            }
        };
        value.ok_or_else(|| self.to_string())
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count { min, max } => write!(f, "a whole number, {min} to {max}"),
            Self::Number { min, max } => write!(f, "a number, {min} to {max}"),
            Self::Duration { min_micros, max_micros } => {
                write!(f, "a duration such as 10ms, {min_micros} us to {max_micros} us")
            }
            Self::Word => f.write_str("a word"),
            Self::Preset { presets } => {
                let names: Vec<_> = presets.iter().map(|preset| preset.name).collect();
                f.write_str(&names.join(" or "))
            }
        }
    }
}

/// Parameters of a policy with their values; unset ones have their defaults.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameters {
    values: Vec<(&'static str, Value)>,
}

impl Parameters {
    /// Takes the values in the order of the policy's list; `spec` provides them.
    pub(crate) fn new(values: Vec<(&'static str, Value)>) -> Self {
        Self { values }
    }

    fn value(&self, name: &str) -> Option<&Value> {
        self.values.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    // A policy asks only for parameters that it declares; the registry's test builds every policy,
    // so that a mistake shows there and not at a user's desk.

    /// Returns a count; 0 if the policy declares none with that name.
    pub fn count(&self, name: &str) -> u64 {
        match self.value(name) {
            Some(Value::Count(count)) => *count,
            other => missing(name, other),
        }
    }
    /// Returns a number.
    pub fn number(&self, name: &str) -> f64 {
        match self.value(name) {
            Some(Value::Number(number)) => *number,
            other => missing(name, other),
        }
    }
    /// Returns a span of time.
    pub fn span(&self, name: &str) -> Span {
        match self.value(name) {
            Some(Value::Duration(span)) => *span,
            other => missing(name, other),
        }
    }
    /// Returns a word.
    pub fn word(&self, name: &str) -> &str {
        match self.value(name) {
            Some(Value::Word(word)) => word,
            other => {
                missing::<u8>(name, other);
                ""
            }
        }
    }
}

fn missing<T: Default>(name: &str, found: Option<&Value>) -> T {
    debug_assert!(false, "policy reads parameter {name} that it does not declare: {found:?}");
    T::default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_need_a_unit_and_a_range() {
        let kind = Kind::Duration { min_micros: 1, max_micros: 1_000_000 };
        assert_eq!(kind.parse("10ms"), Ok(Value::Duration(Span::from_millis(10))));
        assert_eq!(kind.parse("1.5us"), Ok(Value::Duration(Span::from_nanos(1_500))));
        for bad in ["10", "ms", "-1ms", "2s", "0us", "nanms", ""] {
            assert!(kind.parse(bad).unwrap_err().contains("duration"), "{bad}");
        }
    }

    #[test]
    fn numbers_outside_the_range_name_the_range() {
        let kind = Kind::Number { min: 0.0, max: 1.0 };
        assert_eq!(kind.parse("NaN"), Err("a number, 0 to 1".into()));
        assert_eq!(Kind::Count { min: 1, max: 9 }.parse("0"), Err("a whole number, 1 to 9".into()));
    }
}
