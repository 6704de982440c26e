//! Completes a fit to a server that can be simulated. The rows give the cost of a packet, the
//! wake-up and the power; other figures are borrowed from a model, and marked.

use super::spec_file::figure;
use super::{Fit, FitError, USELESS, linear};
use nalgebra::{DMatrix, DVector};
use toml::{Table, Value};
use wattline_server::library::{Kind, read};
use wattline_server::{Application, MAX_CORES, ServerFile, ServerModel};

/// First lines of a written file.
const HEAD: &str =
    "# Fitted to rows; figures of origin \"borrowed\" are those of the model in their notes.\n";
/// Sections whose figures are borrowed, if the model has them.
const SECTIONS: [&str; 7] =
    ["idle_state", "capacity", "application", "wake_up", "path", "power", "nic"];
/// First and last step of the search for the wake-up, in seconds.
const STEPS: [f64; 2] = [4e-6, 1e-9];
/// Limit of each part of a wake-up, in seconds.
const MOST_WORK: f64 = 1e-3;
/// Note of a figure that the rows cannot distinguish from others.
const INDISTINGUISHABLE: &str = "the rows do not distinguish it from the other figures";

/// Model from which figures are borrowed.
#[derive(Debug, Clone)]
pub struct Lender {
    name: String,
    sections: Table,
    model: ServerModel,
}

/// A server file that is complete for simulation.
#[derive(Debug, Clone)]
pub struct Completed {
    /// Text of the file.
    pub toml: String,
    /// Fields of the borrowed figures.
    pub borrowed: Vec<String>,
    /// Mean error of the power of the rows, as a fraction of the measured power.
    pub error_mean: f64,
    /// Largest error of the power of the rows.
    pub error_largest: f64,
}

impl Lender {
    /// Loads a shipped model by name, or a file by its path.
    ///
    /// # Errors
    /// Fails when the file cannot be read, is invalid, or lacks figures itself.
    pub fn load(name_or_path: &str) -> Result<Self, wattline_server::LoadError> {
        let text = read(name_or_path, Kind::Servers)?;
        let file = ServerFile::parse(name_or_path, &text)?;
        let model = file.model()?.clone();
        // A stricter parser has accepted the text above.
        let sections = toml::from_str(&text).unwrap_or_default();
        Ok(Self { name: file.name, sections, model })
    }

    /// Marks the figures below a value as borrowed, multiplied by `factor` of their key.
    fn mark(&self, key: &str, value: &mut Value, factor: &dyn Fn(&str) -> f64) {
        let scale = |number: &mut Value| match number {
            // An integer that is not scaled remains one.
            Value::Integer(whole) if factor(key) != 1.0 => {
                *number = Value::Float(*whole as f64 * factor(key));
            }
            Value::Float(real) => *real *= factor(key),
            _ => {}
        };
        let note = if factor(key) == 1.0 {
            format!("as {}", self.name)
        } else {
            format!("as {}, in proportion", self.name)
        };
        match value {
            Value::Table(table) if table.contains_key("value") || table.contains_key("values") => {
                table.insert("origin".to_owned(), Value::String("borrowed".to_owned()));
                table.insert("note".to_owned(), Value::String(note));
                table.get_mut("value").into_iter().for_each(scale);
            }
            Value::Table(table) => {
                table.iter_mut().for_each(|(key, value)| self.mark(key, value, factor));
            }
            Value::Array(array) if array.iter().all(Value::is_table) => {
                array.iter_mut().for_each(|value| self.mark(key, value, factor));
            }
            Value::Integer(_) | Value::Float(_) | Value::Array(_) => {
                scale(value);
                *value = figure(value.clone(), "borrowed", &note);
            }
            _ => {}
        }
    }
}

/// Parameters of a server determined by rows; `None` for a parameter that they cannot distinguish
/// from others.
struct Structure {
    /// Cycles, stall and contention of a packet; the latter two in seconds.
    packet: [Option<f64>; 3],
    /// Fixed seconds, cycles and delivery in seconds of a wake-up.
    wake_up: [f64; 3],
    /// Watts: base, an awake core per GHz, a napping core, an awake core's constant part, uncore
    /// per GHz.
    power: [Option<f64>; 5],
    /// Error of each row's power, as a fraction of it.
    errors: Vec<f64>,
}

