//! Table V and Figure 4: cards of one, two and four ports of 1G, against 10G.

use super::known::{card, cards, known, lacks, names, on_tables};
use crate::error::ReproduceError;
use crate::figure::Figure;
use crate::inputs::Inputs;
use crate::paper::Paper;
use crate::planned::{self, Plan};
use wattline_report::plot::{Axis, Bars};
use wattline_report::table::number;
use wattline_report::{Check, Table};
use wattline_server::ComponentFile;
use wattline_server::components::{Medium, NicCard};
use wattline_study::cards::analysis::{PortUse, one_gigabit, ports, ranked, ten_gigabit};

/// Card, claim of theoretical throughput, claim of throughput per watt; in Table V's order.
const ROWS: [(&str, &str, &str); 4] = [
    ("Intel 1G", "SO-116", "SO-119"),
    ("Broadcom Multiport(2x1G)", "SO-120", "SO-123"),
    ("Intel Multiport(2x1G)", "SO-124", "SO-127"),
    ("Intel Multiport(4x1G)", "SO-128", "SO-131"),
];

pub(super) fn figures(_: &Inputs) -> Result<Vec<Figure>, ReproduceError> {
    let (plan, file) = (planned::made_for(Paper::Sohan)?, cards()?);
    Ok(vec![table5(plan, &file)?, fig4(plan, &file)?])
}

fn table5(plan: &'static Plan, file: &ComponentFile) -> Result<Figure, ReproduceError> {
    let all = ports(&one_gigabit(&file.cards));
    let used = |name: &str| -> Result<&PortUse, ReproduceError> {
        all.iter().find(|card| card.name == name).ok_or_else(|| lacks(name))
    };
    let mut table = Table::new([
        "card",
        "ports",
        "theoretical_gbps",
        "share_percent",
        "active_watts_per_port",
        "gigabits_per_second_per_watt",
    ]);
    let mut checks = Vec::new();
    for (name, theoretical, metric) in ROWS {
        let (one, port) = (card(file, name)?, used(name)?);
        let per_watt = known(one.gigabits_per_watt(), one, "throughput and power")?;
        checks.push(plan.each("theoretical", theoretical, name, port.theoretical.0 / 1e9)?);
        checks.push(plan.each("card-metric", metric, name, per_watt)?);
        table.row([
            name.into(),
            port.ports.to_string(),
            number(port.theoretical.0 / 1e9),
            number(port.share * 100.0),
            number(port.watts_per_port.0),
            format!("{per_watt:.3}"),
        ]);
    }
    let (single, dual, quad) =
        (used(ROWS[0].0)?, used("Intel Multiport(2x1G)")?, used("Intel Multiport(4x1G)")?);
    let best = ten_gigabit(&file.cards)
        .iter()
        .filter_map(|card| Some(card.throughput?.0 / (2.0 * card.link.0)))
        .fold(0.0, f64::max);
    let four = card(file, "Intel Multiport(4x1G)")?;
    let above = four.active.zip(four.idle()).map(|(active, idle)| (active - idle).0);
    checks.extend([
        plan.check("share-single", &[single.share * 100.0])?,
        plan.check("share-dual", &[dual.share * 100.0])?,
        plan.check("share-quad", &[quad.share * 100.0])?
            .contradiction("5.7 of 8 Gbit/s are 71.25 %; the text says 70 %"),
        plan.check("share-best-10g", &[best * 100.0])?,
        plan.check("port-intel", &[single.watts_per_port.0, dual.watts_per_port.0])?,
        plan.check("port-quad", &[quad.watts_per_port.0])?,
        plan.check("active-1g", &[known(above, four, "idle and active power")?])?,
    ]);
    Ok(Figure {
        id: "table5",
        title: "Table V: 1G cards by number of ports".into(),
        about: "Theoretical throughput is computed from ports and link rate.".into(),
        table,
        plots: Vec::new(),
        checks: on_tables(checks),
    })
}

fn fig4(plan: &'static Plan, file: &ComponentFile) -> Result<Figure, ReproduceError> {
    let base_t: Vec<&NicCard> =
        file.cards.iter().filter(|card| card.medium == Some(Medium::BaseT)).collect();
    let order = ranked(&base_t, NicCard::gigabits_per_watt);
    let mut table = Table::new(["card", "gigabits_per_second_per_watt"]);
    for (one, metric) in &order {
        table.row([one.name.clone(), format!("{metric:.3}")]);
    }
    let first = ["Intel Multiport(2x1G)", "Intel 1G", "Solarflare(Base-T)"];
    let printed = order.iter().zip(first).all(|((card, _), name)| card.name == name);
    let best = |of: &[&NicCard]| {
        let of: Vec<&NicCard> =
            of.iter().copied().filter(|card| card.medium == Some(Medium::BaseT)).collect();
        ranked(&of, NicCard::gigabits_per_watt).first().map(|entry| entry.1)
    };
    let ten = best(&ten_gigabit(&file.cards)).ok_or_else(|| lacks("a 10G Base-T card"))?;
    let one = best(&one_gigabit(&file.cards)).ok_or_else(|| lacks("a 1G Base-T card"))?;
    let overall = ranked(&ten_gigabit(&file.cards), NicCard::gigabits_per_watt);
    let overall = overall.first().map_or(0.0, |entry| entry.1);
    let checks: Vec<Check> = vec![
        plan.holds("one-against-ten", printed, names(&order))?.contradiction(
            "Intel's 2x1G card is named as the best and again as one of the worst; the second \
             must be its 4x1G card. The first three are as printed",
        ),
        plan.check("match-1g", &[ten / one])?
            .note(format!("over other media the best 10G card has {:.1} times", overall / one)),
    ];
    let title = "Figure 4: throughput per watt, Base-T";
    let cards = order.iter().map(|(card, _)| &card.name);
    let bars = Bars::new(title, "card", Axis::new("Gbit/s per W"), cards)
        .series("from Tables IV and V", order.iter().map(|(_, metric)| *metric));
    Ok(Figure {
        id: "fig4",
        title: "Figure 4: 1G against 10G".into(),
        about: "The figure's values are lost; the order in the text is the check.".into(),
        table,
        plots: vec![bars.svg()],
        checks: on_tables(checks),
    })
}
