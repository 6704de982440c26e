//! Parsing of a configuration's text into a [`Config`].

use super::section::{ApplicationSection, Sections};
use super::settings::{Config, PortKind, PortSettings};
use super::{keys, ports, power, router, routes_file, statics};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use wattline_daemon::settings::{
    ConfigError, Problem, Problems, Reader, Section, Table, log, metrics, read_text,
    single_or_empty,
};
use wattline_policy::Registry;

impl Config {
    /// Reads and checks a configuration file, which may contain the sections of these applications
    /// and name these policies. Paths in it are relative to its directory.
    ///
    /// # Errors
    /// When it cannot be read, or with everything that is wrong in it.
    pub fn load(
        path: &Path,
        sections: Sections<'_>,
        policies: Registry,
    ) -> Result<Self, ConfigError> {
        Self::load_beside(path, sections, policies, &[])
    }

    /// Does the same for a router that runs with the `present` ports: a port of the same name keeps
    /// its place, and a new port takes a vacant place or one behind all others. So places continue
    /// to identify ports.
    ///
    /// # Errors
    /// As for [`Self::load`].
    pub fn load_beside(
        path: &Path,
        sections: Sections<'_>,
        policies: Registry,
        present: &[PortSettings],
    ) -> Result<Self, ConfigError> {
        let text = read_text(path)?;
        let mut reader = Reader::new(&text, keys::schema(sections));
        let Draft { mut config, routes_file } = reader
            .document(|reader, root| Draft::read(reader, root, (sections, policies), present));
        config.file = path.to_owned();
        config.text = text.as_str().into();
        config.resolve_paths(path);
        if reader.problems.is_empty() {
            return Ok(config);
        }
        let mut included = None;
        if let (Some(span), Some(path)) = (routes_file, &config.routes_file) {
            let of_port = |problem: &Problem| problem.key.contains(ports::SECTION.heading());
            let unknown = config.ports.is_empty() || reader.has_syntax_error();
            let ports_are_known = !unknown && !reader.problems.iter().any(of_port);
            match routes_file::check(path, ports_are_known.then_some(&config)) {
                Ok(found) => included = found.map(Box::new),
                Err(error) => reader.not_readable(Section::Top, routes_file::NAME, &span, &error),
            }
        }
        let file = path.display().to_string();
        Err(Problems { included, ..reader.into_problems(file) }.into())
    }

    /// Checks the text of a configuration without applications and policies; `file` is its name in
    /// messages.
    ///
    /// # Errors
    /// With everything that is wrong in it.
    pub fn parse(text: &str, file: &str) -> Result<Self, Problems> {
        Self::parse_with(text, file, &[])
    }

    /// Does the same for a text that may contain the sections of these applications.
    ///
    /// # Errors
    /// With everything that is wrong in it.
    pub fn parse_with(text: &str, file: &str, sections: Sections<'_>) -> Result<Self, Problems> {
        Self::parse_whole(text, file, sections, Registry::default())
    }

    /// Checks the text of a configuration that may contain the sections of these applications and
    /// name these policies.
    ///
    /// # Errors
    /// With everything that is wrong in it.
    pub fn parse_whole(
        text: &str,
        file: &str,
        sections: Sections<'_>,
        policies: Registry,
    ) -> Result<Self, Problems> {
        wattline_daemon::settings::read((text, file), keys::schema(sections), |reader, root| {
            Draft::read(reader, root, (sections, policies), &[]).config
        })
    }

    fn resolve_paths(&mut self, file: &Path) {
        let directory = file.parent().unwrap_or(Path::new(""));
        let resolve = |path: &mut PathBuf| *path = directory.join(&*path);
        self.routes_file.iter_mut().for_each(resolve);
        // They are not shared yet.
        for settings in self.applications.iter_mut().filter_map(Arc::get_mut) {
            settings.resolve_paths(file);
        }
        for port in &mut self.ports {
            if let PortKind::Capture { read, write, .. } = &mut port.kind {
                read.iter_mut().chain(write).for_each(resolve);
            }
        }
    }
}

/// A configuration as far as it could be read: complete if the reader found no problem.
struct Draft {
    config: Config,
    /// Location of the path of the routes file.
    routes_file: Option<Range<usize>>,
}

impl Draft {
    fn read(
        reader: &mut Reader,
        root: &Table,
        known: (Sections<'_>, Registry),
        present: &[PortSettings],
    ) -> Self {
        let (path, routes_file) =
            routes_file::read_path(reader, root).map(|path| (path.value, path.span)).unzip();
        let path = path.map(PathBuf::from);
        Self { config: read(reader, root, known, path, present), routes_file }
    }
}

fn read(
    reader: &mut Reader,
    root: &Table,
    (sections, policies): (Sections<'_>, Registry),
    routes_file: Option<PathBuf>,
    present: &[PortSettings],
) -> Config {
    // Comes before anything that refers to a port by its place.
    let ports = ports::place(ports::read(reader, root), present);
    let has_interface = ports.iter().any(|port| port.kind.taken_over().is_some());
    let of_router = single_or_empty(reader, root, router::SECTION, "router");
    let (router, xdp_forward) = router::read(reader, &of_router, has_interface);
    let log_level = log::read(reader, root);
    let routes = statics::read_routes(reader, root, &ports);
    let neighbours = statics::read_neighbours(reader, root, &ports);
    let metrics = metrics::read(reader, root);
    let of_power = single_or_empty(reader, root, power::SECTION, "power");
    let power = power::read(reader, &of_power, policies);
    let read = |section: &&ApplicationSection| section.read(reader, root, &ports);
    let applications = sections.iter().filter_map(read).collect();
    let config = Config {
        file: PathBuf::new(),
        text: Arc::default(),
        router,
        ports,
        routes,
        neighbours,
        routes_file,
        log_level,
        metrics,
        applications,
        power,
        notes: std::mem::take(&mut reader.notes),
    };
    if let Some(place) = xdp_forward {
        let obstacles = config.obstacles_to_xdp_forwarding();
        if !obstacles.is_empty() {
            let obstacles = obstacles.join(", ");
            let message = format!(
                "cannot be combined with {obstacles}: XDP programs forward by the kernel's tables \
                 only, and no worker sees the packets"
            );
            reader.problem(router::SECTION, "xdp_forward", &place, message);
        }
    }
    config
}
