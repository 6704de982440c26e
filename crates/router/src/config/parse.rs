//! From the text of a configuration to [`Config`].

use super::keys::Section;
use super::power::read_power;
use super::problem::{ConfigError, Problem, Problems};
use super::reader::{At, Reader, SYNTAX, Table, defaulted, whole};
use super::section::Sections;
use super::settings::*;
use super::tables::{single, single_or_empty};
use super::words::*;
use super::{dpdk, ports, routes_file, statics};
use std::collections::HashSet;
use std::net::SocketAddr;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use toml::de::{DeTable, DeValue};

/// Longest path of a Unix socket, with room for the terminating zero (unix(7)).
const LONGEST_SOCKET_PATH: usize = 100;

impl Config {
    /// Reads and checks a configuration file, in which the sections of these applications may stand;
    /// paths in it are relative to its directory.
    ///
    /// # Errors
    /// When it cannot be read, or with everything that is wrong in it.
    pub fn load(path: &Path, sections: Sections<'_>) -> Result<Self, ConfigError> {
        Self::load_beside(path, sections, &[])
    }

    /// The same for a router that runs with these ports: a port keeps its place by its name, and a new
    /// one takes a vacant place or one behind all others. So what names ports by their place goes on
    /// to do so.
    ///
    /// # Errors
    /// As for [`Self::load`].
    pub fn load_beside(
        path: &Path,
        sections: Sections<'_>,
        present: &[PortSettings],
    ) -> Result<Self, ConfigError> {
        let unreadable =
            |source| ConfigError::Unreadable { named_by: "", path: path.to_owned(), source };
        let bytes = std::fs::read(path).map_err(unreadable)?;
        let file = path.display().to_string();
        let text = String::from_utf8(bytes).map_err(|error| not_text(&file, &error))?;
        let mut reader = Reader::new(&text, sections);
        let Draft { mut config, routes_file } = Draft::read(&mut reader, present);
        config.resolve_paths(path.parent().unwrap_or(Path::new("")));
        if reader.problems.is_empty() {
            return Ok(config);
        }
        let mut routes = None;
        if let (Some(span), Some(path)) = (routes_file, &config.routes_file) {
            let of_port = |problem: &Problem| problem.key.contains(Section::Port.heading());
            let unknown = config.ports.is_empty() || reader.has_syntax_error();
            let ports_are_known = !unknown && !reader.problems.iter().any(of_port);
            match routes_file::check(path, ports_are_known.then_some(&config)) {
                Ok(found) => routes = found.map(Box::new),
                Err(error) => reader.not_readable(Section::Top, "routes_file", &span, &error),
            }
        }
        Err(Problems { routes, ..reader.into_problems(file) }.into())
    }

    /// Checks the text of a configuration without applications; `file` is its name in messages.
    ///
    /// # Errors
    /// With everything that is wrong in it.
    pub fn parse(text: &str, file: &str) -> Result<Self, Problems> {
        Self::parse_with(text, file, &[])
    }

    /// The same, for a text in which the sections of these applications may stand.
    ///
    /// # Errors
    /// With everything that is wrong in it.
    pub fn parse_with(text: &str, file: &str, sections: Sections<'_>) -> Result<Self, Problems> {
        Self::parse_beside(text, file, sections, &[])
    }

    fn parse_beside(
        text: &str,
        file: &str,
        sections: Sections<'_>,
        present: &[PortSettings],
    ) -> Result<Self, Problems> {
        let mut reader = Reader::new(text, sections);
        let Draft { config, .. } = Draft::read(&mut reader, present);
        if reader.problems.is_empty() {
            Ok(config)
        } else {
            Err(reader.into_problems(file.to_owned()))
        }
    }

    fn resolve_paths(&mut self, directory: &Path) {
        let resolve = |path: &mut PathBuf| *path = directory.join(&*path);
        self.routes_file.iter_mut().for_each(resolve);
        // Nobody else has them yet.
        for settings in self.applications.iter_mut().filter_map(Arc::get_mut) {
            settings.resolve_paths(directory);
        }
        for port in &mut self.ports {
            if let PortKind::Capture { read, write, .. } = &mut port.kind {
                read.iter_mut().chain(write).for_each(resolve);
            }
        }
    }
}

