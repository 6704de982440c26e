//! Table IV and Figures 2 and 3: the 10G cards under load.

use super::known::{card, cards, known, lacks, names, on_tables};
use crate::error::ReproduceError;
use crate::figure::Figure;
use crate::inputs::Inputs;
use crate::paper::Paper;
use crate::planned::{self, Plan};
use wattline_report::plot::{Axis, Bars, Chart, Mark};
use wattline_report::table::number;
use wattline_report::{Check, Table};
use wattline_server::ComponentFile;
use wattline_server::components::NicCard;
use wattline_study::cards::analysis::{bounds, order_limit, rank_correlation, ranked, ten_gigabit};
use wattline_units::Watts;

/// Card, claim of active minus idle power, claim of throughput per watt; in Table IV's order.
const ROWS: [(&str, &str, &str); 6] = [
    ("Intel(Base-T)", "SO-081", "SO-082"),
    ("Solarflare(Base-T)", "SO-086", "SO-087"),
    ("Broadcom(Fibre)", "SO-091", "SO-092"),
    ("Solarflare(Fibre)", "SO-096", "SO-097"),
    ("Intel(CX4)", "SO-101", "SO-102"),
    ("Solarflare(CX4)", "SO-106", "SO-107"),
];

pub(super) fn figures(_: &Inputs) -> Result<Vec<Figure>, ReproduceError> {
    let (plan, file) = (planned::made_for(Paper::Sohan)?, cards()?);
    Ok(vec![table4(plan, &file)?, fig2(plan, &file)?, fig3(plan, &file)?])
}

fn table4(plan: &'static Plan, file: &ComponentFile) -> Result<Figure, ReproduceError> {
    let ten = ten_gigabit(&file.cards);
    let columns =
        ["card", "active_watts", "above_idle_watts", "throughput_gbps", "host_cpu_percent"];
    let mut table = Table::new(columns);
    let mut checks = Vec::new();
    let (mut pairs, mut above) = (Vec::new(), Vec::new());
    for (name, claim, _) in ROWS {
        let one = card(file, name)?;
        let active = known(one.active.map(|watts| watts.0), one, "active_watts")?;
        let idle = known(one.idle().map(|watts| watts.0), one, "idle power")?;
        let rate = known(one.throughput.map(|rate| rate.0 / 1e9), one, "throughput_gbps")?;
        let cpu = known(one.host_cpu_percent, one, "host_cpu_percent")?;
        table.row([
            name.into(),
            number(active),
            format!("{:.1}", active - idle),
            number(rate),
            number(cpu),
        ]);
        checks.push(plan.each("active-minus-idle", claim, name, active - idle)?);
        above.push(active - idle);
        pairs.push((active, rate));
    }
    let (_, largest) = bounds(&above).ok_or_else(|| lacks("cards"))?;
    let rates: Vec<f64> = pairs.iter().map(|pair| pair.1).collect();
    let (slow, fast) = bounds(&rates).ok_or_else(|| lacks("cards"))?;
    let rho = rank_correlation(&pairs).ok_or_else(|| lacks("throughputs"))?;
    checks.push(plan.check("active-below-a-watt", &[largest])?);
    checks.push(
        plan.check("throughput-range", &[slow, fast])?
            .contradiction("Table IV's least is 10.3 Gbit/s (Intel CX4), the text's 11"),
    );
    let sign = format!("the correlation is {rho:.2}");
    checks.push(plan.check("no-correlation", &[rho.abs()])?.note(sign));
    checks.extend(ranges(plan, file, &ten)?);
    let chart = Chart::new(
        "Table IV: throughput over active power",
        Axis::new("active power (W)").from_zero(),
        Axis::new("throughput, both directions (Gbit/s)").from_zero(),
    )
    .series("10G cards", Mark::Published, pairs);
    Ok(Figure {
        id: "table4",
        title: "Table IV: power, throughput and host CPU under load".into(),
        about: "Cells are data; differences, ranges and the correlation are computed.".into(),
        table,
        plots: vec![chart.svg()],
        checks: on_tables(checks),
    })
}

/// Checks the ranges in the paper's conclusions.
fn ranges(
    plan: &'static Plan,
    file: &ComponentFile,
    ten: &[&NicCard],
) -> Result<Vec<Check>, ReproduceError> {
    let of = |values: Vec<f64>| bounds(&values).ok_or_else(|| lacks("cards"));
    let idle = ten.iter().filter_map(|card| card.idle()).map(|watts| watts.0);
    let active = ten.iter().filter_map(|card| card.active).map(|watts| watts.0);
    let (least, most) = of(idle.chain(active).collect())?;
    let one = wattline_study::cards::analysis::one_gigabit(&file.cards);
    let one = of(one.iter().filter_map(|card| card.active).map(|watts| watts.0).collect())?;
    let cpu = of(ten.iter().filter_map(|card| card.host_cpu_percent).collect())?;
    Ok(vec![
        plan.check("range-10g", &[least, most])?
            .note("the conclusion rounds to 4.5 and 20 W; the tables have 4.6 and 21.4 W"),
        plan.check("range-1g", &[one.0, one.1])?,
        plan.check("range-cpu", &[cpu.0, cpu.1])?,
    ])
}

