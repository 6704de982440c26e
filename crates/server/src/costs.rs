//! Costs of the applications on one machine, measured by `wattline bench app all`, and their
//! conversion to another server.
//!
//! Cycles of one machine and program differ from those of another, so measured cycles never go into
//! a server model unchanged. [`MeasuredCosts::on`] converts them by one of two rules ([`Scaling`]).
//! The result is modelled, and its name and description say so.

use crate::input::{Document, InvalidFile, LoadError, Origin, Section};
use crate::library::{self, Kind};
use crate::model::{Application, ApplicationCost, ServerModel};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use thiserror::Error;
use wattline_units::named;

// The first is the default.
named! {
    /// Rule that converts costs to another machine whose cost of IPv4 alone is known.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Scaling {
        /// Multiplies the server's own cost of IPv4 by the measured ratio of application to IPv4. It
        /// assumes that the server is slower for all code by the same factor as for IPv4.
        Ratio = "ratio",
        /// Adds to the server's own cost of IPv4 the cycles measured beyond IPv4. It assumes that the
        /// server runs the application's own code as fast as the measured machine.
        Added = "added",
    }
}

impl Scaling {
    fn cycles(self, server_ipv4: f64, measured_ipv4: f64, measured: f64) -> f64 {
        match self {
            Self::Ratio => server_ipv4 * measured / measured_ipv4,
            Self::Added => server_ipv4 + measured - measured_ipv4,
        }
    }

    const fn words(self) -> &'static str {
        match self {
            Self::Ratio => "times the measured ratio to ipv4",
            Self::Added => "and the cycles measured beyond ipv4",
        }
    }
}

/// Cost at one frame length.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SizeCost {
    /// Length of the frame in bytes, FCS included.
    pub packet_size_bytes: f64,
    /// Cycles per packet on the measured machine.
    pub cycles_per_packet: f64,
}

/// A file of measured costs.
#[derive(Debug, Clone, PartialEq)]
pub struct MeasuredCosts {
    /// Name of the file's data.
    pub name: String,
    /// Description of the measured machine.
    pub machine: String,
    /// Day of the measurement.
    pub date: String,
    /// Command that was run.
    pub command: String,
    /// Costs by application, shortest frames first; all have the frame lengths of IPv4, at least
    /// two.
    pub applications: BTreeMap<Application, Vec<SizeCost>>,
}

/// Reasons why measured costs cannot be converted to a server.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum CostsError {
    /// The server file has no cost of IPv4.
    #[error("server {0} gives no cost of ipv4, which the measured costs are relative to")]
    NoIpv4(String),
    /// The converted cost of an application would be zero or negative.
    #[error("{application} at {bytes} bytes would take {cycles:.0} cycles on {server}")]
    Nothing {
        /// Application with that cost.
        application: Application,
        /// Length of the frame in bytes.
        bytes: f64,
        /// Converted cost in cycles.
        cycles: f64,
        /// Name of the server.
        server: String,
    },
}

impl MeasuredCosts {
    /// Loads a shipped file by name, or a file by its path.
    pub fn load(name_or_path: &str) -> Result<Self, LoadError> {
        let text = library::read(name_or_path, Kind::Costs)?;
        Ok(Self::parse(name_or_path, &text)?)
    }

    /// Parses the text of a file; `file` names it in errors.
    pub fn parse(file: &str, text: &str) -> Result<Self, InvalidFile> {
        let document = Document::parse(file, text);
        let read = document.read(Self::read);
        document.finish()?;
        // `read` returns `None` only after it has noted a problem, which `finish` returns.
        read.ok_or_else(|| InvalidFile { file: file.to_string(), problems: Vec::new() })
    }

    fn read(root: &Section<'_, '_>) -> Option<Self> {
        root.document().set_default_origin(Origin::Measured);
        let texts = ["name", "machine", "date", "command"].map(|key| root.text(key));
        let applications = root.required_section("application", |section| {
            let all = Application::ALL.into_iter();
            let all: BTreeMap<_, _> =
                all.filter_map(|it| Some((it, section.section(it.name(), sizes)?))).collect();
            let bytes = |costs: &[SizeCost]| -> Vec<f64> {
                costs.iter().map(|cost| cost.packet_size_bytes).collect()
            };
            let ipv4 = all.get(&Application::Ipv4).map(|costs| bytes(costs));
            if ipv4.is_none() && !section.has("ipv4") {
                section
                    .contradiction("", "ipv4 is absent, which the others are relative to".into());
            }
            for (application, costs) in &all {
                if ipv4.as_ref().is_some_and(|ipv4| *ipv4 != bytes(costs)) {
                    let why = "packet_sizes_bytes are not those of ipv4".to_string();
                    section.contradiction(application.name(), why);
                }
            }
            Some(all)
        });
        let [name, machine, date, command] = texts;
        let (name, machine, date, command) = (name?, machine?, date?, command?);
        Some(Self { name, machine, date, command, applications: applications? })
    }

