//! `[parts]` of a server file: a model composed of cores, platform, cards, links and receive path
//! from other files.

use crate::components::{ComponentFile, NicCard, ReceiveCycles};
use crate::input::{Figure, Section};
use crate::model::{Application, ETHERNET_OVERHEAD_BYTES, Path, PathCost, PowerPart, ServerModel};
use std::fmt::Display;
use wattline_units::{BitsPerSecond, Span, Watts};

/// Cards of the published table.
const CARDS: &str = "sohan-2010-nics";
/// Published and modelled receive paths.
const RECEIVE: &str = "liao-2011-host";

/// A complete model with its figures.
pub(crate) type Whole = (ServerModel, Vec<Figure>);

/// Reads `[parts]` and applies it to the file's `own` model, or to the model that `cores` names.
pub(crate) fn assemble(
    section: &Section<'_, '_>,
    own: Option<ServerModel>,
    load: impl Fn(&str) -> Result<Whole, String>,
) -> Option<Whole> {
    let load = |key| {
        let name = section.optional_text(key)?;
        load(&name).map_err(|error| section.contradiction(key, error)).ok()
    };
    let (cores, platform) = (load("cores"), load("platform"));
    let cards = section.texts("cards");
    let cards_from = section.optional_text("cards_from");
    let link = section.optional_number("link_gbps", 0.001..=10_000.0);
    let receive = section.optional_text("receive");
    let receive_from = section.optional_text("receive_from");
    for (key, from, other) in [
        ("platform", section.has("platform"), "cores"),
        ("cards_from", cards_from.is_some(), "cards"),
        ("receive_from", receive_from.is_some(), "receive"),
    ] {
        if from && !section.has(other) {
            section.contradiction(key, format!("needs {other} as well"));
        }
    }
    let (mut model, mut figures) = match (cores, section.has("cores")) {
        (Some(cores), _) => cores,
        (None, false) => (own?, Vec::new()),
        (None, true) => return None,
    };
    if let Some((platform, more)) = platform {
        put_platform(&mut model, &platform);
        let keeps = |figure: &Figure| is_of_cores(&figure.field);
        figures.retain(keeps);
        figures.extend(more.into_iter().filter(|figure| !keeps(figure)));
    }
    if let Some(link) = link {
        figures.retain(|figure| figure.field != "nic.link_gbps");
        put_link(&mut model, BitsPerSecond(link * 1e9));
    }
    if let Some(names) = cards {
        let from = cards_from.as_deref().unwrap_or(CARDS);
        figures.retain(|figure| !replaced_by_cards(&figure.field));
        figures.extend(put_cards(section, &mut model, &names, from, link.is_some())?);
    }
    if let Some(name) = receive {
        let from = receive_from.as_deref().unwrap_or(RECEIVE);
        figures.retain(|figure| figure.field != "path.kernel.cycles_per_packet");
        figures.extend(put_receive(section, &mut model, &name, from)?);
    }
    Some((model, figures))
}

fn is_of_cores(field: &str) -> bool {
    let sections =
        ["processor.", "idle_state[", "capacity.", "application.", "wake_up.", "path.", "bolla."];
    let power = ["power.core_", "power.uncore_", "power.base.cpu_packages_"];
    sections.iter().chain(&power).any(|start| field.starts_with(start))
}

fn replaced_by_cards(field: &str) -> bool {
    let replaced =
        ["power.base.nic_port_watts", "power.traffic_watts_per_gbps", "nic.ports", "nic.link_gbps"];
    replaced.contains(&field)
}

/// Puts the cores of `model` on another platform, with its cards.
fn put_platform(model: &mut ServerModel, platform: &ServerModel) {
    let cpu_packages = model.power.base.cpu_packages;
    model.power.base = platform.power.base;
    model.power.base.cpu_packages = cpu_packages;
    model.power.traffic_per_gigabit = platform.power.traffic_per_gigabit;
    model.power.memory_share_of_awake = platform.power.memory_share_of_awake;
    model.nic.clone_from(&platform.nic);
    for part in [PowerPart::Platform, PowerPart::Cards, PowerPart::Traffic] {
        let of = |from: &ServerModel| from.sources.of.get(&part).cloned().unwrap_or_default();
        let mut source = of(platform);
        let packages = of(model);
        if part == PowerPart::Platform && packages != source {
            source = format!("{source}; processor packages: {packages}");
        }
        model.sources.of.insert(part, source);
    }
}

