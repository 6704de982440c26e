//! Parses the text of a configuration into [`Config`].

use super::keys::{self, GOVERN, LATENCY};
use super::listed::Listed;
use super::settings::{Config, Moderation, SourceKind, SourceSettings};
use crate::hardware;
use crate::profile;
use std::time::Duration;
use toml::de::DeValue;
use wattline_daemon::settings::{
    Misplaced, Problems, Reader, Schema, Table, between, defaulted, each, log, metrics,
    parse_interface, parse_name, parse_socket_path, required, single, single_or_empty, whole,
};
use wattline_host::Scope;
use wattline_policy::Registry;
use wattline_requests::http::Url;
use wattline_requests::sources::Selector;
use wattline_units::Span;

/// More than the CPUs of any machine that runs Linux.
const MOST_CPUS: u32 = 4096;

/// The sections that may stand in the file.
const SECTIONS: [&str; 4] = ["govern", "latency", log::NAME, metrics::NAME];

/// Keys that only a router's configuration has at its top level.
const OF_ROUTER: &[&str] = &["routes_file", "router", "port", "route", "neighbour", "power"];

/// Reads a text that may contain the sections of a governor. `what` names the reader in messages.
pub(super) fn document<T>(
    text_and_name: (&str, &str),
    what: &str,
    read: impl FnOnce(&mut Reader, &Table) -> T,
) -> Result<T, Problems> {
    let message = format!("belongs in the configuration of a router, not of {what}");
    let schema = Schema {
        sections: SECTIONS.to_vec(),
        keys: keys::all().collect(),
        misplaced: Misplaced { names: OF_ROUTER, message },
        ..Schema::default()
    };
    wattline_daemon::settings::read(text_and_name, schema, read)
}

/// Settings of a profile that a file may override.
struct Base {
    policy: String,
    scope: Scope,
    idle_latency: Option<Span>,
    moderation: Moderation,
    uncore: bool,
}

impl Base {
    /// Returns a base that governs nothing, for a profile's settings.
    fn nothing() -> Self {
        Self {
            policy: "performance".to_owned(),
            scope: Listed::scope(&[]),
            idle_latency: None,
            moderation: Moderation::Keep,
            uncore: false,
        }
    }

    fn read(reader: &mut Reader, table: &Table, policies: Registry, mut base: Self) -> Self {
        if let Some(policy) = reader.string(table, "policy") {
            let of_registry = || policies.parse(&policy.value).map(|spec| spec.to_string());
            let own = hardware::parse(&policy.value).map(|own| own.map(|_| policy.value.clone()));
            match own.unwrap_or_else(of_registry) {
                Ok(policy) => base.policy = policy,
                Err(error) => {
                    let message = format!("is wrong: {error}");
                    reader.problem(table.section, "policy", &policy.span, message);
                }
            }
        }
        let listed = |value: &DeValue| Listed::find(value.as_str()?);
        if let Some(knobs) = reader.list(table, "knobs", false, listed) {
            let knobs: Vec<Listed> = knobs.value.into_iter().map(|knob| knob.value).collect();
            base.scope = Listed::scope(&knobs);
        }
        let longest = Duration::from_secs(10);
        let idle = |text: &str| match text {
            "any" => Some(None),
            text => between(Duration::ZERO, longest)(text).map(|span| Some(Span::from(span))),
        };
        if let Some(idle) = reader.parsed(table, "idle_latency", idle) {
            base.idle_latency = idle.value;
        }
        if let Some(moderation) = reader.parsed(table, "moderation", moderation) {
            base.moderation = moderation.value;
        }
        base.uncore = reader.boolean(table, "uncore").unwrap_or(base.uncore);
        base
    }
}

fn moderation(text: &str) -> Option<Moderation> {
    match text {
        "keep" => Some(Moderation::Keep),
        "policy" => Some(Moderation::Policy),
        text => between(Duration::ZERO, Duration::from_millis(10))(text)
            .map(|span| Moderation::Fixed(span.into())),
    }
}

/// Reads the whole file.
pub(super) fn read(reader: &mut Reader, root: &Table, policies: Registry) -> Config {
    let table = single_or_empty(reader, root, GOVERN, "govern");
    reader.refuse_unknown(&table);
    let profile = defaulted(reader.parsed(&table, "profile", profile::find));
    let Base { policy, scope, idle_latency, moderation, uncore } =
        Base::read(reader, &table, policies, base_of(profile, policies));
    let named = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let mut config = Config {
        profile,
        policy,
        policies,
        scope,
        cpus: Vec::new(),
        interfaces: Vec::new(),
        idle_latency,
        moderation,
        uncore,
        override_limits: reader.flag(&table, "override_limits"),
        may_raise: reader.flag(&table, "may_raise"),
        latency_target: reader.duration(&table, "latency_target").map(|span| span.value.into()),
        latency_hold: defaulted(reader.duration(&table, "latency_hold")).into(),
        latency_silence: defaulted(reader.duration(&table, "latency_silence")).into(),
        latency: Vec::new(),
        server: defaulted(reader.parsed(&table, "server", named)),
        files: 0,
        seed: defaulted(reader.number(&table, "seed")),
        on_exit: defaulted(reader.parsed(&table, "on_exit", |text| text.parse().ok())),
        socket: reader.parsed(&table, "socket", parse_socket_path).map(|path| path.value),
        log_level: log::read(reader, root),
        metrics: metrics::read(reader, root),
        notes: std::mem::take(&mut reader.notes),
    };
    read_lists(reader, &table, &mut config);
    config.latency = read_sources(reader, root, config.latency_silence);
    config
}