impl Fit {
    /// Completes the fit to a server file for simulation. `application` handled packets of `bytes`
    /// bytes.
    ///
    /// # Errors
    /// Fails when no such server fits the rows, or the lender has no cost of the application.
    pub fn complete(
        &self,
        name: &str,
        source: &str,
        lender: &Lender,
        (application, bytes): (Application, u32),
    ) -> Result<Completed, FitError> {
        let unidentified = |why: String| FitError::Unidentified(why);
        let lent = lender.model.packet_cost(application, bytes).filter(|cost| cost.cycles > 0.0);
        let lent = lent.ok_or_else(|| {
            unidentified(format!("--like {}: it has no cycles of {application}", lender.name))
        })?;
        let found = self.structure(&lender.model, bytes)?;
        let error_mean = found.errors.iter().sum::<f64>() / found.errors.len().max(1) as f64;
        if error_mean.is_nan() || error_mean > USELESS {
            return Err(unidentified(format!(
                "--like {}: power of the rows is missed by {:.0} % on average (at most {:.0} %): \
                 without --like, the file has only Bolla's model",
                lender.name,
                100.0 * error_mean,
                100.0 * USELESS
            )));
        }
        let text = self.to_toml(name, source);
        let mut file: Table =
            toml::from_str(&text).map_err(|error| unidentified(error.to_string()))?;
        let ratio = found.packet[0].unwrap_or(lent.cycles) / lent.cycles;
        self.borrow(&mut file, lender, (application, ratio), &found)?;
        let text = toml::to_string(&file).map_err(|error| unidentified(error.to_string()))?;
        let toml = format!("{HEAD}{text}");
        let read = ServerFile::parse("the completed file", &toml)
            .map_err(|error| unidentified(format!("--like {}: {error}", lender.name)))?;
        let of_lender =
            |it: &&wattline_server::Figure| it.origin == wattline_server::Origin::Borrowed;
        let borrowed = read.figures.iter().filter(of_lender).map(|it| it.field.clone()).collect();
        let error_largest = found.errors.iter().copied().fold(0.0, f64::max);
        Ok(Completed { toml, borrowed, error_mean, error_largest })
    }