/// Sets the speed of all links, which changes the transmission time of short packets.
fn put_link(model: &mut ServerModel, link: BitsPerSecond) {
    let on = |link: BitsPerSecond| f64::from(8 * (64 + ETHERNET_OVERHEAD_BYTES)) / link.0;
    let seconds = model.nic.pass_through.as_seconds() + on(link) - on(model.nic.link);
    model.nic.pass_through = Span::from_seconds(seconds.max(0.0));
    model.nic.link = link;
}

/// Replaces the model's cards by cards of a component file.
fn put_cards(
    section: &Section<'_, '_>,
    model: &mut ServerModel,
    names: &[String],
    from: &str,
    link_named: bool,
) -> Option<Vec<Figure>> {
    let refused = |why: String| section.contradiction("cards", why);
    let file = open(section, "cards_from", from)?;
    let mut figures = Vec::new();
    let (mut ports, mut idle, mut links, mut per_gigabit) = (0, Watts::ZERO, Watts::ZERO, 0.0);
    for (place, name) in names.iter().enumerate() {
        let Some(index) = file.cards.iter().position(|card| card.name == *name) else {
            refused(unknown("card", name, from, file.cards.iter().map(|card| &card.name)));
            return None;
        };
        let card = &file.cards[index];
        let Some((without_links, with_links, slope)) = watts(card) else {
            let complete = file.cards.iter().filter(|card| watts(card).is_some());
            let why = unknown(
                "idle and active power and throughput of",
                name,
                from,
                complete.map(|it| &it.name),
            );
            refused(why);
            return None;
        };
        if !link_named && place == 0 {
            put_link(model, card.link);
        }
        if card.link != model.nic.link {
            let [own, all] = [card.link, model.nic.link].map(|link| link.0 / 1e9);
            refused(format!(
                "{name:?} was measured with links of {own} Gbit/s, not of {all}: give cards and \
                 link_gbps of one speed"
            ));
            return None;
        }
        let own = card.ports.unwrap_or(1);
        ports += own;
        idle += with_links;
        links += with_links - without_links;
        per_gigabit += slope * own as f64;
        if !names[..place].contains(name) {
            figures.extend(figures_of(&file, &format!("card[{index}]."), name));
        }
    }
    model.nic.ports = ports;
    model.power.base.nic = idle;
    model.power.traffic_per_gigabit = Watts(per_gigabit / ports as f64);
    model.sources.links = links;
    let source = source(from, &figures, &file.source);
    let table = format!("{}; {source}", counted(names));
    for part in [PowerPart::Cards, PowerPart::Traffic] {
        model.sources.of.insert(part, table.clone());
    }
    model.sources.of.remove(&PowerPart::Links);
    if links != Watts::ZERO {
        model.sources.of.insert(PowerPart::Links, table);
    }
    Some(figures)
}

/// Returns the idle power without and with all links, and watts per forwarded Gbit/s. A forwarded
/// bit counts in both directions, as in the table's throughput.
fn watts(card: &NicCard) -> Option<(Watts, Watts, f64)> {
    let idle = card.idle()?;
    let gigabits = card.throughput.filter(|it| it.0 > 0.0)?.0 / 1e9;
    let without = card.idle_by_links.first().copied().unwrap_or(idle);
    Some((without, idle, 2.0 * (card.active? - idle).0 / gigabits))
}

