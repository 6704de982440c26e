//! The sources of latency of a governor, beside the targets.

use super::power::number;
use serde_json::Value;
use std::io::{self, Write};

/// A target, and the percentile that it is of.
struct Target {
    seconds: f64,
    percentile: &'static str,
    key: &'static str,
    from: &'static str,
}

impl Target {
    fn of(govern: &Value) -> Vec<Self> {
        [
            ("latency_target_seconds", "p99", "latency_p99_seconds", "latency_target"),
            ("policy_target_seconds", "p95", "latency_p95_seconds", "target of the policy"),
        ]
        .into_iter()
        .filter_map(|(target, percentile, key, from)| {
            Some(Self { seconds: govern[target].as_f64()?, percentile, key, from })
        })
        .collect()
    }

    /// Why a source misses it. TCP's round trips are no requests: the policy's target, which is of
    /// requests, is not held against them.
    fn missed(&self, source: &Value) -> Option<String> {
        let held = self.percentile == "p99" || source["origin"] != "round-trips";
        let over = held && source[self.key].as_f64()? > self.seconds;
        over.then(|| format!("MISSED: {} above {:.0} us", self.percentile, self.seconds * 1e6))
    }
}

/// Targets and sources; nothing where there are neither.
pub(super) fn print(govern: &Value, out: &mut impl Write) -> io::Result<()> {
    let targets = Target::of(govern);
    for (index, target) in targets.iter().enumerate() {
        let Target { seconds, percentile, from, .. } = target;
        let before = if index == 0 { "\n" } else { "" };
        writeln!(out, "{before}{percentile} at most {:.0} us ({from})", seconds * 1e6)?;
    }
    let sources = govern["latency"].as_array().filter(|sources| !sources.is_empty());
    let Some(sources) = sources else { return Ok(()) };
    writeln!(
        out,
        "\n{:<16} {:>10} {:>10} {:>12} {:>12} {:>12} {:>10}  state",
        "latency", "samples", "age (s)", "p50 (us)", "p95 (us)", "p99 (us)", "refused"
    )?;
    for source in sources {
        let micros = |key: &str| match source[key].as_f64() {
            Some(seconds) => format!("{:.0}", seconds * 1e6),
            None => "-".to_owned(),
        };
        let refused = source["refused"].as_object().into_iter().flatten();
        let refused: u64 = refused.map(|(_, count)| number(count)).sum();
        writeln!(
            out,
            "{:<16} {:>10} {:>10} {:>12} {:>12} {:>12} {refused:>10}  {}",
            source["name"].as_str().unwrap_or_default(),
            number(&source["samples"]),
            source["age_seconds"].as_f64().map_or("-".to_owned(), |age| format!("{age:.1}")),
            micros("latency_p50_seconds"),
            micros("latency_p95_seconds"),
            micros("latency_p99_seconds"),
            state(source, &targets),
        )?;
    }
    Ok(())
}

/// Silence first: the figures of a silent source are old.
fn state(source: &Value, targets: &[Target]) -> String {
    let problem = source["problem"].as_str();
    if source["silent"] != Value::Bool(false) {
        return problem.map_or("SILENT".to_owned(), |problem| format!("SILENT: {problem}"));
    }
    let missed = targets.iter().filter_map(|target| target.missed(source));
    missed.chain(problem.map(str::to_owned)).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn told(govern: &Value) -> String {
        let mut text = Vec::new();
        print(govern, &mut text).unwrap();
        String::from_utf8(text).unwrap()
    }

    fn source(name: &str, origin: &str, p95: f64, p99: f64) -> Value {
        json!({"name": name, "origin": origin, "silent": false, "samples": 900,
               "latency_p50_seconds": 1e-4, "latency_p95_seconds": p95,
               "latency_p99_seconds": p99})
    }

    #[test]
    fn a_missed_target_is_marked_beside_the_source_that_misses_it() {
        let mut silent = source("old", "clients", 0.05, 0.06);
        silent["silent"] = json!(true);
        let text = told(&json!({
            "latency_target_seconds": 5e-3, "policy_target_seconds": 3e-3,
            "latency": [source("shop", "clients", 0.05, 0.06), source("page", "clients", 4e-3, 5e-3),
                        source("good", "application", 3e-3, 4e-3),
                        source("tcp", "round-trips", 4e-3, 4e-3), silent],
        }));
        for line in
            ["p99 at most 5000 us (latency_target)", "p95 at most 3000 us (target of the policy)"]
        {
            assert!(text.lines().any(|told| told == line), "{line}: {text}");
        }
        let end = |name: &str| {
            let line = text.lines().find(|line| line.starts_with(name)).unwrap();
            let figures: Vec<&str> = line.split_whitespace().collect();
            (figures[4..6].join(" "), figures[7..].join(" "))
        };
        let both = "MISSED: p99 above 5000 us; MISSED: p95 above 3000 us";
        assert_eq!(end("shop"), ("50000 60000".into(), both.into()));
        assert_eq!(end("page"), ("4000 5000".into(), "MISSED: p95 above 3000 us".into()));
        assert_eq!(end("good"), ("3000 4000".into(), String::new()));
        assert_eq!(end("tcp"), ("4000 4000".into(), String::new()));
        assert_eq!(end("old").1, "SILENT");
    }

    #[test]
    fn nothing_is_marked_without_a_target_or_a_figure() {
        let none = json!({"latency": [source("shop", "clients", 0.05, 0.06)]});
        assert!(!told(&none).contains("MISSED") && !told(&none).contains("at most"));
        let mut unknown = source("shop", "clients", 0.0, 0.0);
        unknown["latency_p95_seconds"] = Value::Null;
        let text = told(&json!({"policy_target_seconds": 1e-3, "latency": [unknown]}));
        assert!(!text.contains("MISSED"), "{text}");
        assert_eq!(told(&json!({})), "");
    }
}
