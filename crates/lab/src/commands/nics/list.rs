//! `wattline nics` and `wattline nics show NAME`.

use crate::commands::servers;
use serde::Serialize;
use serde_json::{Value, json};
use std::io::Write;
use wattline::exit::ExitError;
use wattline::output;
use wattline_report::columns::{Columns, cell, number, text};
use wattline_server::components::NicCard;
use wattline_server::{ComponentFile, Figure};
use wattline_study::cards::{DevicePowerModel, LinkModel};

/// Card to show.
#[derive(Debug, clap::Args)]
pub struct ShowArgs {
    /// Its name, as `wattline nics` lists it, or its part number.
    name: String,
    /// Print it as a power model in NetPowerBench's YAML.
    #[arg(long)]
    power_model: bool,
}

impl ShowArgs {
    /// Creates arguments that show this card without its power model.
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), power_model: false }
    }
}

#[derive(Serialize)]
struct List<'f> {
    source: &'f str,
    cards: Vec<Value>,
}

/// Lists all cards, one per line.
pub fn list(file: &ComponentFile, json: bool) -> Result<(), ExitError> {
    let cards = file.cards.iter().map(card_json).collect();
    output::print(&List { source: &file.source, cards }, json, |out, _| {
        let mut table = Columns::new([
            text("name"),
            text("medium"),
            number("link Gbit/s"),
            number("ports"),
            number("idle W"),
            number("active W"),
            number("load Gbit/s"),
            number("CPU %"),
            number("Gbit/s per W"),
        ]);
        for card in &file.cards {
            table.row([
                card.name.clone(),
                medium(card),
                cell(Some(card.link.0 / 1e9), 0),
                card.ports.map_or("-".into(), |ports| ports.to_string()),
                cell(card.idle().map(|watts| watts.0), 1),
                cell(card.active.map(|watts| watts.0), 1),
                cell(card.throughput.map(|rate| rate.0 / 1e9), 1),
                cell(card.host_cpu_percent, 1),
                cell(card.gigabits_per_watt(), 2),
            ]);
        }
        writeln!(out, "{table}\nfrom {}", file.source)
    })
}

/// Shows one card, with the origin of each figure.
pub fn show(file: &ComponentFile, args: &ShowArgs, json: bool) -> Result<(), ExitError> {
    let (index, card) = find(file, &args.name)?;
    if args.power_model {
        let model = DevicePowerModel::from_card(card, &file.source).ok_or_else(|| {
            let message = format!(
                "{}: its power was not measured over its links (`idle_watts_by_links`), which a \
                 power model needs for its base and its ports",
                card.name
            );
            ExitError::new(ExitError::DATA, message)
        })?;
        let yaml = model.to_yaml().map_err(|error| ExitError::new(ExitError::DATA, error))?;
        return output::print(&model, json, |out, _| write!(out, "{yaml}"));
    }
    let section = format!("card[{index}].");
    let figures: Vec<&Figure> =
        file.figures.iter().filter(|figure| figure.field.starts_with(&section)).collect();
    let mut value = card_json(card);
    value["source"] = json!(file.source);
    value["figures"] = json!(figures);
    value["link_model"] = json!(LinkModel::fit(&card.idle_by_links));
    output::print(&value, json, |out, _| {
        writeln!(out, "{} ({}, {})", card.name, card.part.as_deref().unwrap_or("-"), medium(card))?;
        writeln!(out, "from {}; its row is \"{}\"\n", file.source, card.name)?;
        let table = servers::figures(figures.iter().copied(), &section);
        writeln!(out, "{table}\ncomputed from them")?;
        let metric = cell(card.gigabits_per_watt(), 3);
        writeln!(out, "idle power              {} W", cell(card.idle().map(|w| w.0), 1))?;
        writeln!(out, "throughput per watt     {metric} Gbit/s per W of the card")?;
        if let Some(links) = LinkModel::fit(&card.idle_by_links) {
            writeln!(
                out,
                "idle power by links     {:.2} W + {:.2} W per connected link (least squares)",
                links.base.0, links.per_link.0
            )?;
        }
        Ok(())
    })
}

fn find<'f>(file: &'f ComponentFile, name: &str) -> Result<(usize, &'f NicCard), ExitError> {
    let matches = |card: &NicCard| {
        card.name.eq_ignore_ascii_case(name)
            || card.part.as_deref().is_some_and(|part| part.eq_ignore_ascii_case(name))
    };
    file.cards.iter().enumerate().find(|(_, card)| matches(card)).ok_or_else(|| {
        let known: Vec<&str> = file.cards.iter().map(|card| card.name.as_str()).collect();
        let message =
            format!("no card \"{name}\" in {}; there are {}", file.name, known.join(", "));
        ExitError::new(ExitError::USAGE, message)
    })
}

fn medium(card: &NicCard) -> String {
    card.medium
        .and_then(|medium| serde_json::to_value(medium).ok()?.as_str().map(str::to_owned))
        .unwrap_or_else(|| "-".to_owned())
}

fn card_json(card: &NicCard) -> Value {
    json!({
        "name": card.name,
        "part": card.part,
        "medium": card.medium,
        "ports": card.ports,
        "offload": card.offload,
        "link_bits_per_second": card.link,
        "idle_3v3_watts": card.idle_3v3,
        "idle_12v_watts": card.idle_12v,
        "idle_watts": card.idle(),
        "idle_by_links_watts": card.idle_by_links,
        "active_watts": card.active,
        "throughput_bits_per_second": card.throughput,
        "host_cpu_percent": card.host_cpu_percent,
        "gigabits_per_second_per_watt": card.gigabits_per_watt(),
    })
}
