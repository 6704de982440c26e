//! Converts the JSON report of `wattline bench app all` into a cost file for server models.

use crate::machine::Machine;
use serde::Deserialize;
use std::collections::BTreeMap;
use wattline_server::{Application, MeasuredCosts, SizeCost};

/// Parts of the report that the conversion needs.
#[derive(Deserialize)]
struct Report {
    application: String,
    options: String,
    machine: Machine,
    workloads: Vec<Row>,
    calibration: Calibration,
}

#[derive(Deserialize)]
struct Calibration {
    disturbed: bool,
}

#[derive(Deserialize)]
struct Row {
    name: String,
    packet_size_bytes: f64,
    ipv4: Cost,
    applications: Vec<Named>,
}

#[derive(Deserialize)]
struct Cost {
    cycles_per_packet: Median,
}

#[derive(Deserialize)]
struct Named {
    name: String,
    cycles_per_packet: Median,
}

#[derive(Deserialize)]
struct Median {
    median: f64,
}

/// Reasons why a report cannot be converted.
#[derive(Debug, thiserror::Error)]
pub enum CostsError {
    /// The input is not JSON as the benchmark writes it.
    #[error("not what `wattline bench app all --json` writes: {0}")]
    Json(#[from] serde_json::Error),
    /// The report is of another application than `all`.
    #[error("a report of `{0}`: `wattline bench app all --json` measures all applications")]
    Application(String),
    /// The report lacks a row.
    #[error("no cost of {application} at {size}")]
    Missing {
        /// Application of the missing row.
        application: Application,
        /// Name of the missing row.
        size: &'static str,
    },
}

/// Names of the converted rows, each with packets of one length. The cost in a server model is
/// linear in the length, so mixes of lengths add nothing.
const SIZES: [&str; 3] = ["64 B", "512 B", "1420 B"];

/// Converts a report. `machine` describes the machine on which it was measured; it replaces the
/// report's own description, since virtual machines often hide their processor model.
///
/// # Errors
/// Fails when the JSON is not a report of all applications.
pub fn costs(json: &str, name: &str, machine: Option<&str>) -> Result<MeasuredCosts, CostsError> {
    let report: Report = serde_json::from_str(json)?;
    if report.application != "all" {
        return Err(CostsError::Application(report.application));
    }
    let mut applications: BTreeMap<Application, Vec<SizeCost>> = BTreeMap::new();
    for application in Application::ALL {
        for size in SIZES {
            let row = report.workloads.iter().find(|row| row.name == size);
            let found = row.and_then(|row| {
                let cycles_per_packet = cycles(row, application)?;
                Some(SizeCost { packet_size_bytes: row.packet_size_bytes, cycles_per_packet })
            });
            let cost = found.ok_or(CostsError::Missing { application, size })?;
            applications.entry(application).or_default().push(cost);
        }
    }
    let machine = machine.map_or_else(|| report.machine.text(), str::to_owned);
    let disturbed = if report.calibration.disturbed { "; disturbed by other work" } else { "" };
    let options = if report.options.is_empty() { "" } else { " " };
    Ok(MeasuredCosts {
        name: name.to_owned(),
        machine: format!("{machine}{disturbed}"),
        date: report.machine.date,
        command: format!("wattline bench app all{options}{} --json", report.options),
        applications,
    })
}

/// Returns the cycles of an application. The cost of IPsec is that of encryption, as in PowerSave.
fn cycles(row: &Row, application: Application) -> Option<f64> {
    let name = match application {
        Application::Ipv4 => return Some(row.ipv4.cycles_per_packet.median),
        Application::Ipsec => "ipsec-send",
        Application::Netflow | Application::Re => application.name(),
    };
    row.applications.iter().find(|it| it.name == name).map(|it| it.cycles_per_packet.median)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// The rows have the benchmark's format; a test in `super` compares them with a real report.
    #[test]
    fn report_is_converted_to_a_cost_file() {
        let row = |name: &str, bytes: f64| {
            let cost = |cycles: f64| json!({"median": cycles});
            let named = ["netflow", "ipsec-send", "ipsec-receive", "re"].into_iter().zip(2u32..);
            let applications: Vec<_> = named
                .map(|(name, times)| {
                    json!({"name": name, "cycles_per_packet": cost(bytes * f64::from(times))})
                })
                .collect();
            let ipv4 = json!({"cycles_per_packet": cost(bytes)});
            json!({"name": name, "packet_size_bytes": bytes, "ipv4": ipv4,
                "applications": applications})
        };
        let report = json!({
            "application": "all", "options": "--flows 100", "calibration": {"disturbed": true},
            "machine": {"processor": "P", "processors": 2, "is_virtual": true, "kernel": "6",
                "date": "2026-03-01"},
            "workloads": [row("64 B", 64.0), row("imix", 360.0), row("512 B", 512.0),
                row("1420 B", 1420.0)],
        });
        let costs = costs(&report.to_string(), "here", None).unwrap();
        assert_eq!(costs.command, "wattline bench app all --flows 100 --json");
        assert_eq!(
            costs.machine,
            "P, virtual machine of 2 processors, Linux 6; disturbed by other work"
        );
        let cycles = |application| {
            costs.applications[&application].iter().map(|it| it.cycles_per_packet).collect()
        };
        let ipsec: Vec<f64> = cycles(Application::Ipsec);
        assert_eq!(ipsec, [3.0 * 64.0, 3.0 * 512.0, 3.0 * 1420.0], "of the sending side");
        assert_eq!(MeasuredCosts::parse("here", &costs.to_toml()).unwrap(), costs);
    }

    #[test]
    fn other_reports_are_refused() {
        let error = |json| costs(json, "x", None).unwrap_err().to_string();
        assert!(error("[]").contains("bench app all"));
        let report = r#"{"application": "re", "options": "", "workloads": [],
            "calibration": {"disturbed": false}, "machine": {"processor": "", "processors": 1,
            "is_virtual": true, "kernel": "", "date": ""}}"#;
        assert!(error(report).contains("a report of `re`"));
        let report = report.replace("\"re\"", "\"all\"");
        assert!(error(&report).contains("no cost of ipv4 at 64 B"));
    }
}
