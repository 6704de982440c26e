//! The day of Figures 14 to 16 for IPv4: dependence of the results on the spacing of packets, which
//! the paper does not print.

use super::bench::{Job, server, simulate};
use super::day::{self, BYTES, POLICIES, capacities, micros, packets, worst};
use super::latency::click_micros;
use super::own;
use crate::error::ReproduceError;
use crate::figure::Figure;
use crate::inputs::Inputs;
use crate::own::OwnTraffic;
use crate::paper::Paper;
use crate::planned;
use crate::runner::side_by_side;
use wattline_report::plot::{Axis, Chart, Mark};
use wattline_report::{Check, Table};
use wattline_server::Application;
use wattline_sim::Report;
use wattline_traffic::source::{TrainFlows, TrainLengths, TrainShape};

/// Length of the day in seconds: a sixth of the others'. These days are compared with each other.
const SECONDS: f64 = 4.0;
const LENGTHS: [u32; 4] = [4, 8, 16, 32];

struct Case {
    shape: TrainShape,
    output_links: bool,
    /// Reports in the order of [`POLICIES`].
    reports: Vec<Report>,
}

impl Case {
    fn mean(&self, policy: usize) -> f64 {
        micros(self.reports[policy].latency_mean_seconds)
    }
    fn saving(&self, over: usize) -> f64 {
        let joules = |policy: usize| self.reports[policy].energy_joules;
        100.0 * (1.0 - joules(2) / joules(over))
    }
    /// Returns the highest 99th percentile of any interval, and the highest ratio of the 99th
    /// percentile to the mean.
    fn tail(&self, policy: usize) -> (f64, f64) {
        worst(&self.reports[policy])
    }
    fn flows(&self) -> &'static str {
        if self.shape.flows == TrainFlows::One { "one" } else { "several" }
    }
}

fn cases(inputs: &Inputs) -> Result<Vec<Case>, ReproduceError> {
    let of = |flows| LENGTHS.map(|mean| TrainShape { mean, lengths: TrainLengths::Fixed, flows });
    let mut cases = vec![(TrainShape::NONE, false), (TrainShape::NONE, true)];
    cases.extend(of(TrainFlows::Several).map(|shape| (shape, true)));
    cases.extend(of(TrainFlows::One).map(|shape| (shape, true)));
    let server = server(inputs)?;
    let (capacity, _) = capacities(&server, Application::Ipv4, BYTES)?;
    let runs: Vec<_> =
        cases.iter().flat_map(|case| POLICIES.map(|(policy, _)| (*case, policy))).collect();
    let mut reports = side_by_side(&runs, |((shape, output_links), policy)| {
        let day = day::job(policy, Application::Ipv4, SECONDS);
        let job = Job { output_links: *output_links, ..day };
        simulate(&server, &job, packets(capacity, SECONDS, *shape).as_mut())
    })?
    .into_iter();
    let case = |(shape, output_links)| {
        let reports = reports.by_ref().take(POLICIES.len()).collect();
        Case { shape, output_links, reports }
    };
    Ok(cases.into_iter().map(case).collect())
}

/// Makes the figure from the reader's own traffic.
pub(super) fn own(inputs: &Inputs, own: &OwnTraffic) -> Result<Vec<Figure>, ReproduceError> {
    let server = server(inputs)?;
    let case = own::Case::new(&server, Application::Ipv4);
    let mut cases = vec![
        (
            "as they come, without output links".into(),
            own::Case { output_links: false, ..case.clone() },
        ),
        ("as they come".into(), case.clone()),
    ];
    cases.extend(
        LENGTHS.map(|burst| (format!("trains of {burst}"), own::Case { burst, ..case.clone() })),
    );
    own::compared(inputs, own, ("fig16-trains", "Figures 15 and 16 with packets in trains"), &cases)
}

