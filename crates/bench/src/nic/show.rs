//! The result as tables in a terminal.

use super::measure::Measured;
use super::probe::Card;
use serde::Serialize;
use std::io::{self, Write};

/// The cards, and what a pair of them carried where that was asked for.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// The interfaces.
    pub cards: Vec<Card>,
    /// The pair.
    pub measured: Option<Measured>,
}

/// Writes it.
///
/// # Errors
/// Those of `out`.
pub fn table(out: &mut impl Write, report: &Report) -> io::Result<()> {
    if report.cards.is_empty() {
        writeln!(out, "no network card on this machine (--all shows interfaces without hardware)")?;
    } else {
        writeln!(
            out,
            "{:<16}{:<14}{:<12}{:<10}{:>10}{:>10}{:>12}",
            "interface", "driver", "PCI", "state", "Gbit/s", "queues", "bus Gbit/s"
        )?;
    }
    let number = |value: Option<f64>| value.map_or("-".to_owned(), |it| format!("{:.1}", it / 1e9));
    for card in &report.cards {
        writeln!(
            out,
            "{:<16}{:<14}{:<12}{:<10}{:>10}{:>10}{:>12}",
            card.interface,
            card.driver.as_deref().unwrap_or("-"),
            card.pci_id.as_deref().unwrap_or("-"),
            card.state,
            number(card.link_rate_bps),
            format!("{}/{}", card.receive_queues, card.transmit_queues),
            number(card.pcie.as_ref().map(|pcie| pcie.rate_bps)),
        )?;
        for note in &card.notes {
            writeln!(out, "    {note}")?;
        }
    }
    report.measured.as_ref().map_or(Ok(()), |measured| pair(out, measured))
}

fn pair(out: &mut impl Write, measured: &Measured) -> io::Result<()> {
    let copies = if measured.zero_copy { "without copies" } else { "with copies" };
    writeln!(out, "\n{} to {}, {copies}", measured.from, measured.to)?;
    writeln!(
        out,
        "{:<16}{:>10}{:>12}{:>12}{:>14}{:>12}",
        "frames", "Mpps", "Gbit/s", "lost", "CPU, % of one", "ns/packet"
    )?;
    for carried in &measured.carried {
        writeln!(
            out,
            "{:<16}{:>10.4}{:>12.4}{:>12}{:>14.0}{:>12.0}",
            carried.frames,
            carried.rate_pps / 1e6,
            carried.wire_rate_bps / 1e9,
            carried.lost_packets,
            carried.cpu_percent,
            carried.cpu_seconds_per_packet * 1e9
        )?;
        for component in &carried.components {
            let loaded = component.idle_watts + component.link_watts + component.data_watts;
            writeln!(
                out,
                "    {} ({}, {}): idle {:.2} W, link {:+.2} W, data {:+.2} W; {:.3} Gbit/s per watt",
                component.meter,
                component.source,
                component.accuracy,
                component.idle_watts,
                component.link_watts,
                component.data_watts,
                carried.wire_rate_bps / 1e9 / loaded
            )?;
        }
    }
    if !measured.meters_missing.is_empty() {
        writeln!(out, "power: unavailable, {}", measured.meters_missing)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_meters_and_cards_are_said() {
        let measured = Measured {
            from: "a".into(),
            to: "b".into(),
            zero_copy: false,
            carried: Vec::new(),
            meters_missing: "no meter on this machine: RAPL".into(),
        };
        let report = Report { cards: Vec::new(), measured: Some(measured) };
        let mut text = Vec::new();
        table(&mut text, &report).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains("no network card") && text.contains("power: unavailable"), "{text}");
    }
}