/// Replaces the kernel's cost of a packet by a receive path and the model's own IPv4 forwarding.
fn put_receive(
    section: &Section<'_, '_>,
    model: &mut ServerModel,
    name: &str,
    from: &str,
) -> Option<Vec<Figure>> {
    let file = open(section, "receive_from", from)?;
    let Some(index) = file.receive_paths.iter().position(|path| path.name == name) else {
        let known = file.receive_paths.iter().map(|path| &path.name);
        section.contradiction("receive", unknown("receive path", name, from, known));
        return None;
    };
    let Some(ipv4) = model.applications.get(&Application::Ipv4) else {
        section.contradiction("receive", "needs [application.ipv4], whose cycles are added".into());
        return None;
    };
    let ReceiveCycles { driver, release, .. } = file.receive_paths[index];
    let cycles_per_packet = driver + release + ipv4.cycles_per_packet;
    let own = model.paths.get(&Path::Kernel).copied();
    let cost =
        own.unwrap_or(PathCost { cycles_per_packet, wake_up_cycles: None, interrupt_cycles: None });
    model.paths.insert(Path::Kernel, PathCost { cycles_per_packet, ..cost });
    model.sources.receive_cycles = driver + release;
    let figures = figures_of(&file, &format!("receive_path[{index}]."), name);
    let text = format!(
        "{name}: {} of the {cycles_per_packet} cycles of an IPv4 packet; {}; watts as cores",
        driver + release,
        source(from, &figures, &file.source)
    );
    model.sources.of.insert(PowerPart::Receive, text);
    Some(figures)
}

fn open(section: &Section<'_, '_>, key: &'static str, name: &str) -> Option<ComponentFile> {
    let file = ComponentFile::load(name);
    file.map_err(|error| section.contradiction(key, one_line(&error))).ok()
}

/// Returns the figures of one part of a component file, under its name instead of its number.
fn figures_of(file: &ComponentFile, start: &str, name: &str) -> Vec<Figure> {
    let part = |figure: &Figure| {
        let field = format!("parts.{name}.{}", figure.field.strip_prefix(start)?);
        Some(Figure { field, ..figure.clone() })
    };
    file.figures.iter().filter_map(part).collect()
}

/// Formats an error of another file on one line.
pub(crate) fn one_line(error: &impl Display) -> String {
    error.to_string().replace('\n', "; ")
}

fn unknown<'n>(
    kind: &str,
    name: &str,
    from: &str,
    known: impl Iterator<Item = &'n String>,
) -> String {
    let known = known.map(String::as_str).collect::<Vec<_>>().join(", ");
    format!("{from} has no {kind} {name:?}; allowed: {known}")
}

/// Formats names with their counts: `4 x Solarflare(Fibre)`.
fn counted(names: &[String]) -> String {
    let mut counted: Vec<(&str, usize)> = Vec::new();
    for name in names {
        match counted.iter_mut().find(|(known, _)| known == name) {
            Some((_, count)) => *count += 1,
            None => counted.push((name, 1)),
        }
    }
    let words = counted.iter().map(|(name, count)| format!("{count} x {name}"));
    words.collect::<Vec<_>>().join(", ")
}

/// Describes the file, the origins of the figures and the publication.
fn source<'f>(
    name: &str,
    figures: impl IntoIterator<Item = &'f Figure>,
    publication: &str,
) -> String {
    let mut origins: Vec<&str> = Vec::new();
    for figure in figures {
        let origin = figure.origin.name();
        if !origins.contains(&origin) {
            origins.push(origin);
        }
    }
    format!("{name} ({}): {publication}", origins.join(", "))
}

/// Notes the file as the source of each part that no other file gives.
pub(crate) fn name_sources(model: &mut ServerModel, publication: &str, figures: &[Figure]) {
    for part in PowerPart::ALL {
        let of_part = |figure: &&Figure| {
            let Some(field) = figure.field.strip_prefix("power.") else {
                return part == PowerPart::IdleCores && figure.field.starts_with("idle_state[");
            };
            match part {
                PowerPart::Cores => field.starts_with("core_"),
                PowerPart::Uncore => field.starts_with("uncore_"),
                PowerPart::Platform => field.starts_with("base.") && !field.contains("nic_port"),
                PowerPart::Cards => field == "base.nic_port_watts",
                PowerPart::Traffic => field.starts_with("traffic_"),
                PowerPart::IdleCores | PowerPart::Receive | PowerPart::Links => false,
            }
        };
        let of_part: Vec<&Figure> = figures.iter().filter(of_part).collect();
        if !of_part.is_empty() {
            let text = source(&model.name, of_part, publication);
            model.sources.of.entry(part).or_insert(text);
        }
    }
}
