//! Component data (`crates/server/servers/components/*.toml`): network cards and hosts whose papers
//! print the power of parts instead of a whole router.

use crate::input::{Document, Figure, InvalidFile, LoadError, Origin, Section};
use crate::library;
use serde::Serialize;
use wattline_units::{BitsPerSecond, Watts};

/// A file of component data.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ComponentFile {
    /// Name of the file's data.
    pub name: String,
    /// Description in one line.
    pub description: String,
    /// Source of the figures.
    pub source: String,
    /// Network cards.
    pub cards: Vec<NicCard>,
    /// Machines in which the figures were measured.
    pub machines: Vec<Machine>,
    /// Power of a machine's parts under a load.
    pub scenarios: Vec<Scenario>,
    /// Cycles of a received packet.
    pub receive_paths: Vec<ReceiveCycles>,
    /// Every figure with its origin.
    pub figures: Vec<Figure>,
}

/// Medium of a card's links.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Medium {
    /// Short-range copper, IEEE 802.3ak.
    Cx4,
    /// Optical fibre, IEEE 802.3ae.
    Fibre,
    /// Twisted pair, IEEE 802.3an or 802.3ab.
    BaseT,
}

/// A network card; `None` for values that its source does not give.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NicCard {
    /// Name in the paper.
    pub name: String,
    /// Part number of the maker.
    pub part: Option<String>,
    /// Medium of its links.
    pub medium: Option<Medium>,
    /// Bit rate of one link.
    pub link: BitsPerSecond,
    /// Number of ports.
    pub ports: Option<usize>,
    /// True if the card has a TCP offload engine.
    pub offload: Option<bool>,
    /// Idle power on the 3.3 V rail.
    pub idle_3v3: Option<Watts>,
    /// Idle power on the 12 V rail.
    pub idle_12v: Option<Watts>,
    /// Total idle power, if the source does not split it by rail.
    pub idle_total: Option<Watts>,
    /// Idle power with 0, 1, 2, … connected links; empty if it was not measured.
    pub idle_by_links: Vec<Watts>,
    /// Power under load.
    pub active: Option<Watts>,
    /// Throughput under that load, both directions together.
    pub throughput: Option<BitsPerSecond>,
    /// Processor load of the host under that load, in percent of one processor.
    pub host_cpu_percent: Option<f64>,
}

/// Description of a machine.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Machine {
    /// Name within the file.
    pub name: String,
    /// Processors.
    pub cpu: Option<String>,
    /// Memory and caches.
    pub memory: Option<String>,
    /// Bus and cards.
    pub io_bus: Option<String>,
    /// Operating system and tools.
    pub software: Option<String>,
    /// Logical processors.
    pub logical_processors: Option<usize>,
}

/// Direction of the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// The host receives.
    Receive,
    /// The host sends.
    Transmit,
}

/// Power that a load adds to an idle machine, by component.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Scenario {
    /// Name of the scenario.
    pub name: String,
    /// Direction of the data.
    pub direction: Direction,
    /// Bytes per read or write call.
    pub io_bytes: u32,
    /// Goodput.
    pub throughput: Option<BitsPerSecond>,
    /// Added power of the whole machine, measured at the wall.
    pub total: Watts,
    /// Added power of the processors.
    pub cpu: Option<Watts>,
    /// Added power of the memory.
    pub memory: Option<Watts>,
    /// Added power of the network card.
    pub nic: Option<Watts>,
}

/// Cycles of the kernel's receive path per packet, for any recipient.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReceiveCycles {
    /// Name of the path.
    pub name: String,
    /// Cycles of the driver.
    pub driver: f64,
    /// Cycles of returning buffers to the allocator.
    pub release: f64,
}

impl ComponentFile {
    /// Loads shipped component data by name, or a file by its path.
    pub fn load(name_or_path: &str) -> Result<Self, LoadError> {
        let text = library::read(name_or_path, library::Kind::Components)?;
        Ok(Self::parse(name_or_path, &text)?)
    }

    /// Parses the text of a component file; `file` names it in errors.
    pub fn parse(file: &str, text: &str) -> Result<Self, InvalidFile> {
        let document = Document::parse(file, text);
        let read = document.read(Self::read);
        let figures = document.finish()?;
        let missing = || InvalidFile { file: file.to_string(), problems: Vec::new() };
        Ok(Self { figures, ..read.ok_or_else(missing)? })
    }

    /// Returns the card with this name.
    pub fn card(&self, name: &str) -> Option<&NicCard> {
        self.cards.iter().find(|card| card.name == name)
    }

    fn read(root: &Section<'_, '_>) -> Option<Self> {
        let origin = root.choice_or_first("origin", &Origin::NAMES);
        root.document().set_default_origin(origin.unwrap_or(Origin::User));
        let (name, description) = (root.text("name"), root.text("description"));
        let source = root.text("source");
        Some(Self {
            cards: root.sections("card", NicCard::read),
            machines: root.sections("machine", Machine::read),
            scenarios: root.sections("scenario", Scenario::read),
            receive_paths: root.sections("receive_path", ReceiveCycles::read),
            figures: Vec::new(),
            name: name?,
            description: description?,
            source: source?,
        })
    }
}