fn not_text(file: &str, error: &std::string::FromUtf8Error) -> Problems {
    let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
    let problem = Problem {
        line: good.iter().filter(|byte| **byte == b'\n').count() + 1,
        key: SYNTAX.to_owned(),
        value: String::new(),
        message: "is not UTF-8 text".to_owned(),
    };
    Problems { file: file.to_owned(), list: vec![problem], routes: None }
}

/// A configuration as far as it could be read: whole where the reader found no problem.
struct Draft {
    config: Config,
    /// Where the path of the file of routes stands.
    routes_file: Option<Range<usize>>,
}

impl Draft {
    fn read(reader: &mut Reader, present: &[PortSettings]) -> Self {
        let (document, errors) = DeTable::parse_recoverable(reader.text());
        for error in &errors {
            reader.syntax(error);
        }
        let root = Table { section: Section::Top, table: document.get_ref(), span: 0..0 };
        let (path, routes_file) =
            read_routes_file(reader, &root).map(|path| (path.value, path.span)).unzip();
        Self { config: read(reader, &root, path.map(PathBuf::from), present), routes_file }
    }
}

fn read(
    reader: &mut Reader,
    root: &Table,
    routes_file: Option<PathBuf>,
    present: &[PortSettings],
) -> Config {
    reader.refuse_unknown(root);
    // Before anything names a port by its place.
    let ports = ports::place(ports::read(reader, root), present);
    let (router, xdp_forward) = read_router(reader, root, &ports);
    let log_level = read_log(reader, root);
    let routes = statics::read_routes(reader, root, &ports);
    let neighbours = statics::read_neighbours(reader, root, &ports);
    let metrics = read_metrics(reader, root);
    let of_power = single_or_empty(reader, root, Section::Power, "power");
    let power = read_power(reader, &of_power);
    let of_dpdk = single_or_empty(reader, root, Section::Dpdk, "dpdk");
    let dpdk_arguments = dpdk::read(reader, &of_dpdk);
    if ports.iter().any(|port| port.kind.is_dpdk()) {
        let of_router = single_or_empty(reader, root, Section::Router, "router");
        dpdk::check(reader, (&ports, root), (&router, &of_router), (&power, &of_power));
    }
    let sections = reader.sections().iter();
    let applications = sections.filter_map(|section| section.read(reader, root, &ports)).collect();
    let config = Config {
        router,
        ports,
        routes,
        neighbours,
        routes_file,
        log_level,
        metrics,
        applications,
        power,
        dpdk_arguments,
    };
    if let Some(place) = xdp_forward {
        let obstacles = config.obstacles_to_xdp_forwarding();
        if !obstacles.is_empty() {
            let obstacles = obstacles.join(", ");
            let message = format!(
                "cannot be with {obstacles}: XDP programs forward by the kernel's tables alone, and \
                 no worker sees the packets"
            );
            reader.problem(Section::Router, "xdp_forward", &place, message);
        }
    }
    config
}

/// `[log]`: how much is logged.
pub fn read_log(reader: &mut Reader, root: &Table) -> LogLevel {
    let log = single_or_empty(reader, root, Section::Log, "log");
    reader.refuse_unknown(&log);
    defaulted(reader.parsed(&log, "level", parse_level))
}

/// `[metrics]`: where they are served.
pub fn read_metrics(reader: &mut Reader, root: &Table) -> Option<SocketAddr> {
    let metrics = single(reader, root, Section::Metrics, "metrics")?;
    reader.refuse_unknown(&metrics);
    Some(reader.parsed(&metrics, "listen", |text| text.parse().ok())?.value)
}

/// Reads a text that is no router's configuration: beside `[log]` and `[metrics]`, the sections of
/// these applications alone may stand in it. `daemon` is what reads the text, as messages name it.
///
/// # Errors
/// With everything that is wrong in it.
pub fn document<T>(
    (text, file): (&str, &str),
    daemon: &str,
    sections: Sections<'_>,
    read: impl FnOnce(&mut Reader, &Table) -> T,
) -> Result<T, Problems> {
    let mut reader = Reader::new(text, sections);
    let (document, errors) = DeTable::parse_recoverable(text);
    errors.iter().for_each(|error| reader.syntax(error));
    let root = Table { section: Section::Top, table: document.get_ref(), span: 0..0 };
    let own: Vec<&str> = sections.iter().flat_map(|section| section.names()).copied().collect();
    for name in ROUTERS {
        if let Some(span) = root.span_of(name).filter(|_| !own.contains(&name)) {
            let message = format!("belongs in the configuration of a router, not of {daemon}");
            reader.problem(Section::Top, name, &span, message);
        }
    }
    reader.refuse_unknown(&root);
    let read = read(&mut reader, &root);
    if reader.problems.is_empty() { Ok(read) } else { Err(reader.into_problems(file.to_owned())) }
}

