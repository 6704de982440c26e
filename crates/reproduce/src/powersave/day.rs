//! A day of traffic under several policies and applications, and the claims about such days.

use super::bench::{Job, SEED, content, cost, simulate};
use crate::error::ReproduceError;
use crate::inputs::Inputs;
use crate::made::Memo;
use crate::paper::Paper;
use crate::planned;
use crate::runner::side_by_side;
use wattline_report::plot::{Chart, Mark};
use wattline_report::{Check, Table};
use wattline_server::{Application, ServerModel};
use wattline_sim::Report;
use wattline_traffic::source::{DayProfile, Links, Modulated, TrainShape, Trains};
use wattline_traffic::{Popularity, Source};
use wattline_units::Span;

/// Packet length in bytes; the paper gives none for the trace, so this is a backbone's mean.
pub(super) const BYTES: u16 = 600;
pub(super) const SECONDS: f64 = 24.0;
/// Seconds of a day that only compares verdicts.
const BRIEF: f64 = 1.0;
pub(super) const INTERVALS: u64 = 60;
const MEAN: f64 = 0.35;
/// Height of the spikes as a share of the capacity: the router carries them without a growing
/// queue.
const HIGHEST: f64 = 0.9;
pub(super) const POLICIES: [(&str, &str); 3] =
    [("poll", "Click"), ("napi", "NAPI-Click"), ("queue-length", "PowerSave")];

/// A day with one application.
pub(super) struct Day {
    pub(super) application: Application,
    /// Packets per second that the router can forward, limited by its cores or by its links.
    pub(super) capacity: f64,
    /// Packets per second that its cores could forward without the limit of the links.
    pub(super) of_cores: f64,
    /// Reports in the order of [`POLICIES`].
    pub(super) reports: Vec<Report>,
}

impl Day {
    fn joules(&self, policy: usize) -> f64 {
        self.reports[policy].energy_joules
    }
    /// Returns the energy saving over another policy, in percent.
    pub(super) fn saving(&self, over: usize) -> f64 {
        100.0 * (1.0 - self.joules(2) / self.joules(over))
    }
    pub(super) fn load(&self, report: &Report) -> f64 {
        report.offered_rate_pps / self.capacity
    }

    /// Draws the power under each policy over time.
    pub(super) fn draw_power(&self, chart: Chart) -> Chart {
        self.reports.iter().zip(POLICIES).fold(chart, |chart, (report, (_, name))| {
            let points = report.intervals.iter().map(|report| (middle(report), report.power_watts));
            chart.series(name, Mark::Line, points)
        })
    }
}

/// Returns the power under each policy, by application and interval.
pub(super) fn power_table(days: &[Day]) -> Table {
    let mut table = Table::new([
        "application",
        "from_seconds",
        "utilisation",
        "click_watts",
        "napi_watts",
        "powersave_watts",
    ]);
    for day in days {
        for (index, own) in day.reports[2].intervals.iter().enumerate() {
            let watts = [0, 1, 2].map(|policy| day.reports[policy].intervals[index].power_watts);
            let [click, napi, powersave] = watts.map(|watts| format!("{watts:.2}"));
            table.row([
                day.application.to_string(),
                format!("{:.3}", own.from_seconds),
                format!("{:.4}", day.load(own)),
                click,
                napi,
                powersave,
            ]);
        }
    }
    table
}

/// Returns the packets of this length per second that the router can forward, and that its cores
/// could without the limit of the links.
pub(super) fn capacities(
    server: &ServerModel,
    application: Application,
    bytes: u16,
) -> Result<(f64, f64), ReproduceError> {
    let fastest = server.processor.highest_frequency();
    let of_cores = server.core_capacity(cost(server, application, bytes)?, 12, fastest).0;
    Ok((of_cores.min(server.link_capacity(bytes.into()).0), of_cores))
}

/// Returns the packets of a day of `seconds`, scaled to the router's capacity. If packets arrive in
/// trains, the rate of the day is the rate of trains.
pub(super) fn packets(capacity: f64, seconds: f64, shape: TrainShape) -> Box<dyn Source> {
    packets_seeded(capacity, BYTES, seconds, shape, SEED)
}