impl NicCard {
    /// Returns the idle power with all links connected: the sum of the rails, or the total as
    /// measured.
    pub fn idle(&self) -> Option<Watts> {
        let rails = self.idle_3v3.zip(self.idle_12v).map(|(low, high)| low + high);
        rails.or(self.idle_total).or(self.idle_by_links.last().copied())
    }

    /// Returns the paper's first metric: throughput per watt of the card, in Gbit/s per W.
    pub fn gigabits_per_watt(&self) -> Option<f64> {
        Some(self.throughput?.0 / 1e9 / self.active?.0)
    }

    /// Returns the paper's second metric: throughput per watt of card and host, in Gbit/s per W.
    /// The host draws `idle`, plus `per_cpu_percent` for each percent of one processor.
    pub fn server_gigabits_per_watt(&self, idle: Watts, per_cpu_percent: Watts) -> Option<f64> {
        let host = idle + per_cpu_percent * self.host_cpu_percent?;
        Some(self.throughput?.0 / 1e9 / (host + self.active?).0)
    }

    fn read(section: &Section<'_, '_>) -> Option<Self> {
        let watts = |key| section.optional_number(key, 0.0..=1000.0).map(Watts);
        let gigabits = |number: f64| BitsPerSecond(number * 1e9);
        let name = section.text("name");
        let link = section.number("link_gbps", 0.001..=10_000.0);
        let media = [("cx4", Medium::Cx4), ("fibre", Medium::Fibre), ("base-t", Medium::BaseT)];
        let by_links = section.has("idle_watts_by_links");
        let by_links =
            by_links.then(|| section.numbers("idle_watts_by_links", 0.0..=1000.0)).flatten();
        let card = Self {
            part: section.optional_text("part"),
            medium: section.optional_choice("medium", &media),
            ports: section.optional_number("ports", 1.0..=64.0).map(|ports| ports as usize),
            offload: section.optional_choice("offload", &[("yes", true), ("no", false)]),
            idle_3v3: watts("idle_3v3_watts"),
            idle_12v: watts("idle_12v_watts"),
            idle_total: watts("idle_watts"),
            idle_by_links: by_links.unwrap_or_default().into_iter().map(Watts).collect(),
            active: watts("active_watts"),
            throughput: section.optional_number("throughput_gbps", 0.0..=1e5).map(gigabits),
            host_cpu_percent: section.optional_number("host_cpu_percent", 0.0..=1e5),
            link: gigabits(link?),
            name: name?,
        };
        if let (Some(idle), Some(active)) = (card.idle(), card.active)
            && active.0 < idle.0
        {
            let why = format!("is below the card's idle power, {idle:.1}");
            section.contradiction("active_watts", why);
        }
        if let (Some(throughput), Some(ports)) = (card.throughput, card.ports)
            && throughput.0 > 2.0 * ports as f64 * card.link.0
        {
            section.contradiction("throughput_gbps", "is more than all links carry".into());
        }
        Some(card)
    }
}

impl ReceiveCycles {
    fn read(section: &Section<'_, '_>) -> Option<Self> {
        let (name, cycles) = (section.text("name"), |key| section.number(key, 0.0..=1e9));
        let (driver, release) = (cycles("driver_cycles"), cycles("release_cycles"));
        Some(Self { name: name?, driver: driver?, release: release? })
    }
}

impl Machine {
    fn read(section: &Section<'_, '_>) -> Option<Self> {
        let processors = section.optional_number("logical_processors", 1.0..=65_536.0);
        let name = section.text("name");
        Some(Self {
            cpu: section.optional_text("cpu"),
            memory: section.optional_text("memory"),
            io_bus: section.optional_text("io_bus"),
            software: section.optional_text("software"),
            logical_processors: processors.map(|count| count as usize),
            name: name?,
        })
    }
}

impl Scenario {
    /// Returns the part of the total that no component accounts for; `None` if a component is
    /// unknown.
    pub fn unexplained(&self) -> Option<Watts> {
        Some(self.total - (self.cpu? + self.memory? + self.nic?))
    }

    fn read(section: &Section<'_, '_>) -> Option<Self> {
        let watts = |key| section.optional_number(key, 0.0..=10_000.0).map(Watts);
        let name = section.text("name");
        let direction = section.choice(
            "direction",
            &[("receive", Direction::Receive), ("transmit", Direction::Transmit)],
        );
        let io_bytes = section.count("io_bytes", 1..=u32::MAX);
        let total = section.number("total_watts", 0.0..=10_000.0);
        let throughput = section.optional_number("throughput_gbps", 0.0..=1e5);
        let (cpu, memory, nic) = (watts("cpu_watts"), watts("memory_watts"), watts("nic_watts"));
        let scenario = Self {
            name: name?,
            direction: direction?,
            io_bytes: io_bytes?,
            throughput: throughput.map(|gigabits| BitsPerSecond(gigabits * 1e9)),
            total: Watts(total?),
            cpu,
            memory,
            nic,
        };
        if scenario.unexplained().is_some_and(|rest| rest.0 < 0.0) {
            section.contradiction("total_watts", "is less than the sum of its parts".into());
        }
        Some(scenario)
    }
}
