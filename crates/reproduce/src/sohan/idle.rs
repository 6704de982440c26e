//! Tables I to III: idle power by rail, medium, offload and links.

use super::known::{card, cards, known, lacks, on_tables};
use crate::error::ReproduceError;
use crate::figure::Figure;
use crate::inputs::Inputs;
use crate::paper::Paper;
use crate::planned::{self, Plan};
use crate::printed::printed_at;
use wattline_report::plot::{Axis, Bars, Chart, Mark};
use wattline_report::{Check, Table};
use wattline_server::components::{Medium, NicCard};
use wattline_study::cards::analysis::{bounds, by_medium, offload, one_gigabit, ten_gigabit};
use wattline_study::cards::{LinkModel, accepted_mean, shunt_power};

/// Claims of the totals of Table II, in the table's order.
const TOTALS: [(&str, &str); 6] = [
    ("SO-035", "Intel(Base-T)"),
    ("SO-039", "Solarflare(Base-T)"),
    ("SO-043", "Broadcom(Fibre)"),
    ("SO-047", "Solarflare(Fibre)"),
    ("SO-051", "Intel(CX4)"),
    ("SO-055", "Solarflare(CX4)"),
];

/// Claims of Table III, beginning with 0 links.
const LINKS: [(&str, &[&str]); 2] = [
    ("Broadcom(Fibre)", &["SO-066", "SO-067", "SO-068"]),
    ("Intel Multiport(4x1G)", &["SO-069", "SO-070", "SO-071", "SO-072", "SO-073"]),
];

pub(super) fn figures(_: &Inputs) -> Result<Vec<Figure>, ReproduceError> {
    let plan = planned::made_for(Paper::Sohan)?;
    Ok(vec![by_rail(plan)?, by_links(plan)?])
}

fn by_rail(plan: &'static Plan) -> Result<Figure, ReproduceError> {
    let file = cards()?;
    let ten = ten_gigabit(&file.cards);
    let mut table = Table::new(["card", "idle_3v3_watts", "idle_12v_watts", "idle_watts"]);
    let mut checks = Vec::new();
    let (mut low, mut high, mut worst) = (Vec::new(), Vec::new(), 0.0_f64);
    for (claim, name) in TOTALS {
        let one = card(&file, name)?;
        let rail = |rail: Option<wattline_units::Watts>| rail.map(|watts| watts.0);
        let (at_3, at_12) = (known(rail(one.idle_3v3), one, "idle_3v3_watts")?, rail(one.idle_12v));
        let at_12 = known(at_12, one, "idle_12v_watts")?;
        let total = known(one.idle().map(|watts| watts.0), one, "idle power")?;
        table.row([name.into(), at_3.to_string(), at_12.to_string(), format!("{total:.1}")]);
        let check = plan.each("idle-total", claim, name, total)?;
        worst = worst.max((total - check.published.parse::<f64>().unwrap_or(f64::NAN)).abs());
        checks.push(check);
        low.push(at_3);
        high.push(at_12);
    }
    checks.push(plan.check("rails", &[worst])?);
    checks.push(plan.check("shunt", &[shunt_power(12.667e-3, 12.0, 0.01).0])?);
    let runs: [&[f64]; 3] = [&[20.0, 20.2, 20.6], &[20.0, 20.2], &[20.0, 20.3, 20.7]];
    let accepted = runs.map(|runs| accepted_mean(runs).is_ok());
    checks.push(plan.holds("runs", accepted == [true, false, false], format!("{accepted:?}"))?);
    checks.extend(counts(plan, &file.cards, &ten)?);
    checks.extend(comparisons(plan, &ten)?);
    let totals = checks[..6].iter().map(|check| check.published.parse().ok());
    let bars = Bars::new(
        "Table II: idle power of the 10G cards",
        "card",
        Axis::new("power (W)"),
        TOTALS.map(|(_, name)| name),
    )
    .series("3.3 V", low)
    .series("12 V", high)
    .stacked(totals);
    Ok(Figure {
        id: "table2",
        title: "Table II: idle power by rail, and what follows from it".into(),
        about: "Rails are data; totals, spreads, orders and ratios are computed from them.".into(),
        table,
        plots: vec![bars.svg()],
        checks: on_tables(checks),
    })
}

fn counts(
    plan: &'static Plan,
    all: &[NicCard],
    ten: &[&NicCard],
) -> Result<Vec<Check>, ReproduceError> {
    let (tens, ones) = (ten.len(), one_gigabit(all).len());
    let brand = |card: &&NicCard| card.name.split('(').next().unwrap_or_default().to_owned();
    let mut brands: Vec<String> = ten.iter().map(brand).collect();
    brands.sort();
    brands.dedup();
    let every = [Medium::Cx4, Medium::Fibre, Medium::BaseT];
    let media = every.iter().all(|medium| ten.iter().any(|card| card.medium == Some(*medium)));
    Ok(vec![
        plan.holds("cards", (tens, ones) == (6, 4), format!("{tens} and {ones}"))?,
        plan.check("makers", &[brands.len() as f64])?.contradiction(format!(
            "Table I names {}; the parts PE10G are Silicom's boards, which makes four",
            brands.join(", ")
        )),
        plan.holds("media", media, "all three, each at least once")?,
    ])
}

