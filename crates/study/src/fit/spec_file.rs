//! A server file from one published result.

use super::spec::{Load, SpecFit, SpecResult, SpecResults};
use super::{Estimate, FitError};
use toml::{Table, Value};
use wattline_server::MAX_CORES;
use wattline_server::library::{Kind, text_of};

/// Shipped server whose costs, card and exit latencies are assumed for the written server.
const REFERENCE: &str = "xeon-platinum-8470";
/// Sections taken from the file of the reference server.
const SECTIONS: [&str; 4] = ["capacity", "application", "wake_up", "nic"];
/// Limit on the processors of a server file.
const MOST_SOCKETS: usize = 64;
/// First lines of a written file.
const HEAD: &str = "\
# A server by a published result of SPECpower_ssj2008, written by `wattline fit --spec`. Published are its
# size and two powers under Java. Nobody measured how many packets it forwards: costs, capacity, card and
# idle states are assumed, and say so.
";
/// Lowest frequency in tenths of a GHz.
const LOWEST: u32 = 8;
/// Distance between two frequencies below the nominal one, in tenths of a GHz.
const STEP: usize = 2;

impl SpecResults {
    /// Returns a server file for a row: its size and the two powers as published, with the range of
    /// similar servers in the notes. Everything else is marked as assumed. `source` names the
    /// results.
    ///
    /// # Errors
    /// Fails if the row is missing or contradictory, or if the rows do not determine the fit.
    pub fn to_toml(&self, row: usize, name: &str, source: &str) -> Result<String, FitError> {
        let result = self.row(row).ok_or_else(|| {
            let why = self.refused.iter().find(|(refused, _)| *refused == row);
            FitError::Unidentified(match why {
                Some((_, why)) => format!("row {row} {why}"),
                None => format!(
                    "row {row} does not exist; allowed: 1 to {}; row 1 follows the head",
                    self.rows.len() + self.refused.len()
                ),
            })
        })?;
        if result.chips > MOST_SOCKETS {
            return Err(FitError::Unidentified(format!(
                "row {row} describes several machines with {} processors together; a server file \
                 has at most {MOST_SOCKETS}",
                result.chips
            )));
        }
        let rows: Vec<&SpecResult> = self.rows.iter().collect();
        let [idle, full] = Load::ALL.map(|load| SpecFit::new(&rows, load));
        let (idle, full) = (idle?.predict(result), full?.predict(result));
        let broken = || FitError::Unidentified(format!("{REFERENCE} cannot be read"));
        let reference = text_of(REFERENCE, Kind::Servers).ok_or_else(broken)?;
        let mut table: Table = toml::from_str(reference).map_err(|_| broken())?;
        table.retain(|key, _| SECTIONS.contains(&key));
        table.iter_mut().for_each(|(_, value)| assume(value));
        let queues = result.cores.min(MAX_CORES) as i64;
        if let Some(Value::Table(nic)) = table.get_mut("nic") {
            nic.insert(
                "queues_per_port".to_owned(),
                figure(Value::Integer(queues), "assumed", "one for each core, at most 128"),
            );
        }
        for (key, value) in [
            ("name", name.to_owned()),
            (
                "description",
                format!("{}: {}, sized by a published result", result.system, result.cpu),
            ),
            (
                "source",
                format!(
                    "result of SPECpower_ssj2008 published in {} ({source}, row {row})",
                    result.published
                ),
            ),
            ("origin", "assumed".to_owned()),
        ] {
            table.insert(key.to_owned(), Value::String(value));
        }
        table.insert("platform".to_owned(), Value::Table(platform(result)));
        table.insert("processor".to_owned(), Value::Table(processor(result)));
        table.insert("idle_state".to_owned(), Value::Array(idle_states(result)));
        table.insert("power".to_owned(), Value::Table(power(result, idle, full)));
        let text =
            toml::to_string(&table).map_err(|error| FitError::Unidentified(error.to_string()))?;
        Ok(format!("{HEAD}{text}"))
    }
}

/// Marks all figures of a value as assumed.
fn assume(value: &mut Value) {
    let Value::Table(table) = value else { return };
    if table.contains_key("value") || table.contains_key("values") {
        table.insert("origin".to_owned(), Value::String("assumed".to_owned()));
        table.insert("note".to_owned(), Value::String(format!("as {REFERENCE}")));
    } else {
        table.iter_mut().for_each(|(_, value)| assume(value));
    }
}

/// Makes a figure with its origin.
pub(super) fn figure(value: Value, origin: &str, note: &str) -> Value {
    let key = if value.is_array() { "values" } else { "value" };
    let words = [("origin", origin), ("note", note)];
    let words = words.map(|(key, word)| (key.to_owned(), Value::String(word.to_owned())));
    let table: Table = [(key.to_owned(), value)].into_iter().chain(words).collect();
    Value::Table(table)
}

