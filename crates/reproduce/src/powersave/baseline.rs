//! Figure 3: polling Click compared with Click that sleeps between packets.

use super::bench::{Arrivals, Steady, all, ipv4, server};
use super::breakdown::MPPS_40G;
use super::own;
use crate::error::ReproduceError;
use crate::figure::Figure;
use crate::inputs::Inputs;
use crate::own::OwnTraffic;
use crate::paper::Paper;
use crate::planned::{self, Plan};
use crate::printed::printed;
use wattline_report::plot::{Axis, Chart, Mark};
use wattline_report::{Check, Table};
use wattline_server::ServerModel;
use wattline_sim::Report;
use wattline_units::Span;

/// Loads over which the latencies should converge, as shares of the capacity of twelve cores.
const LOADS: [f64; 7] = [0.5, 0.8, 0.9, 0.96, 0.968, 0.98, 0.99];
/// Intervals per run at these loads, for estimates of the error of a figure.
const PARTS: u64 = 10;
/// A low load in Mpps.
const LOW: f64 = 0.5;

/// Makes the figure from the reader's own traffic.
pub(super) fn own(inputs: &Inputs, own: &OwnTraffic) -> Result<Vec<Figure>, ReproduceError> {
    own::over_load(inputs, own, ("fig3", "Figure 3: power of Click and NAPI-Click"))
}

pub(super) fn figures(inputs: &Inputs) -> Result<Vec<Figure>, ReproduceError> {
    let (plan, server) = (planned::made_for(Paper::Powersave)?, server(inputs)?);
    let most =
        server.core_capacity(ipv4(&server)?, 12, server.processor.highest_frequency()).mpps();
    let rates: Vec<f64> = (0..=28).map(f64::from).collect();
    let runs: Vec<Steady> = ["poll", "napi"]
        .iter()
        .flat_map(|policy| rates.iter().map(|rate| Steady::new(*policy, *rate)))
        .collect();
    let reports = all(&server, &runs)?;
    let (poll, napi) = reports.split_at(rates.len());
    let mut table = Table::new([
        "offered_mpps",
        "poll_watts",
        "napi_watts",
        "poll_latency_mean_us",
        "napi_latency_mean_us",
        "latency_difference_percent",
        "latency_difference_error_percent",
        "poll_dropped_share",
        "napi_dropped_share",
    ]);
    let converging = Pair::at(&server, most, &LOADS)?;
    let pairs = rates.iter().zip(poll.iter().zip(napi));
    for (rate, poll, napi) in pairs
        .map(|(rate, (poll, napi))| (*rate, poll, napi))
        .chain(converging.iter().map(|pair| (pair.load * most, &pair.poll, &pair.napi)))
    {
        table.numbers([
            rate,
            poll.power_watts,
            napi.power_watts,
            micros(poll),
            micros(napi),
            100.0 * difference(poll, napi),
            // A run in one piece gives no estimate of the error.
            if poll.intervals.is_empty() { f64::NAN } else { 100.0 * error(poll, napi) },
            poll.dropped_packets as f64 / poll.offered_packets as f64,
            napi.dropped_packets as f64 / napi.offered_packets as f64,
        ]);
    }
    let points = |reports: &[Report], of: fn(&Report) -> f64| {
        rates.iter().copied().zip(reports.iter().map(of)).collect::<Vec<_>>()
    };
    let axis = || Axis::new("offered load, 64-byte packets (Mpps)").range(0.0, 30.0);
    let idle = printed("PS-030");
    let power = Chart::new(
        "Figure 3: Click and NAPI-Click",
        axis(),
        Axis::new("power (W)").range(0.0, 290.0),
    )
    .series("Click, polling", Mark::Line, points(poll, |r| r.power_watts))
    .series("NAPI-Click", Mark::Line, points(napi, |r| r.power_watts))
    .series(
        "printed, without traffic: Click and NAPI-Click",
        Mark::Published,
        [(0.0, idle), (0.0, idle * (1.0 - printed("PS-044") / 100.0))],
    );
    let latency = Chart::new(
        "Latency in the same runs",
        axis(),
        Axis::new("mean latency (µs)").range(0.0, 30.0),
    )
    .series("Click, polling", Mark::Line, points(poll, micros))
    .series("NAPI-Click", Mark::Line, points(napi, micros))
    .series(
        "printed, at low load",
        Mark::Published,
        [(LOW, printed("PS-047")), (LOW, printed("PS-048"))],
    );
    let converged = plan.published("converged").unwrap_or(f64::NAN);
    let difference = Chart::new(
        "What NAPI-Click's latency is above Click's",
        Axis::new("offered load over what twelve cores forward (%)").range(0.0, 100.0),
        Axis::new("difference of mean latencies (%)").range(0.0, 70.0),
    )
    .series(
        "NAPI-Click over Click",
        Mark::LineAndPoints,
        converging.iter().map(|pair| (100.0 * pair.load, 100.0 * pair.difference())),
    )
    .band("\"converge\", as we read it", 0.0, 100.0 * converged);
    Ok(vec![Figure {
        id: "fig3",
        title: "Figure 3: power of Click and NAPI-Click".into(),
        about:
            "Simulated, Poisson arrivals of 64-byte packets, 12 cores at the highest frequency. \
                The curves are lost; their ends are printed. The last rows of the data are longer runs \
                at rising shares of what the cores can forward."
                .into(),
        table,
        plots: vec![power.svg(), latency.svg(), difference.svg()],
        checks: checks(plan, &server, most, &converging)?,
    }])
}