    /// Returns the file's text.
    pub fn to_toml(&self) -> String {
        let mut text = String::from(
            "# What the applications cost on one machine; see docs/reference/server-model.md.\n",
        );
        let quoted = |value: &str| toml::Value::from(value).to_string();
        let head = [
            ("name", &self.name),
            ("machine", &self.machine),
            ("date", &self.date),
            ("command", &self.command),
        ];
        // Writing into a string cannot fail.
        for (key, value) in head {
            let _ = writeln!(text, "{key} = {}", quoted(value));
        }
        for (application, costs) in &self.applications {
            let list = |of: fn(&SizeCost) -> f64| {
                let numbers: Vec<String> =
                    costs.iter().map(|cost| format!("{:.1}", of(cost))).collect();
                numbers.join(", ")
            };
            let (bytes, cycles) =
                (list(|it| it.packet_size_bytes), list(|it| it.cycles_per_packet));
            let _ = write!(
                text,
                "\n[application.{application}]\npacket_sizes_bytes = [{bytes}]\ncycles_per_packet = [{cycles}]\n"
            );
        }
        text
    }

    /// Returns the model of `server` with converted costs. Its cost of IPv4 is kept; applications
    /// that were not measured are removed. Costs in server models are linear in the length. The
    /// line goes through the shortest and the longest frames, or from the origin through the
    /// longest if it would otherwise begin below zero cycles.
    ///
    /// # Errors
    /// Fails when the server has no cost of IPv4, or when an application would cost nothing.
    pub fn on(&self, server: &ServerModel, scaling: Scaling) -> Result<ServerModel, CostsError> {
        let no_ipv4 = || CostsError::NoIpv4(server.name.clone());
        let own = *server.applications.get(&Application::Ipv4).ok_or_else(no_ipv4)?;
        let ipv4 = self.applications.get(&Application::Ipv4).ok_or_else(no_ipv4)?;
        let mut applications = BTreeMap::from([(Application::Ipv4, own)]);
        for (&application, costs) in &self.applications {
            if application == Application::Ipv4 {
                continue;
            }
            let mut points = Vec::with_capacity(costs.len());
            for (cost, plain) in costs.iter().zip(ipv4) {
                let bytes = cost.packet_size_bytes;
                let base = own.cycles_per_packet + own.cycles_per_byte * bytes;
                let cycles = scaling.cycles(base, plain.cycles_per_packet, cost.cycles_per_packet);
                if cycles <= 0.0 {
                    let server = server.name.clone();
                    return Err(CostsError::Nothing { application, bytes, cycles, server });
                }
                points.push((bytes, cycles));
            }
            if let [(short, least), .., (long, most)] = points[..] {
                let slope = ((most - least) / (long - short)).max(0.0);
                let (cycles_per_packet, cycles_per_byte) = match least - slope * short {
                    start if start >= 0.0 => (start, slope),
                    _ => (0.0, most / long),
                };
                let stall_seconds = own.stall_seconds;
                let cost = ApplicationCost { cycles_per_packet, cycles_per_byte, stall_seconds };
                applications.insert(application, cost);
            }
        }
        let name = format!("{}+{}:{}", server.name, self.name, scaling.name());
        let description = format!(
            "{}; application costs modelled: its own of ipv4, {}, on {} ({})",
            server.description,
            scaling.words(),
            self.machine,
            self.date
        );
        Ok(ServerModel { name, description, applications, ..server.clone() })
    }
}