pub(super) fn figures(inputs: &Inputs) -> Result<Vec<Figure>, ReproduceError> {
    let cases = cases(inputs)?;
    let mut table = Table::new([
        "train_packets",
        "train_flows",
        "output_links",
        "click_latency_mean_us",
        "click_latency_p99_highest_us",
        "powersave_latency_mean_us",
        "powersave_latency_p99_highest_us",
        "powersave_latency_p99_over_mean_highest",
        "saving_over_napi_percent",
        "saving_over_click_percent",
        "powersave_dropped_packets",
        "powersave_reordered_packets",
    ]);
    for case in &cases {
        let (p99, ratio) = case.tail(2);
        let number = |value: f64| format!("{value:.3}");
        let own = &case.reports[2];
        table.row([
            case.shape.mean.to_string(),
            case.flows().to_owned(),
            case.output_links.to_string(),
            number(case.mean(0)),
            number(case.tail(0).0),
            number(case.mean(2)),
            number(p99),
            number(ratio),
            number(case.saving(1)),
            number(case.saving(0)),
            own.dropped_packets.to_string(),
            own.reordered_packets.to_string(),
        ]);
    }
    let mut chart = Chart::new(
        "Mean latency over the length of trains, IPv4",
        Axis::new("packets in a train").logarithmic(),
        Axis::new("mean latency (µs)").range(0.0, 25.0),
    );
    for flows in ["several", "one"] {
        for (policy, name) in [(0, "Click"), (2, "PowerSave")] {
            let own = cases.iter().filter(|case| {
                case.output_links && (case.shape.mean == 1 || case.flows() == flows)
            });
            let points = own.map(|case| (f64::from(case.shape.mean), case.mean(policy)));
            let label = format!("{name}, {flows} flow{}", if flows == "one" { "" } else { "s" });
            chart = chart.series(label, Mark::LineAndPoints, points.collect::<Vec<_>>());
        }
    }
    Ok(vec![Figure {
        id: "fig16-trains",
        title: "Figures 15 and 16 with packets in trains".into(),
        about: format!(
            "Simulated. The paper's generators are programs of many sources. Such programs send packets in batches, and \
             the paper does not print how long these are. Here trains of a given length come back to back on a port, \
             over a day of {SECONDS} s with the same mean. The packets of a train belong to several flows or to one. \
             They leave by output links. Trains of one flow meet at output links and make Click as slow as the \
             paper's. But they lengthen the tail of every policy and spare NAPI-Click most of its wake-ups, both far \
             beyond what is printed. So the other figures send packets at random, and those figures judge the claims."
        ),
        table,
        plots: vec![
            chart.band("printed for Click", click_micros() - 1.0, click_micros() + 1.0).svg(),
        ],
        checks: checks(&cases)?,
    }])
}

/// These checks answer no claim: they show the consequences of an assumption.
fn checks(cases: &[Case]) -> Result<Vec<Check>, ReproduceError> {
    let plan = planned::made_for(Paper::Powersave)?;
    let distance = |case: &&Case| (case.mean(0) - click_micros()).abs();
    let nearest = cases.iter().min_by(|a, b| distance(a).total_cmp(&distance(b)));
    let Some(case) = nearest else { return Ok(Vec::new()) };
    let flows = if case.flows() == "one" { "one flow" } else { "several flows" };
    let name = format!("trains of {} packets of {flows}", case.shape.mean);
    let (p99, ratio) = case.tail(2);
    let click = case.tail(0).0;
    Ok(vec![
        plan.check("mean-latency-click-trains", &[case.mean(0)])?.of(&name),
        plan.check("mean-latency-trains", &[case.mean(2)])?.of(&name),
        plan.check("tail-trains", &[p99])?.of(&name).note(format!(
            "they meet at output links whatever the policy: under Click it is {click:.0} µs"
        )),
        plan.check("tail-over-mean-trains", &[ratio])?.of(&name),
        plan.check("saving-napi-trains", &[case.saving(1)])?.of(&name),
    ])
}
