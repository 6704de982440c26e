//! A run, from its start to its report.

use crate::engine::Engine;
use crate::error::SimError;
use crate::report::Report;
use crate::setting::Setting;
use std::time::Instant;
use wattline_cores::ModelError;
use wattline_policy::Latency;
use wattline_policy::{BuildContext, Policy, build};
use wattline_traffic::Source;

/// Simulates one server under one policy with these packets. The same setting and packets give the
/// same report, except for `wall_seconds` and values that follow from it.
///
/// # Errors
/// Fails when the setting contradicts itself, the policy cannot be built for the server, or the
/// packets cannot be read.
pub fn run(setting: &Setting<'_>, source: &mut dyn Source) -> Result<Report, SimError> {
    run_with(setting, source, |context| {
        Ok(build(&setting.policy, context).map_err(ModelError::from)?)
    })
}

/// Like [`run`], with the caller's policy instead of the setting's; it need not be in the registry.
///
/// # Errors
/// Fails like [`run`], or when `make` fails.
pub fn run_with(
    setting: &Setting<'_>,
    source: &mut dyn Source,
    make: impl FnOnce(&BuildContext<'_>) -> Result<Box<dyn Policy>, SimError>,
) -> Result<Report, SimError> {
    let started = Instant::now();
    let end = setting.check()?;
    let (late_after, sample) = (&setting.late_after, setting.sample);
    let mut engine = Engine::new(setting, source, make)?;
    engine.sink.latency =
        if sample.is_some() { Latency::sampled() } else { Latency::with_bounds(late_after) };
    engine.start()?;
    engine.warm_up()?;
    engine.sink.latency.reset();
    let at_start = engine.totals();
    let mut whole = Latency::with_bounds(late_after);
    let mut intervals = Vec::new();
    let mut from = at_start.clone();
    while engine.now < end {
        let step = setting.interval.unwrap_or(setting.duration).as_picos();
        let stop = engine.now.saturating_add(step).min(end);
        while let Some(sample) = sample
            && engine.now.saturating_add(sample.as_picos().max(1)) < stop
        {
            engine.sink.latency.take_sample();
            engine.run_to(engine.now + sample.as_picos().max(1))?;
        }
        engine.sink.latency.take_sample();
        engine.run_to(stop)?;
        let until = engine.totals();
        if setting.interval.is_some() {
            let latency = &engine.sink.latency;
            let (server, platform) = (setting.server, &engine.platform);
            let mut report = Report::between(&from, &until, latency, server, platform);
            report.late_packets = late_after.first().map(|_| latency.late());
            intervals.push(report);
        }
        whole.add(&engine.sink.latency);
        engine.sink.latency.reset();
        from = until;
    }
    let mut report = Report::between(&at_start, &from, &whole, setting.server, &engine.platform);
    report.take_curve(&whole);
    report.late_packets = late_after.first().map(|_| whole.late());
    report.late_packets_further = whole.late_further().collect();
    report.intervals = intervals;
    report.states = engine.sink.states.take().unwrap_or_default();
    report.knobs = engine.knob_outcomes();
    report.last_changes = engine.last_changes();
    report.profile = setting.profile.then_some(engine.stopwatch.profile);
    report.wall_seconds = started.elapsed().as_secs_f64();
    report.simulated_packets_per_second = from.arrivals as f64 / report.wall_seconds;
    Ok(report)
}
