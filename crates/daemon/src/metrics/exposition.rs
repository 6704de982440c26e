//! The text format of Prometheus, version 0.0.4 (prometheus.io, "Exposition formats").

use std::fmt::Write;

/// Type of a metric family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only increases while the daemon runs.
    Counter,
    /// Increases and decreases.
    Gauge,
    /// Counts of values by upper bounds: [`Exposition::histogram`].
    Histogram,
}

/// A text that grows by families.
#[derive(Debug, Default)]
pub struct Exposition {
    text: String,
    family: &'static str,
}

impl Exposition {
    /// Starts a family; the following samples belong to it.
    pub fn family(&mut self, name: &'static str, kind: Kind, help: &str) {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        self.family = name;
        // Writing into a string does not fail.
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// Writes a family of one sample without labels.
    pub fn single_family(&mut self, name: &'static str, kind: Kind, help: &str, value: f64) {
        self.family(name, kind, help);
        self.sample(&[], value);
    }

    /// Writes a family whose samples differ in one label; nothing without samples.
    pub fn labelled_family<L: ToString>(
        &mut self,
        name: &'static str,
        kind: Kind,
        (help, label): (&str, &str),
        samples: impl IntoIterator<Item = (L, f64)>,
    ) {
        let mut samples = samples.into_iter().peekable();
        if samples.peek().is_some() {
            self.family(name, kind, help);
        }
        samples.for_each(|(content, value)| self.sample(&[(label, &content.to_string())], value));
    }

    /// Writes a sample of the current family.
    pub fn sample(&mut self, labels: &[(&str, &str)], value: f64) {
        self.sample_of("", labels, value);
    }

    /// Writes the samples of a histogram: upper bounds with the cumulative counts, ascending, and
    /// the sum and number of all values.
    pub fn histogram(
        &mut self,
        buckets: impl IntoIterator<Item = (f64, u64)>,
        sum: f64,
        count: u64,
    ) {
        for (end, values) in buckets {
            self.sample_of("_bucket", &[("le", &end.to_string())], values as f64);
        }
        self.sample_of("_bucket", &[("le", "+Inf")], count as f64);
        self.sample_of("_sum", &[], sum);
        self.sample_of("_count", &[], count as f64);
    }

    fn sample_of(&mut self, suffix: &str, labels: &[(&str, &str)], value: f64) {
        self.text.push_str(self.family);
        self.text.push_str(suffix);
        for (number, (name, content)) in labels.iter().enumerate() {
            self.text.push(if number == 0 { '{' } else { ',' });
            let _ = write!(self.text, "{name}=\"");
            for character in content.chars() {
                match character {
                    '\\' => self.text.push_str("\\\\"),
                    '"' => self.text.push_str("\\\""),
                    '\n' => self.text.push_str("\\n"),
                    other => self.text.push(other),
                }
            }
            self.text.push('"');
        }
        if !labels.is_empty() {
            self.text.push('}');
        }
        let _ = writeln!(self.text, " {value}");
    }

    /// Returns the whole text.
    pub fn into_text(self) -> String {
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_samples_and_quoting() {
        let mut text = Exposition::default();
        text.family("wattline_drops_total", Kind::Counter, "Frames dropped.");
        text.sample(&[("reason", "no-route")], 3.0);
        text.family("wattline_uptime_seconds", Kind::Gauge, "Time.");
        text.sample(&[], 0.5);
        text.sample(&[("a", "x\"\\\n"), ("b", "")], 1e18);
        text.family("wattline_latency_seconds", Kind::Histogram, "Latency.");
        text.histogram([(1e-6, 0), (0.5, 2)], 1.25, 3);
        let expected = "# HELP wattline_drops_total Frames dropped.\n\
                        # TYPE wattline_drops_total counter\n\
                        wattline_drops_total{reason=\"no-route\"} 3\n\
                        # HELP wattline_uptime_seconds Time.\n\
                        # TYPE wattline_uptime_seconds gauge\n\
                        wattline_uptime_seconds 0.5\n\
                        wattline_uptime_seconds{a=\"x\\\"\\\\\\n\",b=\"\"} 1000000000000000000\n\
                        # HELP wattline_latency_seconds Latency.\n\
                        # TYPE wattline_latency_seconds histogram\n\
                        wattline_latency_seconds_bucket{le=\"0.000001\"} 0\n\
                        wattline_latency_seconds_bucket{le=\"0.5\"} 2\n\
                        wattline_latency_seconds_bucket{le=\"+Inf\"} 3\n\
                        wattline_latency_seconds_sum 1.25\n\
                        wattline_latency_seconds_count 3\n";
        assert_eq!(text.into_text(), expected);
    }
}
