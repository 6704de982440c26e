//! Figure 15 with application costs derived from measured ones, and the order of the measured
//! costs.

use super::bench::server;
use super::day::{BYTES, Day, day_checks, days, middle};
use super::own::{self, Case};
use crate::error::ReproduceError;
use crate::figure::Figure;
use crate::inputs::Inputs;
use crate::own::OwnTraffic;
use crate::paper::Paper;
use crate::planned;
use wattline_report::plot::{Axis, Chart, Mark};
use wattline_report::{Check, Table};
use wattline_server::{Application, MeasuredCosts, Scaling, ServerModel};

const COSTS: &str = "sapphire-rapids-vm";
/// Applications besides IPv4, whose cost is always that of the server model.
const APPLICATIONS: [Application; 3] = [Application::Netflow, Application::Ipsec, Application::Re];
/// Shortest packet, in bytes, whose cost is comparable with the paper's traffic: the largest
/// measured length below the traffic's mean.
const SHORTEST: f64 = 512.0;
/// Packet lengths in the table, in bytes.
const LENGTHS: [u16; 4] = [64, 512, BYTES, 1420];

/// Makes the figure from the reader's own traffic.
pub(super) fn own(inputs: &Inputs, own: &OwnTraffic) -> Result<Vec<Figure>, ReproduceError> {
    let server = server(inputs)?;
    let costs = inputs.costs(COSTS)?;
    let models = Scaling::ALL.map(|scaling| Ok((scaling, costs.on(&server, scaling)?)));
    let models = models.into_iter().collect::<Result<Vec<_>, ReproduceError>>()?;
    let of = |(scaling, model)| {
        let (scaling, model): (Scaling, _) = (scaling, model);
        APPLICATIONS.map(|it| (format!("{it}, {}", scaling.name()), Case::new(model, it)))
    };
    let cases: Vec<_> = models.iter().flat_map(|(scaling, model)| of((*scaling, model))).collect();
    own::compared(
        inputs,
        own,
        ("fig15-measured", "Figure 15 with costs that follow from measured ones"),
        &cases,
    )
}

pub(super) fn figures(inputs: &Inputs) -> Result<Vec<Figure>, ReproduceError> {
    let server = server(inputs)?;
    let costs = inputs.costs(COSTS)?;
    let mut table = Table::new([
        "scaling",
        "application",
        "cycles_64_bytes",
        "cycles_512_bytes",
        "cycles_600_bytes",
        "cycles_1420_bytes",
        "capacity_mpps",
        "saving_over_napi_percent",
        "saving_over_click_percent",
    ]);
    let (mut plots, mut checks) = (Vec::new(), order(&costs)?);
    for scaling in Scaling::ALL {
        let model = costs.on(&server, scaling)?;
        let days = days(inputs, &model, &APPLICATIONS)?;
        for day in &days {
            table.row(row(&model, scaling, day));
            let name = format!("{}, {}", day.application, scaling.name());
            let note = "modelled: a measured ratio or difference, on the paper's server";
            let add = |check: Check| {
                let separator = if check.note.is_empty() { "" } else { "; " };
                let note = format!("{}{separator}{note}", check.note);
                check.note(note)
            };
            checks.extend(day_checks(day, &name)?.into_iter().map(add));
        }
        plots.push(plot(scaling, &days));
    }
    let about = format!(
        "Simulated, on costs that are modelled, not measured on the paper's server: the cost of IPv4 is from the \
         model of {}. The other costs were measured relative to IPv4 in this program on another machine ({}, {}, \
         `{}`). \"ratio\" multiplies the server's own cost of IPv4 by the measured ratio, as if a router of 2012 \
         were slower for all code alike; \"added\" adds the measured cycles beyond IPv4, as if its processor were \
         one of today. A server model is linear in the length; the table has the resulting costs.",
        server.name, costs.machine, costs.date, costs.command
    );
    Ok(vec![Figure {
        id: "fig15-measured",
        title: "Figure 15 with costs that follow from measured ones".into(),
        about,
        table,
        plots,
        checks,
    }])
}