/// Reads the costs of one application.
fn sizes(section: &Section<'_, '_>) -> Option<Vec<SizeCost>> {
    let bytes = section.numbers("packet_sizes_bytes", 64.0..=65_536.0);
    let cycles = section.numbers("cycles_per_packet", 0.1..=1e9);
    let (bytes, cycles) = (bytes?, cycles?);
    if bytes.len() != cycles.len() || bytes.len() < 2 {
        let why = format!(
            "{} packet_sizes_bytes and {} cycles_per_packet: give as many of both, at least two",
            bytes.len(),
            cycles.len()
        );
        section.contradiction("cycles_per_packet", why);
        return None;
    }
    if !bytes.is_sorted_by(|a, b| a < b) {
        section.contradiction("packet_sizes_bytes", "not ascending".into());
        return None;
    }
    let pair =
        |(packet_size_bytes, cycles_per_packet)| SizeCost { packet_size_bytes, cycles_per_packet };
    Some(bytes.into_iter().zip(cycles).map(pair).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TEXT: &str = r#"
        name = "mine"
        machine = "a \"fast\" one"
        date = "2026-03-01"
        command = "wattline bench app all --json"
        [application.ipv4]
        packet_sizes_bytes = [64, 512, 1420]
        cycles_per_packet = [40, 40, 42]
        [application.netflow]
        packet_sizes_bytes = [64, 512, 1420]
        cycles_per_packet = [120, 130, 147]
        [application.re]
        packet_sizes_bytes = [64, 512, 1420]
        cycles_per_packet = [60, 2000, 6300]
    "#;

    fn cycles(server: &ServerModel, application: Application, bytes: u32) -> f64 {
        server.packet_cost(application, bytes).unwrap().cycles
    }

    #[test]
    fn ratios_and_added_cycles_give_models_named_as_modelled() {
        let costs = MeasuredCosts::parse("mine", TEXT).unwrap();
        let server = ServerModel::load("westmere-2010").unwrap();
        let ratio = costs.on(&server, Scaling::Ratio).unwrap();
        assert_eq!(ratio.name, "westmere-2010+mine:ratio");
        assert!(ratio.description.contains("modelled"), "{}", ratio.description);
        assert_eq!(cycles(&ratio, Application::Ipv4, 64), 630.0);
        let near = |ours: f64, expected: f64| assert!((ours - expected).abs() < 1e-6, "{ours}");
        near(cycles(&ratio, Application::Netflow, 64), 630.0 * 120.0 / 40.0);
        near(cycles(&ratio, Application::Netflow, 1420), 630.0 * 147.0 / 42.0);
        // The line through both frames would begin below zero.
        near(cycles(&ratio, Application::Re, 0), 0.0);
        near(cycles(&ratio, Application::Re, 1420), 630.0 * 6300.0 / 42.0);
        let added = costs.on(&server, Scaling::Added).unwrap();
        near(cycles(&added, Application::Re, 64), 630.0 + 60.0 - 40.0);
        near(cycles(&added, Application::Re, 1420), 630.0 + 6300.0 - 42.0);
        assert!(added.packet_cost(Application::Ipsec, 64).is_none(), "it was not measured");
        // Only names and costs have changed.
        let back = ServerModel {
            name: server.name.clone(),
            description: server.description.clone(),
            applications: server.applications.clone(),
            ..added
        };
        assert_eq!(back, server);
    }

    #[test]
    fn written_costs_are_read_back() {
        let costs = MeasuredCosts::parse("mine", TEXT).unwrap();
        assert_eq!(MeasuredCosts::parse("again", &costs.to_toml()).unwrap(), costs);
    }

    #[test]
    fn all_mistakes_are_reported() {
        let text = TEXT
            .replace("[120, 130, 147]", "[120, 130]")
            .replace("date = \"2026-03-01\"", "")
            .replace("[60, 2000, 6300]", "[60, -1, 6300]");
        let error = MeasuredCosts::parse("mine", &text).unwrap_err().to_string();
        for part in ["date", "netflow", "at least two", "-1"] {
            assert!(error.contains(part), "{part}: {error}");
        }
        let text = TEXT.replacen("[64, 512, 1420]", "[64, 512, 1500]", 1);
        let error = MeasuredCosts::parse("mine", &text).unwrap_err().to_string();
        assert!(error.contains("not those of ipv4"), "{error}");
        let text = TEXT.replace("application.ipv4", "application.ipsec");
        let error = MeasuredCosts::parse("mine", &text).unwrap_err().to_string();
        assert!(error.contains("ipv4 is absent"), "{error}");
        let text = TEXT.replace("[40, 40, 42]", "[4000, 40, 42]");
        let costs = MeasuredCosts::parse("mine", &text).unwrap();
        let server = ServerModel::load("westmere-2010").unwrap();
        let error = costs.on(&server, Scaling::Added).unwrap_err().to_string();
        assert!(error.contains("64 bytes"), "{error}");
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "(name|machine|application.re|=|\\[|\\]|[0-9]|\"|\n| )*") {
            let _ = MeasuredCosts::parse("any", &text);
        }
    }
}
