//! `wattline nics compare`: what the cards have to say about media, offload, links and ports.

use super::cell::cell;
use crate::exit::ExitError;
use crate::output;
use serde::Serialize;
use serde_json::Value;
use std::io::Write;
use wattline_server::ComponentFile;
use wattline_server::cards::LinkModel;
use wattline_server::cards::analysis::{
    MediumPower, OffloadPower, PortUse, by_medium, offload, one_gigabit, ports, ranked, ten_gigabit,
};
use wattline_server::components::NicCard;

#[derive(Serialize)]
struct Comparison<'f> {
    source: &'f str,
    media_of_10g: Vec<MediumPower>,
    offload: Vec<OffloadPower>,
    links: Vec<Links<'f>>,
    ports: Vec<PortUse>,
    ranking: Vec<Rank<'f>>,
}

#[derive(Serialize)]
struct Links<'f> {
    name: &'f str,
    #[serde(flatten)]
    model: LinkModel,
    fixed_percent: f64,
}

#[derive(Serialize)]
struct Rank<'f> {
    name: &'f str,
    link_bits_per_second: f64,
    gigabits_per_second_per_watt: f64,
}

/// Runs the command.
pub fn run(file: &ComponentFile, json: bool) -> Result<(), ExitError> {
    let all: Vec<&NicCard> = file.cards.iter().collect();
    let ten = ten_gigabit(&file.cards);
    let links = file.cards.iter().filter_map(|card| {
        let (model, most) = (LinkModel::fit(&card.idle_by_links)?, card.idle_by_links.last()?);
        let fixed_percent = *card.idle_by_links.first()? / *most * 100.0;
        Some(Links { name: &card.name, model, fixed_percent })
    });
    let rank = |(card, metric): (&'_ NicCard, f64)| (card.link.0, metric);
    let comparison = Comparison {
        source: &file.source,
        media_of_10g: by_medium(&ten),
        offload: offload(&ten),
        links: links.collect(),
        ports: ports(&one_gigabit(&file.cards)),
        ranking: ranked(&all, NicCard::gigabits_per_watt)
            .into_iter()
            .map(|entry| {
                let (link_bits_per_second, gigabits_per_second_per_watt) = rank(entry);
                Rank { name: &entry.0.name, link_bits_per_second, gigabits_per_second_per_watt }
            })
            .collect(),
    };
    output::print(&comparison, json, table)
}

fn table(out: &mut impl Write, all: &Comparison<'_>) -> std::io::Result<()> {
    writeln!(out, "medium of 10G     cards  least idle W  most idle W")?;
    for medium in &all.media_of_10g {
        let name = serde_json::to_value(medium.medium).ok();
        let name = name.as_ref().and_then(Value::as_str).unwrap_or("-");
        writeln!(
            out,
            "{name:<17}{:>6}{:>14.1}{:>13.1}",
            medium.cards, medium.least.0, medium.most.0
        )?;
    }
    writeln!(out, "\noffload engine            times the next  above the others W  of it 12 V")?;
    for card in &all.offload {
        let share = card.share_of_12v * 100.0;
        writeln!(
            out,
            "{:<26}{:>14.1}{:>20.1}{:>9.0} %",
            card.name, card.over_next, card.above_mean.0, share
        )?;
    }
    writeln!(out, "\nlinks                     without W  per link W  fixed")?;
    for card in &all.links {
        let (base, slope) = (card.model.base.0, card.model.per_link.0);
        writeln!(out, "{:<26}{base:>9.2}{slope:>12.2}{:>5.0} %", card.name, card.fixed_percent)?;
    }
    writeln!(out, "\nports of 1G               ports  of both directions  W per port")?;
    for card in &all.ports {
        let share = card.share * 100.0;
        writeln!(
            out,
            "{:<26}{:>5}{share:>18.1} %{:>12.2}",
            card.name, card.ports, card.watts_per_port.0
        )?;
    }
    writeln!(out, "\n1G against 10G            link Gbit/s  Gbit/s per W")?;
    for card in &all.ranking {
        let link = cell(Some(card.link_bits_per_second / 1e9), 0);
        writeln!(out, "{:<26}{link:>11}{:>14.3}", card.name, card.gigabits_per_second_per_watt)?;
    }
    Ok(())
}