/// What stands at the top level of a router's configuration alone.
const ROUTERS: [&str; 7] = ["routes_file", "router", "port", "route", "neighbour", "power", "dpdk"];

/// `routes_file` is taken wherever it stands: TOML counts what is written at the end of a file
/// to the last section, which is where such a line is commonly put.
fn read_routes_file(reader: &mut Reader, root: &Table) -> Option<At<String>> {
    let mut places = vec![root.clone()];
    for (_, value) in root.table {
        let here = |value: &toml::Spanned<DeValue<'_>>| value.span();
        match value.get_ref() {
            DeValue::Table(table) => {
                places.push(Table { section: Section::Top, table, span: here(value) });
            }
            DeValue::Array(items) => places.extend(items.iter().filter_map(|item| {
                let table = item.get_ref().as_table()?;
                Some(Table { section: Section::Top, table, span: here(item) })
            })),
            _ => {}
        }
    }
    let given: Vec<At<String>> =
        places.iter().filter_map(|place| reader.string(place, "routes_file")).collect();
    if let [_, second, ..] = given.as_slice() {
        let message = "is set twice: there is one file of routes".to_owned();
        reader.problem(Section::Top, "routes_file", &second.span, message);
    }
    given.into_iter().next()
}

/// The settings, and where it is asked for that XDP programs forward.
fn read_router(
    reader: &mut Reader,
    root: &Table,
    ports: &[PortSettings],
) -> (RouterSettings, Option<Range<usize>>) {
    let has_interface = ports.iter().any(|port| port.kind.in_kernel().is_some());
    let table = single_or_empty(reader, root, Section::Router, "router");
    reader.refuse_unknown(&table);
    let xdp_forward = reader.parsed(&table, "xdp_forward", parse_xdp_forward);
    let asked_for = xdp_forward.as_ref().filter(|choice| choice.value == XdpForwarding::On);
    let asked_for = asked_for.map(|choice| choice.span.clone());
    let fits = |text: &str| (1..=LONGEST_SOCKET_PATH).contains(&text.len()).then(|| text.into());
    let mut settings = RouterSettings {
        workers: defaulted(reader.number(&table, "workers")) as u16,
        mode: defaulted(reader.parsed(&table, "mode", parse_mode)),
        batch: defaulted(reader.number(&table, "batch")) as u16,
        cpus: Vec::new(),
        busy_poll: reader.flag(&table, "busy_poll"),
        xdp_forward: defaulted(xdp_forward),
        takeover: defaulted(reader.parsed(&table, "takeover", parse_takeover)),
        flow_seed: reader.number(&table, "flow_seed").map(|seed| seed.value),
        kernel_routes: reader.boolean(&table, "kernel_routes").unwrap_or(has_interface),
        idle: defaulted(reader.duration(&table, "idle")),
        drain: defaulted(reader.duration(&table, "drain")),
        frames: defaulted(reader.number(&table, "frames")),
        spare_ports: defaulted(reader.number(&table, "spare_ports")) as u16,
        socket: reader.parsed(&table, "socket", fits).map(|path| path.value),
    };
    let cpu = |value: &DeValue| whole(value).filter(|cpu| *cpu < 1024).map(|cpu| cpu as u16);
    if let Some(cpus) = reader.list(&table, "cpus", false, cpu) {
        settings.cpus = cpus.value.iter().map(|cpu| cpu.value).collect();
        let distinct: HashSet<u16> = settings.cpus.iter().copied().collect();
        let count = settings.cpus.len();
        if count > 0 && (count != usize::from(settings.workers) || distinct.len() != count) {
            reader.not_allowed(Section::Router, "cpus", &cpus.span);
        }
    }
    (settings, asked_for)
}