/// Returns the packets of such a day with a given length and seed.
pub(super) fn packets_seeded(
    capacity: f64,
    bytes: u16,
    seconds: f64,
    shape: TrainShape,
    seed: u64,
) -> Box<dyn Source> {
    let trains = capacity / f64::from(shape.mean);
    let profile = DayProfile::new(MEAN * trains, HIGHEST * trains, seconds, 12, seed);
    let content = content(bytes, Popularity::Uniform);
    let heads = Box::new(Modulated::new(profile, content.clone(), seed));
    if shape == TrainShape::NONE {
        return heads;
    }
    // The links include Ethernet's gaps, so packets arrive back to back.
    let links = Links { overhead: 20, ..Links::POWERSAVE };
    Box::new(Trains::new(heads, shape, links, &content, seed))
}

/// Returns the job of a day of `seconds`, with output links.
pub(super) fn job(policy: &str, application: Application, seconds: f64) -> Job<'_> {
    Job {
        policy,
        application,
        bytes: BYTES,
        duration: Span::from_seconds(seconds),
        // The controller begins with one core, so it gets time to settle first.
        warmup: Span::from_millis(100),
        interval: Some(Span::from_seconds(seconds) / INTERVALS),
        output_links: true,
    }
}

/// Simulates the day under all policies, with each of the applications.
pub(super) fn days(
    inputs: &Inputs,
    server: &ServerModel,
    applications: &[Application],
) -> Result<Vec<Day>, ReproduceError> {
    let bytes = inputs.day_bytes(BYTES)?;
    let seconds = if inputs.brief { BRIEF } else { SECONDS };
    let mut runs = Vec::new();
    for &application in applications {
        let (capacity, _) = capacities(server, application, bytes)?;
        runs.extend(POLICIES.map(|(policy, _)| (application, capacity, policy)));
    }
    let reports = side_by_side(&runs, |(application, capacity, policy)| {
        // A change of the controller does not affect the days of other policies.
        static MADE: Memo<(ServerModel, Application, String, (u16, f64)), Report> = Memo::new();
        let policy = inputs.policy(policy)?;
        let key = (server.clone(), *application, policy.clone(), (bytes, seconds));
        MADE.get_or_make(key, || {
            let job = Job { bytes, ..job(&policy, *application, seconds) };
            let mut day = packets_seeded(*capacity, bytes, seconds, TrainShape::NONE, SEED);
            simulate(server, &job, day.as_mut())
        })
    })?;
    let mut reports = reports.into_iter();
    let mut days = Vec::new();
    for &application in applications {
        let reports = reports.by_ref().take(POLICIES.len()).collect();
        let (capacity, of_cores) = capacities(server, application, bytes)?;
        days.push(Day { application, capacity, of_cores, reports });
    }
    Ok(days)
}

pub(super) fn micros(seconds: Option<f64>) -> f64 {
    seconds.map_or(f64::NAN, |seconds| seconds * 1e6)
}

/// Returns the highest 99th percentile of any interval, in microseconds, and the highest ratio of
/// the 99th percentile to the mean.
pub(super) fn worst(report: &Report) -> (f64, f64) {
    let each = report.intervals.iter().map(|it| {
        let p99 = micros(it.latency_p99_seconds);
        (p99, p99 / micros(it.latency_mean_seconds))
    });
    each.fold((0.0, 0.0), |(p99, ratio), (a, b)| (a.max(p99), b.max(ratio)))
}

pub(super) fn middle(report: &Report) -> f64 {
    report.from_seconds + report.duration_seconds / 2.0
}

/// Checks the claims about any application's day; `name` identifies the day.
pub(super) fn day_checks(day: &Day, name: &str) -> Result<Vec<Check>, ReproduceError> {
    let plan = planned::made_for(Paper::Powersave)?;
    let lowest = (0..INTERVALS as usize).all(|index| {
        let watts = |policy: usize| day.reports[policy].intervals[index].power_watts;
        watts(2) <= watts(1) && watts(1) <= watts(0)
    });
    let text = if lowest { "in every interval" } else { "not in every interval" };
    Ok(vec![
        plan.holds("powersave-napi-click", lowest, text)?.of(name),
        plan.check("saving-napi-click", &[day.saving(1)])?.of(name),
        plan.check("saving-click", &[day.saving(0)])?.of(name),
        plan.check("drops-of-a-day", &[day.reports[2].dropped_packets as f64])?.of(name),
        plan.check("click-of-a-day", &[day.reports[0].power_watts])?.of(name),
    ])
}
