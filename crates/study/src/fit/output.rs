//! A fit as a model, and as a server file.

use super::{Estimate, Fit, interpolated};
use std::fmt::Write;
use wattline_server::bolla::{BollaModel, Chi, FrequencyPoint};
use wattline_units::{Hertz, PacketsPerSecond, Watts};

impl Fit {
    /// Returns the fitted model.
    pub fn model(&self, name: &str) -> BollaModel {
        let point = |fit: &super::FrequencyFit| FrequencyPoint {
            frequency: Hertz(fit.frequency_hertz),
            // Noise may give a negative power of an idle core.
            idle: Watts(fit.idle_watts.value.max(0.0)),
            active: Watts(fit.active_watts.value),
            max_rate: PacketsPerSecond(fit.max_rate_pps.value),
        };
        BollaModel {
            name: name.to_string(),
            base: Watts(self.base_watts.value),
            frequencies: self.frequencies.iter().map(point).collect(),
            gamma: self.gamma_by_cores(),
            chi: Chi::polynomial(self.chi.coefficients.clone()),
        }
    }

    /// Returns gamma for 1, 2, … cores, interpolated between measured numbers.
    fn gamma_by_cores(&self) -> Vec<f64> {
        let mut all = Vec::new();
        for pair in self.gamma.windows(2) {
            let [from, to] = pair else { continue };
            let step = (to.gamma.value - from.gamma.value) / (to.cores - from.cores) as f64;
            let between = (0..to.cores - from.cores).map(|n| from.gamma.value + step * n as f64);
            all.extend(between);
        }
        all.extend(self.gamma.last().map(|last| last.gamma.value));
        all
    }

    /// Returns the numbers of cores between measured ones, whose gamma is interpolated.
    pub(super) fn interpolated_cores(&self) -> Vec<usize> {
        let between = |pair: &[super::GammaFit]| pair[0].cores + 1..pair[1].cores;
        self.gamma.windows(2).flat_map(between).collect()
    }

    /// Returns a server file with this fit; `source` describes the measurement. `optimise` accepts
    /// this file; simulations need the additions of [`Self::complete`].
    pub fn to_toml(&self, name: &str, source: &str) -> String {
        let model = self.model(name);
        let list = |values: Vec<f64>| {
            let words: Vec<String> = values.iter().map(|value| format!("{value:.9}")).collect();
            format!("[{}]", words.join(", "))
        };
        let points = &model.frequencies;
        let mut text = String::new();
        let quoted = |words: &str| toml::Value::String(words.to_string()).to_string();
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "name = {}\ndescription = \"fitted to {} rows\"\nsource = {}\n\
             origin = \"fitted\"\n",
            quoted(name),
            self.rows,
            quoted(source),
        );
        let _ = writeln!(
            text,
            "# Intervals at {:.0} % confidence: see `wattline fit --json`.\n\
             # The rows do not say how cores are spread over chips: correct it here.\n\
             [processor]\nsockets = {{ value = 1, origin = \"assumed\" }}\n\
             cores_per_socket = {{ value = {}, origin = \"measured\" }}\n\
             frequencies_ghz = {{ values = {}, origin = \"measured\" }}\n\
             dvfs_domain = \"per-chip\"\n",
            self.confidence * 100.0,
            model.gamma.len(),
            list(points.iter().map(|point| point.frequency.gigahertz()).collect()),
        );
        // A list has one origin: the weakest of its values.
        let gamma = match self.interpolated_cores().as_slice() {
            [] => list(model.gamma.clone()),
            between => format!(
                "{{ values = {}, origin = \"assumed\", note = {} }}",
                list(model.gamma.clone()),
                quoted(&interpolated(between))
            ),
        };
        let base = match self.base_watts {
            Estimate { value: 0.0, low: Some(0.0), high: Some(0.0) } => {
                "{ value = 0, origin = \"assumed\", note = \"not distinguished from the cores' power\" }"
                    .to_owned()
            }
            Estimate { value, low, high } if low == Some(value) && high == low => {
                format!("{{ value = {value:.9}, origin = \"user\" }}")
            }
            Estimate { value, .. } => format!("{value:.9}"),
        };
        let _ = writeln!(
            text,
            "[bolla]\nbase_watts = {base}\nidle_watts = {}\nactive_watts = {}\nmax_rate_pps = {}\n\
             gamma = {gamma}\nchi_coefficients = {}",
            list(points.iter().map(|point| point.idle.0).collect()),
            list(points.iter().map(|point| point.active.0).collect()),
            list(points.iter().map(|point| point.max_rate.0).collect()),
            list(self.chi.coefficients.clone()),
        );
        text
    }
}

impl std::fmt::Display for Estimate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let digits = f.precision().unwrap_or(3);
        write!(f, "{:.digits$}", self.value)?;
        match (self.low, self.high) {
            (Some(low), Some(high)) => write!(f, " [{low:.digits$}, {high:.digits$}]"),
            _ => f.write_str(" [no interval]"),
        }
    }
}
