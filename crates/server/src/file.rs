//! A server file: its name, all figures with their origins, and the models that it defines.

use crate::bolla::BollaModel;
use crate::input::{
    Document, Figure, FigureValue, Incomplete, InvalidFile, LoadError, Origin, Section,
};
use crate::library;
use crate::model::{
    ApplicationCost, Capacity, IdleState, MAX_CORES, Nic, Path, PathCost, PowerModel, Processor,
    ServerModel, Sources, WakeUpCost,
};
use crate::parts::{self, Whole};
use crate::requests::RequestServer;
use serde::Serialize;
use wattline_units::Hertz;

/// A valid server file; it may lack figures.
#[derive(Debug, Clone)]
pub struct ServerFile {
    /// Name of the model.
    pub name: String,
    /// Description in one line.
    pub description: String,
    /// Source of the figures.
    pub source: String,
    /// Description of the machine.
    pub platform: Platform,
    /// All figures in the order of the file's sections, including missing ones.
    pub figures: Vec<Figure>,
    /// Processors, if the file describes them completely.
    pub processor: Option<Processor>,
    /// Network ports, if the file describes them completely.
    pub nic: Option<Nic>,
    model: Option<ServerModel>,
    bolla: Option<BollaModel>,
    requests: Option<RequestServer>,
    absent: Vec<(&'static str, &'static str)>,
}

/// Description of a machine by its source; `None` for values that the source lacks.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Platform {
    /// Processors.
    pub cpu: Option<String>,
    /// Nominal clock.
    pub clock: Option<Hertz>,
    /// Caches.
    pub cache: Option<String>,
    /// Bus between processor and memory.
    pub bus: Option<String>,
    /// Memory.
    pub memory: Option<String>,
    /// Bus and cards for input and output.
    pub io_bus: Option<String>,
}

impl Platform {
    fn read(section: &Section<'_, '_>) -> Option<Self> {
        let clock = section.optional_number("clock_ghz", 0.01..=20.0);
        Some(Self {
            cpu: section.optional_text("cpu"),
            clock: clock.map(Hertz::from_gigahertz),
            cache: section.optional_text("cache"),
            bus: section.optional_text("bus"),
            memory: section.optional_text("memory"),
            io_bus: section.optional_text("io_bus"),
        })
    }
}

/// Sections that a simulation needs, with their required keys.
const SECTIONS: [(&str, &str); 7] = [
    ("processor", "sockets, cores_per_socket, frequencies_ghz, dvfs_domain"),
    ("idle_state", "name, power_watts, exit_latency_us of each"),
    ("capacity", "stall_ns_per_packet, contention_ns_per_core"),
    ("application", "cycles_per_packet of at least one"),
    ("wake_up", "fixed_us, cycles"),
    (
        "power",
        "core_awake_watts, core_awake_watts_per_ghz, uncore_watts_per_ghz, ... and [power.base]",
    ),
    ("nic", "ports, link_gbps, queues_per_port, redirect_table_entries, rx_ring_descriptors, ..."),
];

impl ServerFile {
    /// Loads a shipped model by name, or a file by its path.
    pub fn load(name_or_path: &str) -> Result<Self, LoadError> {
        let text = library::read(name_or_path, library::Kind::Servers)?;
        Ok(Self::parse(name_or_path, &text)?)
    }

    /// Parses the text of a server file; `file` names it in errors.
    pub fn parse(file: &str, text: &str) -> Result<Self, InvalidFile> {
        Self::parse_with(file, text, Self::whole)
    }

    /// Loads the complete model of a file without `[parts]`, for a file that names it in its parts.
    fn whole(name_or_path: &str) -> Result<Whole, String> {
        let text = library::read(name_or_path, library::Kind::Servers)
            .map_err(|error| parts::one_line(&error))?;
        let nested = |_: &str| Err("names parts itself; name a file without [parts]".to_owned());
        let file = Self::parse_with(name_or_path, &text, nested);
        let file = file.map_err(|error| parts::one_line(&error))?;
        let model = file.model().map_err(|error| parts::one_line(&error))?.clone();
        Ok((model, file.figures))
    }

