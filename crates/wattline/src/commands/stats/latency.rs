//! The sources of latency of a governor, compared with the targets.

use std::io::{self, Write};
use wattline_status::{GovernStatus, Origin, SourceState};

/// A target, and its percentile.
struct Target {
    seconds: f64,
    percentile: &'static str,
    figure: fn(&SourceState) -> Option<f64>,
    from: &'static str,
}

impl Target {
    fn list(govern: &GovernStatus) -> Vec<Self> {
        let p99 = govern.latency_target_seconds.map(|seconds| Self {
            seconds,
            percentile: "p99",
            figure: |source| source.latency_p99_seconds,
            from: "latency_target",
        });
        let p95 = govern.policy_target_seconds.map(|seconds| Self {
            seconds,
            percentile: "p95",
            figure: |source| source.latency_p95_seconds,
            from: "target of the policy",
        });
        p99.into_iter().chain(p95).collect()
    }

    /// Returns the reason why a source misses the target. TCP round trips are not requests, so the
    /// policy's target, which applies to requests, is not compared with them.
    fn missed(&self, source: &SourceState) -> Option<String> {
        let held = self.percentile == "p99" || source.origin != Origin::RoundTrips;
        let over = held && (self.figure)(source)? > self.seconds;
        over.then(|| format!("MISSED: {} above {:.0} us", self.percentile, self.seconds * 1e6))
    }
}

/// Prints targets and sources; nothing if there are neither.
pub(super) fn print(govern: &GovernStatus, out: &mut impl Write) -> io::Result<()> {
    let targets = Target::list(govern);
    for (index, target) in targets.iter().enumerate() {
        let Target { seconds, percentile, from, .. } = target;
        let before = if index == 0 { "\n" } else { "" };
        writeln!(out, "{before}{percentile} at most {:.0} us ({from})", seconds * 1e6)?;
    }
    let sources = govern.latency.as_deref().unwrap_or_default();
    if sources.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "\n{:<16} {:>10} {:>10} {:>12} {:>12} {:>12} {:>10}  state",
        "latency", "samples", "age (s)", "p50 (us)", "p95 (us)", "p99 (us)", "refused"
    )?;
    for source in sources {
        let micros = |seconds: Option<f64>| {
            seconds.map_or("-".to_owned(), |seconds| format!("{:.0}", seconds * 1e6))
        };
        writeln!(
            out,
            "{:<16} {:>10} {:>10} {:>12} {:>12} {:>12} {:>10}  {}",
            source.name,
            source.samples,
            source.age_seconds.map_or("-".to_owned(), |age| format!("{age:.1}")),
            micros(source.latency_p50_seconds),
            micros(source.latency_p95_seconds),
            micros(source.latency_p99_seconds),
            source.refused.total(),
            state(source, &targets),
        )?;
    }
    Ok(())
}

/// Reports silence first: the figures of a silent source are old.
fn state(source: &SourceState, targets: &[Target]) -> String {
    let problem = source.problem.as_ref();
    if source.silent {
        return problem.map_or("SILENT".to_owned(), |problem| format!("SILENT: {problem}"));
    }
    let missed = targets.iter().filter_map(|target| target.missed(source));
    missed.chain(problem.cloned()).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(govern: &GovernStatus) -> String {
        let mut text = Vec::new();
        print(govern, &mut text).unwrap();
        String::from_utf8(text).unwrap()
    }

    fn source(name: &str, origin: Origin, p95: f64, p99: f64) -> SourceState {
        SourceState {
            name: name.to_owned(),
            origin,
            samples: 900,
            latency_p50_seconds: Some(1e-4),
            latency_p95_seconds: Some(p95),
            latency_p99_seconds: Some(p99),
            ..SourceState::default()
        }
    }

    #[test]
    fn missed_target_is_marked_next_to_its_source() {
        let silent = SourceState { silent: true, ..source("old", Origin::Clients, 0.05, 0.06) };
        let text = printed(&GovernStatus {
            latency_target_seconds: Some(5e-3),
            policy_target_seconds: Some(3e-3),
            latency: Some(vec![
                source("shop", Origin::Clients, 0.05, 0.06),
                source("page", Origin::Clients, 4e-3, 5e-3),
                source("good", Origin::Application, 3e-3, 4e-3),
                source("tcp", Origin::RoundTrips, 4e-3, 4e-3),
                silent,
            ]),
            ..GovernStatus::default()
        });
        for line in
            ["p99 at most 5000 us (latency_target)", "p95 at most 3000 us (target of the policy)"]
        {
            assert!(text.lines().any(|found| found == line), "{line}: {text}");
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
        let one = |source| Some(vec![source]);
        let latency = one(source("shop", Origin::Clients, 0.05, 0.06));
        let none = printed(&GovernStatus { latency, ..GovernStatus::default() });
        assert!(!none.contains("MISSED") && !none.contains("at most"));
        let unknown =
            SourceState { latency_p95_seconds: None, ..source("shop", Origin::Clients, 0.0, 0.0) };
        let text = printed(&GovernStatus {
            policy_target_seconds: Some(1e-3),
            latency: one(unknown),
            ..GovernStatus::default()
        });
        assert!(!text.contains("MISSED"), "{text}");
        assert_eq!(printed(&GovernStatus::default()), "");
    }
}
