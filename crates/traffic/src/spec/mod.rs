//! Descriptions of traffic: a short text for the command line, the same keys in TOML.
//!
//! `poisson:5Mpps,size=64` is a kind, its first value, and further keys; several sources
//! joined by ` + ` are mixed. In TOML each source is a `[[source]]` with `kind` and the
//! same keys. `docs/reference/traffic.md` lists them all.

mod build;
mod capture_file;
mod error;
mod fields;
mod kinds;
mod quantity;
mod sizes;

pub use build::BuildError;
pub use error::{Mistake, SpecError};
pub use kinds::KINDS;

use crate::source::Rate;
use error::did_you_mean;
use fields::{Field, Fields};
use kinds::{Common, Kind};
use std::fmt;
use std::path::Path;
use std::str::FromStr;
use toml::de::{DeTable, DeValue};
use wattline_units::{BitsPerSecond, PacketsPerSecond, Span};

/// A checked description of traffic; nothing has been opened or drawn yet.
#[derive(Debug, Clone, PartialEq)]
pub struct Spec {
    text: String,
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq)]
struct Part {
    name: &'static str,
    kind: Kind,
    common: Common,
}

/// A source as written.
struct Written {
    kind: String,
    line: Option<usize>,
    fields: Vec<Field>,
}

impl Spec {
    /// Parses the short form, such as `poisson:5Mpps,size=64 + onoff:1Gbps,burst=100`.
    ///
    /// # Errors
    /// Returns every error, with what is allowed.
    pub fn parse(text: &str) -> Result<Self, SpecError> {
        let written = text.split(" + ").map(short_form).collect();
        Self::check(text.trim().to_owned(), written, Vec::new())
    }

    /// Parses the TOML form: one `[[source]]` for each source, with `kind` and its keys.
    ///
    /// # Errors
    /// Returns every error, with its line and what is allowed.
    pub fn from_toml(text: &str) -> Result<Self, SpecError> {
        let table = DeTable::parse(text).map_err(|error| SpecError {
            mistakes: vec![Mistake {
                place: format!("line {}", error.span().map_or(1, |span| line(text, span.start))),
                problem: error.message().to_owned(),
            }],
        })?;
        let (written, mistakes) = toml_form(text, table.get_ref());
        Self::check(text.trim().to_owned(), written, mistakes)
    }

    fn check(
        text: String,
        written: Vec<Written>,
        mut mistakes: Vec<Mistake>,
    ) -> Result<Self, SpecError> {
        let mut parts = Vec::new();
        let mut load = 0.0;
        for source in &written {
            let name = match kinds::canonical(&source.kind) {
                Ok(name) => name,
                Err(problem) => {
                    let line = source.line.map_or_else(String::new, |n| format!("line {n}: "));
                    let place = format!("{line}\"{}\"", source.kind);
                    mistakes.push(Mistake { place, problem });
                    continue;
                }
            };
            let mut fields = Fields::new(name, &source.fields, &mut mistakes);
            let (kind, common) = kinds::read(name, &mut fields);
            let part = Part { name, kind, common };
            if let Some(problem) = part.overload() {
                fields.wrong("rate", &problem, &part.most());
            } else if let Some((problem, allowed)) = part.rarity() {
                fields.wrong("rate", &problem, &allowed);
            } else {
                load += part.load().unwrap_or(0.0);
            }
            fields.finish();
            parts.push(part);
        }
        if written.is_empty() {
            let problem = "no source; at least one is needed".to_owned();
            mistakes.push(Mistake { place: "traffic".into(), problem });
        }
        if load > 1.0 + 1e-9 {
            let percent = 100.0 * load;
            let problem = format!(
                "the sources together load the links by {percent:.0} %; \
                                   allowed: at most 100 %"
            );
            mistakes.push(Mistake { place: "traffic".into(), problem });
        }
        if mistakes.is_empty() { Ok(Self { text, parts }) } else { Err(SpecError { mistakes }) }
    }

    /// Returns the captures whose packets or lengths the description uses, in its order.
    pub fn captures(&self) -> impl Iterator<Item = &Path> {
        self.parts.iter().flat_map(|part| {
            let replayed = match &part.kind {
                Kind::Capture { file, .. } => Some(file.path()),
                _ => None,
            };
            replayed.into_iter().chain(part.common.size.capture())
        })
    }

