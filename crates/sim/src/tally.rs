//! Runs in short spans that report only energy and late packets: a search over schedules simulates
//! thousands of runs with thousands of spans each, and a [`Report`] for each span would take longer
//! than the packets.

use crate::engine::Engine;
use crate::error::SimError;
use crate::report::Report;
use crate::setting::Setting;
use crate::totals::Totals;
use wattline_cores::{Spent, power_terms};
use wattline_policy::Latency;
use wattline_policy::{BuildContext, Policy};
use wattline_server::ServerModel;
use wattline_traffic::Source;
use wattline_units::{BitsPerSecond, Span, Watts};

/// Sums of one span.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Tally {
    /// Energy of the server, in joules.
    pub joules: f64,
    /// Packets that left in the span later than the bound.
    pub late: u64,
    /// Packets that found their ring full.
    pub dropped: u64,
}

/// Simulates one server with these packets, and tallies every span of length `every` (the last one
/// may be shorter). The report has no intervals.
///
/// # Errors
/// Fails like [`crate::run_with`].
pub(crate) fn tallied(
    setting: &Setting<'_>,
    source: &mut dyn Source,
    every: Span,
    make: impl FnOnce(&BuildContext<'_>) -> Result<Box<dyn Policy>, SimError>,
) -> Result<(Report, Vec<Tally>), SimError> {
    let end = setting.check()?;
    let mut engine = Engine::new(setting, source, make)?;
    engine.sink.latency = Latency::with_bounds(&setting.late_after);
    engine.start()?;
    engine.warm_up()?;
    engine.sink.latency.reset();
    let first = engine.totals();
    let mut tallies = Vec::new();
    let (mut from, mut late) = (first.clone(), 0);
    while engine.now < end {
        engine.run_to(engine.now.saturating_add(every.as_picos().max(1)).min(end))?;
        let until = engine.totals();
        tallies.push(Tally {
            joules: joules(&from, &until, setting.server),
            late: engine.sink.latency.late() - late,
            dropped: until.drops + until.output_drops - from.drops - from.output_drops,
        });
        late = engine.sink.latency.late();
        from = until;
    }
    let latency = &engine.sink.latency;
    let mut report = Report::between(&first, &from, latency, setting.server, &engine.platform);
    report.late_packets = Some(late);
    Ok((report, tallies))
}

/// Returns the energy between two moments.
fn joules(from: &Totals, until: &Totals, server: &ServerModel) -> f64 {
    let seconds = (until.at - from.at) as f64 * 1e-12;
    let spent: Vec<Spent> =
        until.spent.iter().zip(&from.spent).map(|(until, from)| until.since(from)).collect();
    let uncore = Watts((until.uncore_joules - from.uncore_joules) / seconds);
    let bytes = until.forwarded_bytes - from.forwarded_bytes;
    let bits = BitsPerSecond(bytes as f64 * 8.0 / seconds);
    power_terms(&spent, seconds, server, uncore, bits).total().0 * seconds
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;
    use wattline_cores::ModelError;
    use wattline_policies::POLICIES;
    use wattline_policy::build;
    use wattline_server::ServerFile;
    use wattline_traffic::Spec;

    #[test]
    fn tallies_add_up_to_the_report_of_a_run_without_them() {
        let file = ServerFile::load("westmere-2010").unwrap();
        let traffic = Spec::parse("mmpp:5Mpps,size=64,ratio=10,high=1ms,low=2ms").unwrap();
        let policy = POLICIES.parse("table").unwrap();
        let setting = Setting {
            warmup: Span::from_millis(1),
            seed: 3,
            late_after: vec![Span::from_micros(10)],
            ..Setting::new(file.model().unwrap(), policy, Span::from_millis(5))
        };
        let scenario = Scenario { setting, traffic: &traffic };
        let make = |context: &BuildContext<'_>| -> Result<Box<dyn Policy>, SimError> {
            Ok(build(&scenario.setting.policy, context).map_err(ModelError::from)?)
        };
        let whole = scenario.run_with(make).unwrap();
        let mut source = traffic.build(3).unwrap();
        let (report, tallies) =
            scenario.run_tallied(source.as_mut(), Span::from_micros(40), make).unwrap();
        assert_eq!(tallies.len(), 125);
        let joules: f64 = tallies.iter().map(|tally| tally.joules).sum();
        assert!((joules / whole.energy_joules - 1.0).abs() < 1e-9, "{joules}");
        assert!((report.energy_joules / whole.energy_joules - 1.0).abs() < 1e-12);
        let late: u64 = tallies.iter().map(|tally| tally.late).sum();
        assert!(late > 0);
        assert_eq!((whole.late_packets, report.late_packets), (Some(late), Some(late)));
        let dropped: u64 = tallies.iter().map(|tally| tally.dropped).sum();
        assert_eq!((dropped, report.dropped_packets), (whole.dropped_packets, dropped));
    }
}