    /// Adds the lender's sections to a file, with the fitted figures in place.
    fn borrow(
        &self,
        file: &mut Table,
        lender: &Lender,
        (application, ratio): (Application, f64),
        found: &Structure,
    ) -> Result<(), FitError> {
        let model = &lender.model;
        let [base, per_gigahertz, nap, constant, _] = found.power.map(|it| it.unwrap_or(0.0));
        let slowest = self.frequencies.first().map_or(0.0, |point| point.frequency_hertz * 1e-9);
        let nap = nap.min(constant + per_gigahertz * slowest);
        if model.idle_states.len() < 2 && nap > 0.0 {
            return Err(FitError::Unidentified(format!(
                "--like {}: it has a single idle state, and the rows distinguish napping from parked \
                 cores; take a model with several",
                lender.name
            )));
        }
        let lent_nap = model.idle_states.first().map_or(0.0, |state| state.power.0);
        let nap_ratio = if lent_nap > 0.0 { nap / lent_nap } else { 0.0 };
        let factor = |key: &str| match key {
            "cycles_per_packet" | "cycles_per_byte" => ratio,
            "power_watts" => nap_ratio,
            _ => 1.0,
        };
        for (key, value) in &lender.sections {
            if SECTIONS.contains(&key.as_str()) {
                let mut value = value.clone();
                lender.mark(key, &mut value, &factor);
                file.insert(key.clone(), value);
            }
        }
        let fitted = |value: Option<f64>, scale: f64| match value {
            Some(value) => Value::Float(value * scale),
            None => figure(Value::Integer(0), "assumed", INDISTINGUISHABLE),
        };
        let section = |file: &mut Table, path: &[&str], values: Vec<(&str, Value)>| {
            let mut table = Some(file);
            for key in path {
                table = table.and_then(|table| table.get_mut(*key)?.as_table_mut());
            }
            if let Some(table) = table {
                table.extend(values.into_iter().map(|(key, value)| (key.to_owned(), value)));
            }
        };
        let [_, stall, contention] = found.packet;
        section(
            file,
            &["capacity"],
            vec![
                ("stall_ns_per_packet", fitted(stall, 1e9)),
                ("contention_ns_per_core", fitted(contention, 1e9)),
            ],
        );
        let [fixed, cycles, delivery] = found.wake_up;
        section(
            file,
            &["wake_up"],
            vec![
                ("fixed_us", Value::Float(fixed * 1e6)),
                ("cycles", Value::Float(cycles)),
                ("delivery_us", Value::Float(delivery * 1e6)),
            ],
        );
        section(
            file,
            &["power"],
            vec![
                ("core_awake_watts", fitted(found.power[3], 1.0)),
                ("core_awake_watts_per_ghz", fitted(found.power[1], 1.0)),
                ("uncore_watts_per_ghz", fitted(found.power[4], 1.0)),
            ],
        );
        let within = || figure(Value::Integer(0), "assumed", "in other_watts");
        let parts = ["cpu_packages", "memory", "nic_port", "board", "fans"];
        let mut parts: Vec<(String, Value)> =
            parts.map(|part| (format!("{part}_watts"), within())).to_vec();
        parts.push(("other_watts".to_owned(), Value::Float(base)));
        let parts = parts.iter().map(|(key, value)| (key.as_str(), value.clone())).collect();
        section(file, &["power", "base"], parts);
        if let Some(Value::Array(states)) = file.get_mut("idle_state")
            && let Some(Value::Table(lightest)) = states.first_mut()
        {
            let note = "a core that naps";
            lightest.insert("power_watts".to_owned(), figure(Value::Float(nap), "fitted", note));
        }
        if let Some(Value::Table(applications)) = file.get_mut("application") {
            for (name, cost) in applications.iter_mut() {
                let Value::Table(cost) = cost else { continue };
                // The stall of the rows is the server's.
                cost.remove("stall_ns_per_packet");
                if name == application.name()
                    && let Some(Value::Table(cycles)) = cost.get_mut("cycles_per_packet")
                {
                    cycles.remove("note");
                    cycles.insert("origin".to_owned(), Value::String("fitted".to_owned()));
                }
            }
        }
        let cores = self.gamma.last().map_or(1, |last| last.cores);
        let sockets = model.processor.sockets;
        let (sockets, note) = if cores.is_multiple_of(sockets) {
            (sockets, format!("as {}, as is dvfs_domain", lender.name))
        } else {
            (1, "its cores are not spread evenly over the model's chips".to_owned())
        };
        let count = |value: usize, origin: &str, note: &str| {
            figure(Value::Integer(value as i64), origin, note)
        };
        let origin = if sockets == 1 { "assumed" } else { "borrowed" };
        let mut processor = vec![
            ("sockets", count(sockets, origin, &note)),
            ("cores_per_socket", count(cores / sockets, "derived", "measured cores over chips")),
        ];
        if let Some(Value::Table(lent)) = lender.sections.get("processor") {
            for key in ["dvfs_domain", "cluster_cores", "frequency_transition_us"] {
                if let Some(value) = lent.get(key) {
                    let mut value = value.clone();
                    lender.mark(key, &mut value, &|_| 1.0);
                    processor.push((key, value));
                }
            }
        }
        section(file, &["processor"], processor);
        let queues = count(cores.min(MAX_CORES), "assumed", "one for each measured core");
        section(file, &["nic"], vec![("queues_per_port", queues)]);
        Ok(())
    }