fn row(model: &ServerModel, scaling: Scaling, day: &Day) -> [String; 9] {
    let [short, medium, mean, long] = LENGTHS.map(|bytes| {
        let cost = model.packet_cost(day.application, bytes.into());
        cost.map_or_else(String::new, |cost| format!("{:.0}", cost.cycles))
    });
    let [capacity, napi, click] =
        [day.capacity / 1e6, day.saving(1), day.saving(0)].map(|it| format!("{it:.3}"));
    let (scaling, application) = (scaling.name().to_owned(), day.application.to_string());
    [scaling, application, short, medium, mean, long, capacity, napi, click]
}

fn plot(scaling: Scaling, days: &[Day]) -> String {
    let mut chart = Chart::new(
        format!("Power under PowerSave, costs by the measured {}", scaling.name()),
        Axis::new("time (s), a day compressed"),
        Axis::new("power (W)").range(0.0, 290.0),
    );
    for day in days {
        let points = day.reports[2].intervals.iter().map(|it| (middle(it), it.power_watts));
        chart = chart.series(day.application.to_string(), Mark::Line, points);
    }
    chart.svg()
}

/// Reason why the order at the shortest length answers no claim.
const TOO_SHORT: &str = " By the paper redundancy elimination is the most demanding of the four, on traces whose \
                         packets have payloads (section 7). Packets of 64 bytes have a payload of some 20 bytes, less \
                         than our window of 64 for finding repeats, so it skips them. An extra row, which answers no \
                         claim";

/// Checks the order of the measured costs at each length.
fn order(costs: &MeasuredCosts) -> Result<Vec<Check>, ReproduceError> {
    let plan = planned::made_for(Paper::Powersave)?;
    let lengths = costs.applications.get(&Application::Ipv4).map_or(0, Vec::len);
    let at = |length: usize| {
        let mut all: Vec<(Application, f64, f64)> = costs
            .applications
            .iter()
            .filter_map(|(application, list)| {
                let cost = list.get(length)?;
                Some((*application, cost.packet_size_bytes, cost.cycles_per_packet))
            })
            .collect();
        let bytes = all.first().map_or(0.0, |it| it.1);
        all.sort_by(|a, b| b.2.total_cmp(&a.2));
        let text: Vec<String> = all.iter().map(|it| format!("{} {:.0}", it.0, it.2)).collect();
        let published: Vec<Application> = Application::ALL.into_iter().rev().collect();
        let same = all.iter().map(|it| it.0).eq(published);
        let short = bytes < SHORTEST;
        let id = if short { "order-of-costs-short" } else { "order-of-costs" };
        Ok(plan.holds(id, same, text.join(" > "))?.of(&format!("{bytes} bytes")).note(format!(
            "measured on {} ({}). Ours encrypts by the processor's AES instructions, which the paper does \
             not mention.{}",
            costs.machine,
            costs.date,
            if short { TOO_SHORT } else { "" }
        )))
    };
    (0..lengths).map(at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattline_report::{Grounds, Verdict};

    #[test]
    fn order_is_judged_at_each_length() {
        let mut costs = MeasuredCosts::load(COSTS).unwrap();
        let longest = order(&costs).unwrap().pop().unwrap();
        assert_eq!(longest.verdict, Verdict::Meets, "{}", longest.ours);
        assert_eq!(longest.grounds, Grounds::Measured);
        costs.applications.get_mut(&Application::Re).unwrap()[2].cycles_per_packet = 1.0;
        assert_eq!(order(&costs).unwrap()[2].verdict, Verdict::Differs);
        assert_eq!(order(&costs).unwrap().len(), 3);
        let order = order(&costs).unwrap();
        let answers = order.iter().map(|check| !check.claims.is_empty());
        assert_eq!(
            answers.collect::<Vec<_>>(),
            [false, true, true],
            "64 bytes are not the paper's traffic"
        );
    }
}