    /// Parses a file; `load` gives the models that its parts name.
    fn parse_with(
        file: &str,
        text: &str,
        load: impl Fn(&str) -> Result<Whole, String>,
    ) -> Result<Self, InvalidFile> {
        let document = Document::parse(file, text);
        let read = document.read(|root| Self::read(root, load));
        let mut figures = document.finish()?;
        let Some(mut read) = read else {
            // `read` returns `None` only after it has noted a problem, which `finish` returns.
            return Err(InvalidFile { file: file.to_string(), problems: Vec::new() });
        };
        if let Some(model) = &mut read.model {
            parts::name_sources(model, &read.source, &figures);
        }
        figures.extend(read.figures);
        Ok(Self { figures, ..read })
    }

    /// Returns the model for simulations and closed forms.
    pub fn model(&self) -> Result<&ServerModel, Incomplete> {
        self.model.as_ref().ok_or_else(|| {
            let mut missing: Vec<(String, String)> = self
                .absent
                .iter()
                .map(|(section, keys)| (format!("[{section}]"), format!("absent; needs {keys}")))
                .collect();
            let figures = self.missing_figures("");
            let others =
                |field: &str| field.starts_with("bolla.") || field.starts_with("requests.");
            missing.extend(figures.into_iter().filter(|(field, _)| !others(field)));
            Incomplete {
                name: self.name.clone(),
                purpose: "simulation",
                fitted: self.figures.iter().any(|figure| {
                    figure.field == "bolla.active_watts" && figure.origin == Origin::Fitted
                }),
                missing,
            }
        })
    }

    /// Returns Bolla's model of the machine, for `optimise` and for comparison with measurements.
    pub fn bolla(&self) -> Result<&BollaModel, Incomplete> {
        self.bolla.as_ref().ok_or_else(|| {
            let mut missing = self.missing_figures("bolla.");
            missing.extend(self.missing_figures("processor."));
            if missing.is_empty() {
                missing.push(("[bolla]".to_string(), "the section is absent".to_string()));
            }
            Incomplete {
                name: self.name.clone(),
                purpose: "Bolla's equations",
                fitted: false,
                missing,
            }
        })
    }

    /// Returns the model of a request server, for `sim --requests`.
    pub fn requests(&self) -> Result<&RequestServer, Incomplete> {
        self.requests.as_ref().ok_or_else(|| {
            let mut missing = self.missing_figures("requests.");
            missing.extend(self.missing_figures("processor."));
            missing.extend(self.missing_figures("nic."));
            if missing.is_empty() {
                missing.push(("[requests]".to_string(), "the section is absent".to_string()));
            }
            Incomplete {
                name: self.name.clone(),
                purpose: "simulation of requests",
                fitted: false,
                missing,
            }
        })
    }

    /// Returns the fields below `section` that the file marks as missing, with the reasons.
    pub fn missing_figures(&self, section: &str) -> Vec<(String, String)> {
        let within = self.figures.iter().filter(|figure| figure.field.starts_with(section));
        within
            .filter_map(|figure| match &figure.value {
                FigureValue::Missing(reason) => Some((figure.field.clone(), reason.clone())),
                FigureValue::Number(_) | FigureValue::List(_) => None,
            })
            .collect()
    }