fn platform(result: &SpecResult) -> Table {
    let gigahertz = Value::Float(result.processor_mhz / 1e3);
    [
        ("cpu".to_owned(), Value::String(result.cpu.clone())),
        ("clock_ghz".to_owned(), figure(gigahertz, "published", "nominal")),
        ("memory".to_owned(), Value::String(format!("{} GB", result.memory_gb))),
    ]
    .into_iter()
    .collect()
}

fn processor(result: &SpecResult) -> Table {
    let nominal = (result.processor_mhz / 100.0).round() as u32;
    let tenths = (LOWEST.min(nominal)..nominal).step_by(STEP).chain([nominal]);
    let frequencies = tenths.map(|tenths| Value::Float(f64::from(tenths) / 10.0)).collect();
    let counts = [
        ("sockets", result.chips, "chips"),
        ("cores_per_socket", result.cores / result.chips, "cores over chips"),
    ];
    let counts = counts.map(|(key, count, note)| {
        (key.to_owned(), figure(Value::Integer(count as i64), "published", note))
    });
    let others = [
        (
            "frequencies_ghz".to_owned(),
            figure(Value::Array(frequencies), "assumed", "up to the nominal frequency"),
        ),
        ("dvfs_domain".to_owned(), Value::String("per-core".to_owned())),
    ];
    counts.into_iter().chain(others).collect()
}

/// Returns the power of a core at full load and nominal frequency above that of an idle core.
fn core_watts(result: &SpecResult) -> f64 {
    (result.watts_full - result.watts_idle) / result.cores as f64
}

fn idle_states(result: &SpecResult) -> Vec<Value> {
    // Shares of an awake core's power, well below its power at the lowest frequency.
    let states = [("C1", 0.05, 1), ("C1E", 0.025, 2), ("C6", 0.0, 290)];
    let state = |(name, share, exit): (&str, f64, i64)| {
        let watts = Value::Float(share * core_watts(result));
        let table: Table = [
            ("name".to_owned(), Value::String(name.to_owned())),
            (
                "power_watts".to_owned(),
                figure(watts, "assumed", "a share of an awake core's power; zero in the deepest"),
            ),
            (
                "exit_latency_us".to_owned(),
                figure(Value::Integer(exit), "assumed", &format!("as {REFERENCE}")),
            ),
        ]
        .into_iter()
        .collect();
        Value::Table(table)
    };
    states.map(state).to_vec()
}

fn power(result: &SpecResult, idle: Estimate, full: Estimate) -> Table {
    let range = |estimate: Estimate| {
        let ends = [estimate.low, estimate.high].map(|end| end.unwrap_or(f64::NAN));
        format!(
            "servers alike draw {:.0} to {:.0} W ({:.0} % of them)",
            ends[0],
            ends[1],
            100.0 * super::CONFIDENCE
        )
    };
    let gigahertz = result.processor_mhz / 1e3;
    let zero = |note: &str| figure(Value::Integer(0), "assumed", note);
    let base: Table = [
        (
            "other_watts".to_owned(),
            figure(
                Value::Float(result.watts_idle),
                "published",
                &format!("the whole server at active idle; {}", range(idle)),
            ),
        ),
        ("cpu_packages_watts".to_owned(), zero("in other_watts")),
        ("memory_watts".to_owned(), zero("in other_watts")),
        (
            "nic_port_watts".to_owned(),
            figure(Value::Integer(10), "assumed", &format!("as {REFERENCE}")),
        ),
        ("board_watts".to_owned(), zero("in other_watts")),
        ("fans_watts".to_owned(), zero("in other_watts")),
    ]
    .into_iter()
    .collect();
    let per_gigahertz = figure(
        Value::Float(core_watts(result) / gigahertz),
        "derived",
        &format!(
            "({} - {}) W over {} cores and {gigahertz} GHz, under Java and with turbo, not under \
             packets; at full load {}",
            result.watts_full,
            result.watts_idle,
            result.cores,
            range(full)
        ),
    );
    [
        ("core_awake_watts".to_owned(), zero("a constant part is not known")),
        ("core_awake_watts_per_ghz".to_owned(), per_gigahertz),
        ("uncore_watts_per_ghz".to_owned(), zero("in the other two")),
        (
            "traffic_watts_per_gbps".to_owned(),
            figure(Value::Float(0.034), "assumed", &format!("as {REFERENCE}")),
        ),
        ("base".to_owned(), Value::Table(base)),
    ]
    .into_iter()
    .collect()
}