    /// Fits the parameters of a server to the rows. The power of traffic is the lender's.
    fn structure(&self, lender: &ServerModel, bytes: u32) -> Result<Structure, FitError> {
        let unidentified = || {
            FitError::Unidentified(
                "--like: the rows do not determine the cost of a packet and the power; measure every \
                 frequency without load, in between and saturated"
                    .to_owned(),
            )
        };
        let saturated: Vec<_> = self.residuals.iter().filter(|row| row.load >= 1.0).collect();
        // Units are microseconds and GHz, so that all columns have similar size; each row counts by
        // its relative error.
        let columns = |row: &&super::Residual| {
            let weight = row.throughput_pps * 1e-6 / row.cores as f64;
            let gigahertz = row.frequency_hertz * 1e-9;
            [weight / gigahertz, weight * (row.cores as f64 - 1.0), weight]
        };
        let rows: Vec<[f64; 3]> = saturated.iter().map(columns).collect();
        let (packet, _) = not_negative(&rows, &vec![1.0; rows.len()]).ok_or_else(unidentified)?;
        let [cycles, contention, stall] = packet;
        let cycles = cycles.map(|it| it * 1e3);
        let [contention, stall] = [contention, stall].map(|it| it.map(|it| it * 1e-6));
        let service = |row: &super::Residual| {
            let [cycles, contention, stall] =
                [cycles, contention, stall].map(|it| it.unwrap_or(0.0));
            cycles / row.frequency_hertz + contention * (row.cores as f64 - 1.0) + stall
        };
        let traffic = lender.power.traffic_per_gigabit.0 * f64::from(bytes) * 8e-9;
        let mean_hertz = self.frequencies.iter().map(|it| it.frequency_hertz).sum::<f64>()
            / self.frequencies.len().max(1) as f64;
        let power = |[fixed, at_mean, delivery]: [f64; 3]| {
            let parts = self.residuals.iter().map(|row| {
                let cores = row.cores as f64;
                let rate = row.throughput_pps / cores;
                let work = fixed + at_mean * mean_hertz / row.frequency_hertz;
                let awake = if row.load >= 1.0 {
                    1.0
                } else {
                    awake_share(rate, service(row), work, delivery)
                };
                let (gigahertz, weight) = (row.frequency_hertz * 1e-9, 1.0 / row.measured_watts);
                let any_awake = 1.0 - (1.0 - awake).powi(row.cores as i32);
                [
                    1.0,
                    cores * awake * gigahertz,
                    cores * (1.0 - awake),
                    cores * awake,
                    any_awake * gigahertz,
                ]
                .map(|part| part * weight)
            });
            let rows: Vec<[f64; 5]> = parts.collect();
            let target = self
                .residuals
                .iter()
                .map(|row| 1.0 - traffic * row.throughput_pps / row.measured_watts);
            let target: Vec<f64> = target.collect();
            not_negative(&rows, &target)
        };
        let squares = |found: &Option<([Option<f64>; 5], Vec<f64>)>| {
            found
                .as_ref()
                .map_or(f64::INFINITY, |(_, errors)| errors.iter().map(|it| it * it).sum())
        };
        // A compass search along each axis and between two: the error is smooth.
        let mut at = [0.0, 0.0, lender.wake_up.delivery_seconds.min(MOST_WORK)];
        let mut best = power(at);
        let mut step = STEPS[0];
        while step > STEPS[1] {
            let mut improved = false;
            for (up, down) in (0..3).flat_map(|up| (0..4).map(move |down| (up, down))) {
                for by in [step, -step] {
                    let mut to = at;
                    to[up] += by;
                    if down < 3 && down != up {
                        to[down] -= by;
                    }
                    if to.iter().all(|it| (0.0..=MOST_WORK).contains(it)) {
                        let found = power(to);
                        if squares(&found) < squares(&best) {
                            (at, best, improved) = (to, found, true);
                        }
                    }
                }
            }
            if !improved {
                step /= 2.0;
            }
        }
        let (power, errors) = best.ok_or_else(unidentified)?;
        Ok(Structure {
            packet: [cycles, stall, contention],
            wake_up: [at[0], at[1] * mean_hertz, at[2]],
            power,
            errors: errors.into_iter().map(f64::abs).collect(),
        })
    }
}

/// Returns the share of time awake of a core that sleeps when its queue is empty
/// ([`ServerModel::awake_fraction`]).
fn awake_share(rate: f64, service: f64, work: f64, delivery: f64) -> f64 {
    let utilisation = rate * service;
    if rate <= 0.0 {
        return 0.0;
    }
    if utilisation >= 1.0 {
        return 1.0;
    }
    let awake = work + (1.0 + rate * (delivery + work)) * service / (1.0 - utilisation);
    awake / (1.0 / rate + delivery + awake)
}

/// Solves for the least squared error with no coefficient below zero, and returns the remaining
/// error of each row. A column that depends on earlier columns has no coefficient.
fn not_negative<const N: usize>(
    rows: &[[f64; N]],
    target: &[f64],
) -> Option<([Option<f64>; N], Vec<f64>)> {
    let target = DVector::from_column_slice(target);
    let design = |columns: &[usize]| {
        DMatrix::from_fn(rows.len(), columns.len(), |row, column| rows[row][columns[column]])
    };
    let mut columns = Vec::new();
    for column in 0..N {
        columns.push(column);
        if linear::solve(&design(&columns), &target).is_none() {
            columns.pop();
        }
    }
    let independent = columns.clone();
    loop {
        let design = design(&columns);
        let values: Vec<f64> =
            linear::solve(&design, &target)?.estimates.iter().map(|it| it.value).collect();
        let lowest = (0..columns.len()).min_by(|a, b| values[*a].total_cmp(&values[*b]))?;
        if values[lowest] < 0.0 {
            columns.remove(lowest);
            continue;
        }
        let errors = &target - &design * DVector::from_column_slice(&values);
        let mut all = [None; N];
        independent.iter().for_each(|column| all[*column] = Some(0.0));
        columns.iter().zip(&values).for_each(|(column, value)| all[*column] = Some(*value));
        return Some((all, errors.iter().copied().collect()));
    }
}