fn micros(report: &Report) -> f64 {
    report.latency_mean_seconds.map_or(f64::NAN, |seconds| seconds * 1e6)
}

/// Returns the relative excess of NAPI-Click's mean latency over Click's.
fn difference(poll: &Report, napi: &Report) -> f64 {
    micros(napi) / micros(poll) - 1.0
}

/// Returns the standard error of [`difference`], from the scatter of the intervals. Both runs have
/// the same packets.
fn error(poll: &Report, napi: &Report) -> f64 {
    let parts: Vec<f64> =
        poll.intervals.iter().zip(&napi.intervals).map(|(a, b)| difference(a, b)).collect();
    let count = parts.len() as f64;
    let mean = parts.iter().sum::<f64>() / count;
    let squares = parts.iter().map(|part| (part - mean).powi(2)).sum::<f64>();
    (squares / (count - 1.0) / count).sqrt()
}

/// Runs of Click and NAPI-Click with the same packets.
struct Pair {
    /// Offered load divided by the capacity of the cores.
    load: f64,
    poll: Report,
    napi: Report,
}

impl Pair {
    /// Runs both at each load. The warm-up lets the queues of nearly full cores fill, and the run
    /// is long enough to measure them.
    fn at(server: &ServerModel, most: f64, loads: &[f64]) -> Result<Vec<Self>, ReproduceError> {
        let duration = Span::from_millis(400);
        let runs: Vec<Steady> = loads
            .iter()
            .flat_map(|load| ["poll", "napi"].map(|policy| Steady::new(policy, load * most)))
            .map(|steady| Steady {
                duration,
                warmup: Span::from_millis(100),
                interval: Some(duration / PARTS),
                ..steady
            })
            .collect();
        let mut reports = all(server, &runs)?.into_iter();
        let pair =
            |load: &f64| Some(Self { load: *load, poll: reports.next()?, napi: reports.next()? });
        Ok(loads.iter().filter_map(pair).collect())
    }
    fn difference(&self) -> f64 {
        difference(&self.poll, &self.napi)
    }
    fn error(&self) -> f64 {
        error(&self.poll, &self.napi)
    }
    fn drops(&self) -> bool {
        self.poll.dropped_packets + self.napi.dropped_packets > 0
    }
}

/// "At high load, the latencies of the two methods tend to converge" (section 3): a limit.
fn convergence(
    plan: &'static Plan,
    pairs: &[Pair],
    low: f64,
) -> Result<Vec<Check>, ReproduceError> {
    // The tolerance is twice the standard errors of both neighbours.
    let falls = pairs.windows(2).all(|pair| {
        let noise = 2.0 * pair[0].error().hypot(pair[1].error());
        pair[1].difference() <= pair[0].difference() + noise
    });
    let series: Vec<String> = pairs
        .iter()
        .map(|pair| {
            format!("{:.1} % at {:.1} % load", 100.0 * pair.difference(), 100.0 * pair.load)
        })
        .collect();
    let carried = pairs.iter().rfind(|pair| !pair.drops());
    let carried = carried.map_or_else(String::new, |pair| {
        format!(
            "; {:.1} ± {:.1} % at {:.1} % load, the highest of these without a drop",
            100.0 * pair.difference(),
            200.0 * pair.error(),
            100.0 * pair.load
        )
    });
    let top = pairs.last().map_or(f64::NAN, Pair::difference);
    Ok(vec![
        plan.holds("difference-latencies-falls", falls, series.join(", "))?
        .note(format!(
            "{:.0} % at low load. NAPI polls while packets wait. At 96 % load it still sleeps between them: the 5 µs \
             until it serves the first packet delay packets that arrive meanwhile by half of that on average, \
             which is small only compared with the queue of a nearly full core",
            100.0 * low
        )),
        plan.check("converged", &[top])?.note(format!(
            "a limit, as load goes to 1; 5 % is the reading of claims.csv{carried}. Of the entries of four \
             redirect tables eight cores have 43 and four have 42, so eight are full from 99.2 %"
        )),
    ])
}

fn checks(
    plan: &'static Plan,
    server: &ServerModel,
    most: f64,
    converging: &[Pair],
) -> Result<Vec<Check>, ReproduceError> {
    let loaded = |policy: &str| Steady { bytes: 1024, ..Steady::new(policy, MPPS_40G) };
    let beyond =
        |policy: &str| Steady { arrivals: Arrivals::Even, ..Steady::new(policy, 1.15 * most) };
    let low = |policy: &str| Steady::new(policy, LOW);
    let runs = ["poll", "napi"].map(|policy| {
        let ends = [Steady::new(policy, 0.0), loaded(policy), beyond(policy)];
        [&ends[..], &[low(policy)]].concat()
    });
    let reports = all(server, &runs.concat())?;
    let (poll, napi) = reports.split_at(4);
    let saving = |index: usize| 100.0 * (1.0 - napi[index].power_watts / poll[index].power_watts);
    let mpps = |index: usize, of: &[Report]| of[index].forwarded_rate_pps / 1e6;
    let low = difference(&poll[3], &napi[3]);
    let mut checks = vec![
        plan.check("napi-saving-idle", &[saving(0)])?,
        plan.check("napi-saving-40-gbps", &[saving(1)])?,
        plan.check("most-click-forwards", &[mpps(2, poll)])?,
        plan.check("napi-over-click", &[mpps(2, napi) / mpps(2, poll)])?,
        plan.check("latency-click-low", &[micros(&poll[3])])?,
        plan.check("latency-napi", &[micros(&napi[3])])?,
    ];
    checks.extend(convergence(plan, converging, low)?);
    Ok(checks)
}
