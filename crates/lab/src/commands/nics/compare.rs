//! `wattline nics compare`: comparison of cards by media, offload, links and ports.

use serde::Serialize;
use serde_json::Value;
use std::io::Write;
use wattline::exit::ExitError;
use wattline::output;
use wattline_report::columns::{Columns, cell, number, text};
use wattline_server::ComponentFile;
use wattline_server::components::NicCard;
use wattline_study::cards::LinkModel;
use wattline_study::cards::analysis::{
    MediumPower, OffloadPower, PortUse, by_medium, offload, one_gigabit, ports, ranked, ten_gigabit,
};

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
    let mut media = Columns::new([
        text("medium of 10G"),
        number("cards"),
        number("least idle W"),
        number("most idle W"),
    ]);
    for medium in &all.media_of_10g {
        let name = serde_json::to_value(medium.medium).ok();
        let name = name.as_ref().and_then(Value::as_str).unwrap_or("-").to_owned();
        let (least, most) = (cell(Some(medium.least.0), 1), cell(Some(medium.most.0), 1));
        media.row([name, medium.cards.to_string(), least, most]);
    }
    let mut engines = Columns::new([
        text("offload engine"),
        number("times the next"),
        number("above the others W"),
        number("12 V share, %"),
    ]);
    for card in &all.offload {
        engines.row([
            card.name.clone(),
            cell(Some(card.over_next), 1),
            cell(Some(card.above_mean.0), 1),
            cell(Some(card.share_of_12v * 100.0), 0),
        ]);
    }
    let mut links =
        Columns::new([text("links"), number("without W"), number("per link W"), number("fixed %")]);
    for card in &all.links {
        links.row([
            card.name.to_owned(),
            cell(Some(card.model.base.0), 2),
            cell(Some(card.model.per_link.0), 2),
            cell(Some(card.fixed_percent), 0),
        ]);
    }
    let mut ports = Columns::new([
        text("ports of 1G"),
        number("ports"),
        number("both directions, %"),
        number("W per port"),
    ]);
    for card in &all.ports {
        ports.row([
            card.name.clone(),
            card.ports.to_string(),
            cell(Some(card.share * 100.0), 1),
            cell(Some(card.watts_per_port.0), 2),
        ]);
    }
    let mut ranking =
        Columns::new([text("1G against 10G"), number("link Gbit/s"), number("Gbit/s per W")]);
    for card in &all.ranking {
        ranking.row([
            card.name.to_owned(),
            cell(Some(card.link_bits_per_second / 1e9), 0),
            cell(Some(card.gigabits_per_second_per_watt), 3),
        ]);
    }
    write!(out, "{media}\n{engines}\n{links}\n{ports}\n{ranking}")
}