    /// Returns true if the description replays a capture's packets.
    pub fn replays(&self) -> bool {
        self.parts.iter().any(|part| matches!(part.kind, Kind::Capture { .. }))
    }

    /// Returns true if every seed gives the same packets: captures, and sources with their own
    /// seed.
    pub fn ignores_seeds(&self) -> bool {
        self.parts.iter().all(|Part { kind, common, .. }| {
            common.seed.is_some() || matches!(kind, Kind::Capture { copies: 1, .. })
        })
    }

    /// Mean packet rate; `None` if it depends on a capture.
    pub fn packet_rate(&self) -> Option<PacketsPerSecond> {
        let rates = self.parts.iter().map(|part| {
            let rate = part.kind.rate()?;
            let mean = match rate {
                Rate::Packets(rate) => return Some(rate),
                Rate::Bits(_) | Rate::Link { .. } => part.mean_bytes()?,
            };
            Some(rate.packets_per_second(mean))
        });
        rates.sum::<Option<f64>>().map(PacketsPerSecond)
    }

    /// Mean bit rate of the packets' lengths; `None` if it depends on a capture.
    pub fn bit_rate(&self) -> Option<BitsPerSecond> {
        let rates = self.parts.iter().map(|part| {
            let rate = part.kind.rate()?;
            let mean = match rate {
                Rate::Bits(rate) => return Some(rate),
                Rate::Packets(_) | Rate::Link { .. } => part.mean_bytes()?,
            };
            Some(rate.bits_per_second(mean))
        });
        rates.sum::<Option<f64>>().map(BitsPerSecond)
    }

    /// Number of ports on which packets arrive.
    pub fn ports(&self) -> u8 {
        self.parts.iter().map(|part| part.common.links.ports).max().unwrap_or(1)
    }

    /// Returns a remark if a run of this length covers a part of a day alone.
    pub fn part_of_day(&self, run: Span) -> Option<String> {
        self.parts.iter().find_map(|part| match part.kind {
            Kind::Day { duration, .. } if duration > run => Some(format!(
                "the run covers {:.2} % of the day of {} s, from midnight; the key `duration` of day \
                 makes it shorter",
                100.0 * run.as_seconds() / duration.as_seconds(),
                duration.as_seconds()
            )),
            _ => None,
        })
    }