fn fig2(plan: &'static Plan, file: &ComponentFile) -> Result<Figure, ReproduceError> {
    let ten = ten_gigabit(&file.cards);
    let order = ranked(&ten, NicCard::gigabits_per_watt);
    let mut table = Table::new(["card", "gigabits_per_second_per_watt"]);
    let mut checks = Vec::new();
    for (name, _, claim) in ROWS {
        let one = card(file, name)?;
        let metric = known(one.gigabits_per_watt(), one, "throughput and power")?;
        checks.push(plan.each("card-metric", claim, name, metric)?);
    }
    for (one, metric) in &order {
        table.row([one.name.clone(), format!("{metric:.3}")]);
    }
    let first = ["Solarflare(CX4)", "Solarflare(Fibre)", "Intel(CX4)", "Broadcom(Fibre)"];
    let holds = order.len() == 6
        && order.iter().zip(first).all(|((card, _), name)| card.name == name)
        && order[4..].iter().all(|(card, _)| card.name.ends_with("(Base-T)"));
    checks.push(plan.holds("card-ranking", holds, names(&order))?);
    let active = |name: &str| card(file, name).map(|card| card.active.map_or(f64::NAN, |w| w.0));
    let above = active("Solarflare(Fibre)")? - active("Solarflare(CX4)")?;
    checks.push(plan.check("transceiver-active", &[above])?);
    let title = "Figure 2: throughput per watt of the card";
    let cards = order.iter().map(|(card, _)| &card.name);
    let bars = Bars::new(title, "card", Axis::new("Gbit/s per W"), cards)
        .series("from Table IV", order.iter().map(|(_, metric)| *metric));
    Ok(Figure {
        id: "fig2",
        title: "Figure 2: performance per watt of the card".into(),
        about: "The figure's values are lost; the order in the text is the check.".into(),
        table,
        plots: vec![bars.svg()],
        checks: on_tables(checks),
    })
}

/// Returns true if the order equals Figure 3: the offload card, Solarflare, Intel.
fn by_maker(order: &[(&NicCard, f64)]) -> bool {
    let makers = ["Broadcom", "Solarflare", "Solarflare", "Solarflare", "Intel", "Intel"];
    order.len() == makers.len()
        && order.iter().zip(makers).all(|((card, _), maker)| card.name.starts_with(maker))
}

fn fig3(plan: &'static Plan, file: &ComponentFile) -> Result<Figure, ReproduceError> {
    let ten = ten_gigabit(&file.cards);
    let metric = |idle: f64, per_percent: f64| {
        ranked(&ten, |card| card.server_gigabits_per_watt(Watts(idle), Watts(per_percent)))
    };
    let mut table = Table::new(["idle_watts", "watts_per_cpu_percent", "order", "as_printed"]);
    let mut everywhere = true;
    for idle in [100.0, 150.0, 200.0, 250.0] {
        for step in 1..=10 {
            let per_percent = 0.05 * f64::from(step);
            let order = metric(idle, per_percent);
            everywhere &= by_maker(&order);
            let shown = if by_maker(&order) { "yes" } else { "no" };
            table.row([number(idle), number(per_percent), names(&order), shown.into()]);
        }
    }
    let published = [(100.0, 0.98), (150.0, 1.58), (200.0, 2.18), (250.0, 2.78)];
    let limits: Vec<f64> = published
        .iter()
        .map(|(idle, _)| {
            let limit = order_limit(&ten, Watts(*idle), Watts(100.0), by_maker);
            limit.map_or(f64::NAN, |watts| watts.0)
        })
        .collect();
    let near =
        limits.iter().zip(published).all(|(ours, (_, theirs))| (ours / theirs - 1.0).abs() <= 0.01);
    let shown = limits.iter().map(|limit| number(*limit)).collect::<Vec<_>>().join(", ");
    let checks = vec![
        plan.holds(
            "server-ranking",
            everywhere,
            if everywhere { "everywhere" } else { "not everywhere" },
        )?,
        plan.holds("server-ranking-limit", near, shown)?,
    ];
    let points = |name: &str| -> Vec<(f64, f64)> {
        let Some(card) = file.card(name) else { return Vec::new() };
        let steps = (0..=50).map(|step| 0.02 * f64::from(step));
        steps
            .filter_map(|k| Some((k, card.server_gigabits_per_watt(Watts(200.0), Watts(k))?)))
            .collect()
    };
    let axes = (Axis::new("W per percent of a processor"), Axis::new("Gbit/s per W").from_zero());
    let chart = ROWS.iter().fold(
        Chart::new("Figure 3: throughput per watt of a server of 200 W", axes.0, axes.1),
        |chart, (name, ..)| chart.series(*name, Mark::Line, points(name)),
    );
    Ok(Figure {
        id: "fig3",
        title: "Figure 3: performance per watt of the server".into(),
        about: "The two constants of the paper's host are lost, so the order is checked over a \
                range of them, and the bound up to which it holds is searched for."
            .into(),
        table,
        plots: vec![chart.svg()],
        checks: on_tables(checks),
    })
}
