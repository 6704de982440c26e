//! Keys and values of one source, and the errors in them.

use super::error::{Mistake, did_you_mean};
use super::quantity::{self, RATE_FORMS};
use crate::source::{Links, Rate};
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;
use wattline_units::Span;

/// One `key = value` as it was written.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Field {
    pub(super) key: String,
    pub(super) value: String,
    /// Line number in a file, from 1.
    pub(super) line: Option<usize>,
}

/// Returns values by key with their types and ranges. Every error is recorded, and a default
/// replaces the value, so that the rest can still be checked.
pub(super) struct Fields<'a> {
    kind: &'a str,
    fields: &'a [Field],
    known: Vec<&'static str>,
    mistakes: &'a mut Vec<Mistake>,
}

impl<'a> Fields<'a> {
    pub(super) fn new(kind: &'a str, fields: &'a [Field], mistakes: &'a mut Vec<Mistake>) -> Self {
        let mut this = Self { kind, fields, known: Vec::new(), mistakes };
        for (index, field) in fields.iter().enumerate() {
            if fields[..index].iter().any(|earlier| earlier.key == field.key) {
                this.mistake(&field.key, field.line, "is given twice; once is allowed".into());
            }
        }
        this
    }

    pub(super) fn mistake(&mut self, key: &str, line: Option<usize>, problem: String) {
        let line = line.map_or_else(String::new, |line| format!("line {line}: "));
        self.mistakes.push(Mistake { place: format!("{line}{}: {key}", self.kind), problem });
    }

    /// Records an error in the value of a key.
    pub(super) fn wrong(&mut self, key: &str, problem: &str, allowed: &str) {
        let field = self.fields.iter().find(|field| field.key == key);
        let (value, line) = field.map_or(("", None), |f| (f.value.as_str(), f.line));
        self.mistake(key, line, format!("\"{value}\" {problem}; allowed: {allowed}"));
    }

    /// Text of an optional key.
    pub(super) fn text(&mut self, key: &'static str) -> Option<&'a str> {
        if !self.known.contains(&key) {
            self.known.push(key);
        }
        self.fields.iter().find(|field| field.key == key).map(|field| field.value.as_str())
    }

    /// Text of a required key.
    pub(super) fn required(&mut self, key: &'static str, allowed: &str) -> &'a str {
        let text = self.text(key);
        if text.is_none() {
            self.mistake(key, None, format!("is missing; needed is {allowed}"));
        }
        text.unwrap_or_default()
    }

    pub(super) fn number<T>(&mut self, key: &'static str, range: RangeInclusive<T>, default: T) -> T
    where
        T: FromStr + PartialOrd + Display + Copy,
    {
        let Some(text) = self.text(key) else { return default };
        match text.trim().parse() {
            Ok(value) if range.contains(&value) => value,
            parsed => {
                let problem = if parsed.is_ok() { "is out of range" } else { "is not a number" };
                self.wrong(key, problem, &format!("{} to {}", range.start(), range.end()));
                default
            }
        }
    }

    pub(super) fn span(
        &mut self,
        key: &'static str,
        range: RangeInclusive<Span>,
        default: Span,
    ) -> Span {
        let Some(text) = self.text(key) else { return default };
        let bounds = || {
            let [low, high] = [range.start(), range.end()].map(|span| span.as_seconds());
            format!("{}, from {low} s to {high} s", Span::FORM)
        };
        match text.parse::<Span>() {
            Ok(span) if range.contains(&span) => span,
            Ok(_) => {
                self.wrong(key, "is out of range", &bounds());
                default
            }
            Err(_) => {
                self.wrong(key, "is not a duration", &bounds());
                default
            }
        }
    }

    /// A rate, if given; the capacity of the links is checked elsewhere.
    pub(super) fn rate(&mut self, key: &'static str, links: &Links) -> Option<Rate> {
        let text = self.text(key)?;
        let rate = quantity::rate(text, links);
        if rate.is_none() {
            self.wrong(key, "is not a rate", RATE_FORMS);
        }
        rate
    }

    pub(super) fn flag(&mut self, key: &'static str, default: bool) -> bool {
        match self.text(key) {
            None => default,
            Some("true" | "yes") => true,
            Some("false" | "no") => false,
            Some(_) => {
                self.wrong(key, "is neither", "true, false");
                default
            }
        }
    }

    /// Reports the keys that were not read.
    pub(super) fn finish(mut self) {
        for field in self.fields {
            if self.known.contains(&field.key.as_str()) {
                continue;
            }
            let hint = did_you_mean(&field.key, self.known.iter().copied());
            let hint = hint.map_or_else(String::new, |hint| format!("{hint} "));
            let keys = self.known.join(", ");
            self.mistake(
                &field.key,
                field.line,
                format!("is not a key of {}; {hint}Its keys: {keys}", self.kind),
            );
        }
    }
}