    /// Remarks for readers of the results, such as which sources are stand-ins.
    pub fn notes(&self) -> Vec<String> {
        self.parts
            .iter()
            .filter(|part| part.name.ends_with("-standin"))
            .map(|part| {
                format!(
                    "{} is synthetic: the trace cannot be had; what the paper says of it is \
                     kept, sizes and flows are those usual for such a network",
                    part.name
                )
            })
            .collect()
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for Spec {
    type Err = SpecError;
    fn from_str(text: &str) -> Result<Self, SpecError> {
        Self::parse(text)
    }
}

impl Part {
    fn mean_bytes(&self) -> Option<f64> {
        match self.kind {
            Kind::Capture { .. } => None,
            _ => self.common.size.mean(),
        }
    }

    /// Share of the links' capacity that the mean rate takes; `None` if unknown.
    fn load(&self) -> Option<f64> {
        let mean = self.mean_bytes()?;
        let rate = self.kind.rate()?.packets_per_second(mean);
        Some(rate / self.common.links.packets_per_second(mean))
    }

    /// Description of the fault if hardly a packet would ever come, and the rates allowed.
    fn rarity(&self) -> Option<(String, String)> {
        let rate = self.kind.rate()?.packets_per_second(self.mean_bytes()?);
        let rate = rate / f64::from(self.common.trains.mean);
        let least = self.kind.least_rate();
        (0.0 < rate && rate < least).then(|| {
            let changes = kinds::MOST_CHANGES_PER_PACKET * least / rate;
            let problem = format!("lets the rate change {changes:.0} times for each packet");
            (problem, format!("0, or at least {least:.3e} pps with these times"))
        })
    }

    /// Description of the fault if the links cannot carry the rate.
    fn overload(&self) -> Option<String> {
        let load = self.load()?;
        if load > 1.0 + 1e-9 {
            return Some(format!("is {:.0} % of what the links carry", 100.0 * load));
        }
        if let Kind::Mmpp { ratio, high, low, .. } = self.kind {
            let (high, low) = (high.as_seconds(), low.as_seconds());
            let peak = load * ratio * (high + low) / (ratio * high + low);
            if peak > 1.0 + 1e-9 {
                return Some(format!(
                    "means a high rate of {:.0} % of what the links carry",
                    100.0 * peak
                ));
            }
        }
        if let Kind::Wave { shape, ratio, share, .. } = self.kind {
            let peak = load * crate::source::Wave::peak(shape, ratio, share);
            if peak > 1.0 + 1e-9 {
                return Some(format!(
                    "means a high rate of {:.0} % of what the links carry",
                    100.0 * peak
                ));
            }
        }
        None
    }

    /// Capacity of the links, for error messages.
    fn most(&self) -> String {
        let links = self.common.links;
        let gigabits = f64::from(links.ports) * links.bits_per_second / 1e9;
        let mean = self.mean_bytes().unwrap_or(64.0);
        let mpps = links.packets_per_second(mean) / 1e6;
        format!(
            "up to {gigabits} Gbps of link, which is {mpps:.2} Mpps of {mean:.0} bytes \
             ({} ports; keys ports, link, overhead)",
            links.ports
        )
    }
}

fn short_form(text: &str) -> Written {
    let (kind, rest) = text.trim().split_once(':').unwrap_or((text.trim(), ""));
    let first = kinds::canonical(kind)
        .ok()
        .and_then(|name| kinds::KINDS.iter().find(|(known, ..)| *known == name))
        .map_or("rate", |(_, first, _)| first);
    let field = |key: &str, value: &str| Field {
        key: key.trim().to_owned(),
        value: value.trim().to_owned(),
        line: None,
    };
    let fields = rest
        .split(',')
        .enumerate()
        .filter(|(_, part)| !part.trim().is_empty())
        .map(|(index, part)| match part.split_once('=') {
            Some((key, value)) => field(key, value),
            None if index == 0 => field(first, part),
            None => field(part, "true"),
        })
        .collect();
    Written { kind: kind.to_owned(), line: None, fields }
}

fn toml_form(text: &str, table: &DeTable<'_>) -> (Vec<Written>, Vec<Mistake>) {
    let mut written = Vec::new();
    let mut mistakes = Vec::new();
    let mut mistake = |at: usize, place: &str, problem: String| {
        mistakes.push(Mistake { place: format!("line {}: {place}", line(text, at)), problem });
    };
    for (key, value) in table {
        let name = key.get_ref().as_ref();
        let sources = value.get_ref().as_array().filter(|_| name == "source");
        let Some(sources) = sources else {
            let hint = did_you_mean(name, ["source"]).unwrap_or_default();
            let problem = format!("is not known; {hint} Allowed: [[source]] tables only");
            mistake(key.span().start, name, problem);
            continue;
        };
        for source in sources {
            let at = source.span().start;
            let Some(table) = source.get_ref().as_table() else {
                mistake(at, "source", "is not a table; allowed: [[source]] tables only".into());
                continue;
            };
            let mut part =
                Written { kind: String::new(), line: Some(line(text, at)), fields: Vec::new() };
            for (key, value) in table {
                let number = Some(line(text, key.span().start));
                match (key.get_ref().as_ref(), plain(value.get_ref())) {
                    ("kind", Some(kind)) => part.kind = kind,
                    (key, Some(value)) => {
                        part.fields.push(Field { key: key.to_owned(), value, line: number });
                    }
                    (name, None) => mistake(
                        key.span().start,
                        name,
                        "is a table or list; allowed: a string, a number, true or false".into(),
                    ),
                }
            }
            written.push(part);
        }
    }
    (written, mistakes)
}

/// A value as in the short form.
fn plain(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) => Some(number.as_str().to_owned()),
        DeValue::Float(number) => Some(number.as_str().to_owned()),
        DeValue::Boolean(flag) => Some(flag.to_string()),
        _ => None,
    }
}

fn line(text: &str, at: usize) -> usize {
    1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count()
}
