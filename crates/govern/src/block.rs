//! A block of a trial: the machine is governed for a while, and its counters are read.

use crate::config::Config;
use crate::error::GovernError;
use crate::pressure::{self, Gauge};
use crate::session::{Seen, Session};
use crate::slept::Slept;
use crate::trial::{Energy, Figure, Meter, Reading};
use std::collections::BTreeMap;
use std::time::Instant;
use wattline_host::Ending;
use wattline_knobs::OnExit;
use wattline_linux::sysfs::Tree;
use wattline_policy::{LatencyView, Registry};
use wattline_units::Span;

/// Name of the unchanged machine as a setting.
pub const NONE: &str = "none";

impl Config {
    /// Returns a configuration under which the governor measures and sets nothing.
    ///
    /// # Panics
    /// Never: its text is tested.
    pub fn none() -> Self {
        Self::parse("[govern]\nknobs = []\n", NONE, Registry::default())
            .unwrap_or_else(|problems| panic!("{problems}"))
    }
}

/// A governed machine, with access to its counters.
pub struct Block {
    session: Session,
    gauge: Option<Gauge>,
    slept: Slept,
    begun: Instant,
    /// The last reading, in seconds.
    read: f64,
    /// Integrals of figures without a counter.
    integrals: BTreeMap<Figure, f64>,
    /// Busy time of each core at the last reading.
    busy: Vec<Span>,
    /// The latency last known.
    latency: Option<LatencyView>,
    /// Silence after which a latency source counts as silent.
    silence: Span,
    is_silent: bool,
    meter: Meter,
}

impl Block {
    /// Takes the machine over. It is restored whenever and however the block ends, whatever the
    /// configuration's `on_exit` says.
    ///
    /// # Errors
    /// [`GovernError`]; the machine is as before then.
    pub fn begin(config: &Config, tree: &Tree) -> Result<Self, GovernError> {
        let config = Config { on_exit: OnExit::Restore, ..config.clone() };
        Ok(Self {
            session: Session::begin(&config, tree)?,
            gauge: pressure::gauge(tree),
            slept: Slept::until_now(),
            begun: Instant::now(),
            read: 0.0,
            integrals: BTreeMap::new(),
            busy: Vec::new(),
            latency: None,
            silence: config.latency_silence,
            is_silent: false,
            meter: Meter::default(),
        })
    }

    /// Reads all counters.
    ///
    /// # Errors
    /// When no governor controls the machine any more.
    pub fn read(&mut self) -> Result<Reading, GovernError> {
        self.session.check_governor()?;
        let seen = self.session.look();
        let seconds = self.begun.elapsed().as_secs_f64();
        let elapsed = seconds - self.read;
        self.read = seconds;
        let Some(seen) = seen else { return Ok(Reading { seconds, ..Reading::default() }) };
        for (figure, value) in self.moment(&seen, elapsed) {
            *self.integrals.entry(figure).or_default() += value * elapsed;
        }
        let mut integrals = self.integrals.clone();
        integrals.extend(counters(&seen));
        let waited = self.gauge.as_mut().map(|gauge| gauge()).unwrap_or_default();
        for (figure, waited) in
            [(Figure::Pressure, waited.pressure), (Figure::RunQueueDelay, waited.delay)]
        {
            integrals.extend(waited.map(|waited| (figure, waited.as_seconds())));
        }
        let energy = &seen.totals.machine.energy;
        let sensors = self.session.status().sensors;
        if !sensors.is_empty() && energy.whole.is_some() {
            self.meter = Meter {
                sensors: sensors.keys().map(|name| without_address(name).to_owned()).collect(),
                source: energy.source.to_string(),
                accuracy: energy.accuracy.to_string(),
            };
        }
        let energy = energy.whole.zip(energy.metered).map(|(whole, metered)| Energy {
            joules: whole.0,
            metered_seconds: metered.as_seconds(),
            unmetered_seconds: energy.unmetered.as_seconds(),
        });
        Ok(Reading { seconds, energy, integrals })
    }