fn comparisons(plan: &'static Plan, ten: &[&NicCard]) -> Result<Vec<Check>, ReproduceError> {
    let idle: Vec<f64> = ten.iter().filter_map(|card| card.idle()).map(|watts| watts.0).collect();
    let (least, most) = bounds(&idle).ok_or_else(|| lacks("idle powers"))?;
    let solarflare: Vec<&NicCard> =
        ten.iter().copied().filter(|card| card.name.starts_with("Solarflare")).collect();
    let in_order = |cards: &[&NicCard]| {
        let media = by_medium(cards);
        let order = media.iter().map(|power| power.medium);
        let apart = media.windows(2).all(|pair| pair[0].most.0 < pair[1].least.0);
        apart && order.eq([Medium::Cx4, Medium::Fibre, Medium::BaseT])
    };
    let of = |medium: Medium| {
        let card = solarflare.iter().find(|card| card.medium == Some(medium));
        let idle = card.and_then(|card| card.idle()).map(|watts| watts.0);
        idle.ok_or_else(|| lacks("a Solarflare card of each medium"))
    };
    let offload = offload(ten);
    let offload = offload.first().ok_or_else(|| lacks("an offload card"))?;
    let orders = (in_order(&solarflare), in_order(ten));
    Ok(vec![
        plan.check("idle-range", &[least, most])?
            .note("the text rounds to 5 and 20 W; Table II has 4.6 and 21.2 W"),
        plan.check("baseline-increase", &[5.0 / 250.0 * 100.0, 20.0 / 150.0 * 100.0])?.note(format!(
            "with Table II's own extremes it is {:.1} to {:.1} %",
            least / 2.5,
            most / 1.5
        )),
        plan.check("idle-spread", &[most / least])?
            .contradiction("called an order of magnitude; Table II gives 4.6 times"),
        plan.check("transceiver-idle", &[of(Medium::Fibre)? - of(Medium::Cx4)?])?,
        plan.holds("media-order", orders == (true, true), format!("{orders:?}"))?,
        plan.check("offload-ratio", &[offload.over_next])?.contradiction(
            "called an order of magnitude more than any CX4 or fibre card; Table II gives 2.3 times",
        ),
        plan.check("offload-rail", &[offload.share_of_12v])?,
    ])
}

fn by_links(plan: &'static Plan) -> Result<Figure, ReproduceError> {
    let file = cards()?;
    let mut table =
        Table::new(["card", "links", "idle_watts", "line_watts", "predicted_from_others_watts"]);
    let mut checks = Vec::new();
    let mut chart = Chart::new(
        "Table III: idle power over connected links",
        Axis::new("connected links").ticks_every(1.0),
        Axis::new("power (W)").from_zero(),
    );
    let (mut slopes, mut gap, mut shares) = (Vec::new(), 0.0_f64, Vec::new());
    let lines = [[0, 1], [3, 4]].map(|at| at.map(|index| printed_at("SO-074", index)));
    for ((name, claims), [base, slope]) in LINKS.into_iter().zip(lines) {
        let measured = &card(&file, name)?.idle_by_links;
        let (Some(line), Some(predicted)) =
            (LinkModel::fit(measured), LinkModel::left_out(measured))
        else {
            return Err(lacks(&format!("idle power by links of {name}")));
        };
        for (links, claim) in claims.iter().enumerate() {
            let (Some(ours), Some(watts)) = (predicted.get(links), measured.get(links)) else {
                return Err(lacks(&format!("{name} with {links} links")));
            };
            checks.push(plan.each("links-left-out", claim, &format!("{name}, {links}"), ours.0)?);
            table.row([
                name.into(),
                links.to_string(),
                watts.0.to_string(),
                format!("{:.3}", line.idle(links).0),
                format!("{:.3}", ours.0),
            ]);
        }
        let points = |of: &dyn Fn(usize) -> f64| -> Vec<(f64, f64)> {
            (0..measured.len()).map(|links| (links as f64, of(links))).collect()
        };
        chart = chart
            .series(format!("{name}: line"), Mark::Line, points(&|links| line.idle(links).0))
            .series(format!("{name}: printed"), Mark::Published, points(&|l| measured[l].0));
        gap = gap.max((line.base.0 - base).abs()).max((line.per_link.0 - slope).abs());
        slopes.push((name, line.per_link.0));
        shares.push(measured[0] / measured[measured.len() - 1] * 100.0);
    }
    for (name, slope) in slopes {
        checks.push(plan.check("watt-per-link", &[slope])?.note(name));
    }
    checks.push(plan.check("link-model", &[gap])?);
    checks.push(plan.check("fixed-share", &shares)?.contradiction(
        "40 % and 85 % are attributed to Intel's 2x1G and 4x1G; Table III gives the 4x1G card \
         64 %, and 85 % is Broadcom's",
    ));
    Ok(Figure {
        id: "table3",
        title: "Table III: idle power by number of links".into(),
        about: "A line through all points, and each point predicted by a line through the others."
            .into(),
        table,
        plots: vec![chart.svg()],
        checks: on_tables(checks),
    })
}