/// Reads the file of a profile.
fn base_of(profile: profile::Profile, policies: Registry) -> Base {
    let read = |reader: &mut Reader, root: &Table| {
        let nothing = Base::nothing();
        match single(reader, root, GOVERN, "govern") {
            Some(table) => Base::read(reader, &table, policies, nothing),
            None => nothing,
        }
    };
    let own = (profile.text, profile.name);
    document(own, "a profile", read).unwrap_or_else(|_| Base::nothing())
}

/// Reads the lists that profiles do not contain.
fn read_lists(reader: &mut Reader, table: &Table, config: &mut Config) {
    let cpu = |value: &DeValue| whole(value).filter(|cpu| *cpu < MOST_CPUS);
    if let Some(cpus) = reader.list(table, "cpus", false, cpu) {
        config.cpus = cpus.value.iter().map(|cpu| cpu.value).collect();
        config.cpus.sort_unstable();
        if config.cpus.windows(2).any(|pair| pair[0] == pair[1]) {
            reader.not_allowed(GOVERN, "cpus", &cpus.span);
        }
    }
    let name = |value: &DeValue| parse_interface(value.as_str()?);
    if let Some(names) = reader.list(table, "interfaces", false, name) {
        config.interfaces = names.value.into_iter().map(|name| name.value).collect();
    }
}

fn read_sources(reader: &mut Reader, root: &Table, silence: Span) -> Vec<SourceSettings> {
    let mut sources: Vec<SourceSettings> = Vec::new();
    for table in each(reader, root, LATENCY, "latency") {
        reader.refuse_unknown(&table);
        let name = required(reader, &table, "name", parse_name);
        let kind = read_source(reader, &table);
        let (Some(name), Some(kind)) = (name, kind) else { continue };
        if let SourceKind::Prometheus { period, .. } | SourceKind::Tcp { period, .. } = &kind
            && *period >= silence
        {
            let seconds = |span: Span| format!("{} s", span.as_seconds());
            let message = format!(
                "is {}, and after {} without news a source counts as silent ([govern] \
                 latency_silence): it would turn silent between two reads; allowed is less than that",
                seconds(*period),
                seconds(silence)
            );
            reader.problem_in(&table, "period", message);
        }
        if sources.iter().any(|known| known.name == name.value) {
            let message = "is used twice: each source needs its own name".to_owned();
            reader.problem(LATENCY, "name", &name.span, message);
        }
        sources.push(SourceSettings { name: name.value, kind });
    }
    sources
}

fn read_source(reader: &mut Reader, table: &Table) -> Option<SourceKind> {
    let kinds = ["clients", "prometheus", "tcp"];
    let named: Vec<&str> = kinds.into_iter().filter(|kind| table.has(kind)).collect();
    if named.len() != 1 {
        let what = "one of `clients`, `prometheus` and `tcp`";
        let message = match &named[..] {
            [] => format!("needs {what}"),
            _ => format!("has `{}`: a source has {what}", named.join("` and `")),
        };
        reader.problem_in(table, "", message);
        return None;
    }
    let mut span = |key| Span::from(defaulted(reader.duration(table, key)));
    let (window, period, unit) = (span("window"), span("period"), span("unit"));
    if table.has("clients") {
        let socket = reader.parsed(table, "clients", parse_socket_path)?.value;
        return Some(SourceKind::Clients { socket, window });
    }
    if table.has("tcp") {
        let port = |value: &DeValue| whole(value).filter(|port| *port > 0);
        let port = |value: &DeValue| u16::try_from(port(value)?).ok();
        let ports = reader.list(table, "tcp", true, port)?.value;
        let ports = ports.into_iter().map(|port| port.value).collect();
        return Some(SourceKind::Tcp { ports, period, window });
    }
    let url = reader.parsed(table, "prometheus", |text| text.parse::<Url>().ok());
    let histogram = required(reader, table, "histogram", |text| text.parse::<Selector>().ok());
    Some(SourceKind::Prometheus { url: url?.value, histogram: histogram?.value, unit, period })
}
