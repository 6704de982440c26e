//! Reads the numbers of a section, each with its range, its origin and its note.

use super::{Figure, FigureValue, Origin, ProblemKind, Section};
use std::ops::RangeInclusive;
use toml::Spanned;
use toml::de::DeValue;

/// Keys of a figure written as a table.
const FIGURE_KEYS: [&str; 5] = ["value", "values", "missing", "origin", "note"];

impl<'d> Section<'_, 'd> {
    /// Reads a required number; `None` if it is absent, marked as missing, or invalid.
    pub(crate) fn number(&self, key: &'static str, allowed: RangeInclusive<f64>) -> Option<f64> {
        let value = self.required(key, &format!("a number, {}", range_words(&allowed)))?;
        match self.figure(key, value, &allowed)? {
            FigureValue::Number(number) => Some(number),
            _ => None,
        }
    }

    /// Reads a number with a default for files that omit it.
    pub(crate) fn number_or(
        &self,
        key: &'static str,
        default: f64,
        allowed: RangeInclusive<f64>,
    ) -> Option<f64> {
        if self.has(key) { self.number(key, allowed) } else { Some(default) }
    }

    /// Reads a required whole number.
    pub(crate) fn count(&self, key: &'static str, allowed: RangeInclusive<u32>) -> Option<u32> {
        let limits = f64::from(*allowed.start())..=f64::from(*allowed.end());
        let number = self.number(key, limits)?;
        if number.fract() == 0.0 {
            // In range, so the cast does not truncate.
            return Some(number as u32);
        }
        let line = self.find(key).map_or(self.line, |value| self.line_of(value));
        let expected = "a whole number".to_string();
        self.problem(line, key, Some(number.to_string()), ProblemKind::WrongType { expected });
        None
    }

    /// Reads an optional number.
    pub(crate) fn optional_number(
        &self,
        key: &'static str,
        allowed: RangeInclusive<f64>,
    ) -> Option<f64> {
        if self.has(key) { self.number(key, allowed) } else { None }
    }

    /// Reads a required list of numbers.
    pub(crate) fn numbers(
        &self,
        key: &'static str,
        allowed: RangeInclusive<f64>,
    ) -> Option<Vec<f64>> {
        let expected = format!("a list of numbers, each {}", range_words(&allowed));
        let value = self.required(key, &expected)?;
        match self.figure(key, value, &allowed)? {
            FigureValue::List(numbers) => Some(numbers),
            FigureValue::Number(_) => {
                self.wrong_type(key, value, &expected);
                None
            }
            FigureValue::Missing(_) => None,
        }
    }

    /// Reads a number or list with its origin, stores it as a figure and checks its range.
    pub(super) fn figure(
        &self,
        key: &'static str,
        value: &Spanned<DeValue<'d>>,
        allowed: &RangeInclusive<f64>,
    ) -> Option<FigureValue> {
        let mut origin = self.document.default_origin.get();
        let mut note = None;
        let figure = if let DeValue::Table(table) = value.get_ref() {
            let parts = self.child(table, key, value);
            parts.expect_keys(&FIGURE_KEYS);
            parts.report_unknown_keys();
            origin = parts.choice_or_origin(origin)?;
            if parts.has("note") {
                note = Some(parts.text("note")?);
            }
            match (parts.find("missing"), parts.find("value").or(parts.find("values"))) {
                (Some(_), None) => FigureValue::Missing(parts.text("missing")?),
                (None, Some(number)) => self.plain(key, number, allowed)?,
                _ => {
                    let expected = "a table with either `value`, `values` or `missing`";
                    self.wrong_type(key, value, expected);
                    return None;
                }
            }
        } else {
            self.plain(key, value, allowed)?
        };
        let line = self.line_of(value);
        let kept = Figure { field: self.field(key), value: figure.clone(), origin, note, line };
        self.document.figures.borrow_mut().push(kept);
        Some(figure)
    }

    fn choice_or_origin(&self, default: Origin) -> Option<Origin> {
        if self.has("origin") { self.choice("origin", &Origin::NAMES) } else { Some(default) }
    }

    fn plain(
        &self,
        key: &'static str,
        value: &Spanned<DeValue<'d>>,
        allowed: &RangeInclusive<f64>,
    ) -> Option<FigureValue> {
        if let DeValue::Array(array) = value.get_ref() {
            let numbers: Vec<Option<f64>> =
                array.iter().map(|item| self.one_number(key, item, allowed)).collect();
            return numbers.into_iter().collect::<Option<Vec<f64>>>().map(FigureValue::List);
        }
        self.one_number(key, value, allowed).map(FigureValue::Number)
    }

    fn one_number(
        &self,
        key: &'static str,
        value: &Spanned<DeValue<'d>>,
        allowed: &RangeInclusive<f64>,
    ) -> Option<f64> {
        let number = match value.get_ref() {
            DeValue::Integer(integer) => {
                i64::from_str_radix(integer.as_str(), integer.radix()).ok().map(|n| n as f64)
            }
            DeValue::Float(float) => float.as_str().parse().ok(),
            _ => None,
        };
        let Some(number) = number else {
            self.wrong_type(key, value, &format!("a number, {}", range_words(allowed)));
            return None;
        };
        if allowed.contains(&number) {
            return Some(number);
        }
        let kind = ProblemKind::OutOfRange { allowed: range_words(allowed) };
        self.problem(self.line_of(value), key, Some(number.to_string()), kind);
        None
    }
}

fn range_words(range: &RangeInclusive<f64>) -> String {
    format!("{} to {}", range.start(), range.end())
}