    /// Returns the figures since the last reading that have no counter.
    fn moment(&mut self, seen: &Seen, elapsed: f64) -> Vec<(Figure, f64)> {
        let mut figures = Vec::new();
        let cores = &seen.view.cores;
        let frequencies: Option<Vec<f64>> =
            cores.iter().map(|core| Some(core.frequency?.get())).collect();
        if let Some(frequencies) = frequencies.filter(|all| !all.is_empty()) {
            let mean = frequencies.iter().sum::<f64>() / frequencies.len() as f64;
            figures.push((Figure::Frequency, mean));
            let before = self.busy.iter().copied().chain(std::iter::repeat(Span::ZERO));
            let busy = cores.iter().zip(before).map(|(core, before)| core.useful - before);
            let cycles: f64 =
                busy.zip(&frequencies).map(|(busy, hertz)| busy.as_seconds() * hertz).sum();
            if elapsed > 0.0 {
                figures.push((Figure::BusyHertz, cycles / elapsed));
            }
        }
        self.busy = cores.iter().map(|core| core.useful).collect();
        // Samples of a part of a service are no requests. While a source is silent for a moment,
        // the last figure remains.
        self.is_silent =
            seen.view.latency.is_none() && Span::from_seconds(self.read) > self.silence;
        self.latency = seen.view.latency.filter(|view| !view.part).or(self.latency);
        if let Some(latency) = self.latency {
            let window = latency.window.as_seconds();
            if window > 0.0 {
                figures.push((Figure::Requests, latency.samples as f64 / window));
            }
            figures.push((Figure::Latency, latency.p99.as_seconds()));
        }
        figures
    }

    /// Returns the meters that the watts come from.
    pub fn meter(&self) -> &Meter {
        &self.meter
    }

    /// Returns true if no source shows the latency now.
    pub fn is_silent(&self) -> bool {
        self.is_silent
    }

    /// Returns true if the machine was suspended since the block began.
    pub fn was_suspended(&self) -> bool {
        Slept::until_now().since(self.slept).is_some()
    }

    /// Returns problems of knobs and meters.
    pub fn troubles(&self) -> Vec<String> {
        self.session.status().troubles
    }

    /// Restores the machine.
    ///
    /// # Errors
    /// When some of it could not be restored.
    pub fn end(self) -> Result<(), GovernError> {
        Ok(self.session.end(Ending::Pause)?)
    }
}

/// Returns the name of a meter or counter for reports. A remote one or a file is named by its kind
/// only, since addresses, queries and paths may reveal its owner.
pub fn without_address(name: &str) -> &str {
    let kind = name.split_once(':').map_or(name, |(kind, _)| kind);
    if matches!(kind, "prometheus" | "redfish" | "external") { kind } else { name }
}

/// Returns figures that the machine counts, since the session began.
fn counters(seen: &Seen) -> Vec<(Figure, f64)> {
    let machine = &seen.totals.machine;
    let mut figures = vec![
        (Figure::Packets, machine.offered as f64),
        (Figure::BusyCpus, machine.useful.as_seconds()),
    ];
    let cores = &seen.view.cores;
    let softirq: Option<f64> = cores.iter().map(|core| Some(core.softirq?.as_seconds())).sum();
    figures.extend(softirq.map(|softirq| (Figure::Softirq, softirq)));
    let deepest = seen.state.platform.deepest();
    let idle: Option<f64> =
        cores.iter().map(|core| Some(core.residency?.get(deepest)?.as_seconds())).sum();
    let share = |idle: f64| (Figure::DeepestIdle, idle / cores.len().max(1) as f64);
    figures.extend(idle.map(share));
    for (name, figure) in [("package", Figure::PackagePower), ("memory", Figure::MemoryPower)] {
        figures.extend(machine.energy.parts.get(name).map(|joules| (figure, joules.0)));
    }
    figures
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configuration_of_the_machine_as_it_is_sets_nothing() {
        let none = Config::none();
        let scope = none.scope;
        assert!(!scope.frequency && !scope.idle && !scope.moderation && !none.uncore);
        assert!(!none.moderates());
    }
}