    fn read(root: &Section<'_, '_>, load: impl Fn(&str) -> Result<Whole, String>) -> Option<Self> {
        let origin = root.choice_or_first("origin", &Origin::NAMES);
        root.document().set_default_origin(origin.unwrap_or(Origin::User));
        let name = root.text("name");
        let description = root.text("description");
        let source = root.text("source");
        let absent: Vec<(&'static str, &'static str)> =
            SECTIONS.into_iter().filter(|(section, _)| !root.has(section)).collect();

        let platform = root.section("platform", Platform::read).unwrap_or_default();
        let processor = root.section("processor", Processor::read);
        let idle_states = root.sections("idle_state", IdleState::read);
        IdleState::check_order(root, &idle_states);
        let capacity = root.section("capacity", Capacity::read);
        let applications = root.section("application", ApplicationCost::read_all);
        let wake_up = root.section("wake_up", WakeUpCost::read);
        let paths = root.section("path", PathCost::read_all);
        let nic = root.section("nic", Nic::read);
        if let (Some(processor), Some(nic)) = (&processor, &nic) {
            check_cores(root, processor, nic);
        }
        let ports = nic.as_ref().map(|nic| nic.ports);
        let cards_named = root.has_within("parts", "cards");
        let power = root.section("power", |section| PowerModel::read(section, ports, cards_named));
        let frequencies = processor.as_ref().map(|processor| processor.frequencies.as_slice());
        let cores = processor.as_ref().map(Processor::cores);
        let bolla_name = name.as_deref().unwrap_or_default();
        let bolla = root
            .section("bolla", |section| BollaModel::read(section, bolla_name, frequencies, cores));

        let texts = [name.as_deref().unwrap_or(""), description.as_deref().unwrap_or("")];
        let requests = root.section("requests", |section| {
            RequestServer::read(section, texts, processor.as_ref(), nic.as_ref())
        });

        let (name, description, source) = (name?, description?, source?);
        let model = (|| {
            Some(ServerModel {
                name: name.clone(),
                description: description.clone(),
                processor: processor.clone()?,
                idle_states: (!idle_states.is_empty()).then_some(idle_states)?,
                capacity: capacity?,
                wake_up: wake_up?,
                power: power?,
                nic: nic.clone()?,
                applications: applications?,
                path: Path::Workers,
                paths: paths.unwrap_or_default(),
                sources: Sources::default(),
            })
        })();
        let (model, figures) = if root.has("parts") {
            check_sections(root);
            let whole = root.section("parts", |section| parts::assemble(section, model, load));
            let (mut model, figures) = whole.unzip();
            if let Some(model) = &mut model {
                (model.name, model.description) = (name.clone(), description.clone());
                check_cores(root, &model.processor, &model.nic);
            }
            (model, figures.unwrap_or_default())
        } else {
            (model, Vec::new())
        };
        if let Some(model) = &model {
            check_together(root, model);
        }
        Some(Self {
            name,
            description,
            source,
            platform,
            figures,
            processor: processor.or_else(|| Some(model.as_ref()?.processor.clone())),
            nic: nic.or_else(|| Some(model.as_ref()?.nic.clone())),
            model,
            bolla,
            requests,
            absent,
        })
    }
}

impl ServerModel {
    /// Loads a shipped model by name, or a file by its path; it must be complete for simulation.
    pub fn load(name_or_path: &str) -> Result<Self, LoadError> {
        Ok(ServerFile::load(name_or_path)?.model()?.clone())
    }
}

/// Checks that a file with `[parts]` either has all sections of a server or names the cores.
fn check_sections(root: &Section<'_, '_>) {
    let named = root.has_within("parts", "cores");
    let own = SECTIONS.iter().map(|(section, _)| *section).chain(named.then_some("path"));
    let wrong = own.filter(|section| root.has(section) == named).collect::<Vec<_>>().join(", ");
    if wrong.is_empty() {
        return;
    }
    let why = match named {
        true => format!("cores names a whole model; remove {wrong}, or cores"),
        false => format!("name cores, or give {wrong}"),
    };
    root.contradiction("parts", why);
}

/// Checks that no more cores have a queue than Wattline supports on one machine.
fn check_cores(root: &Section<'_, '_>, processor: &Processor, nic: &Nic) {
    let cores = processor.cores().min(nic.queues_per_port);
    if cores > MAX_CORES {
        let why = format!(
            "{cores} cores have a receive queue, and at most {MAX_CORES} can forward; set \
             nic.queues_per_port = {MAX_CORES}, so that the other cores stay parked"
        );
        root.contradiction("processor.cores_per_socket", why);
    }
}

/// Checks that concern several sections.
fn check_together(root: &Section<'_, '_>, model: &ServerModel) {
    let slowest = model.processor.lowest_frequency();
    let awake = model.awake_core_power(slowest);
    for state in &model.idle_states {
        if state.power > awake {
            let why = format!(
                "{} draws {}, more than an awake core at {} GHz ({awake:.3}, from [power])",
                state.name,
                state.power,
                slowest.gigahertz()
            );
            root.contradiction("idle_state", why);
        }
    }
    if let Some(deepest) = model.idle_states.last()
        && deepest.power.0 != 0.0
    {
        let why = format!(
            "{} is the deepest state, whose power is part of [power.base]; give 0, not {}",
            deepest.name, deepest.power
        );
        root.contradiction("idle_state", why);
    }
    let without_work = model.applications.iter().find(|(application, cost)| {
        cost.cycles_per_packet == 0.0
            && cost.cycles_per_byte == 0.0
            && model.packet_cost(**application, 64).is_none_or(|c| c.stall_seconds == 0.0)
    });
    if let Some((application, _)) = without_work {
        let why = format!("a packet of {application} takes no time at all: no cycles, no stall");
        root.contradiction("application", why);
    }
}
