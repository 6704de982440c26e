//! The result as tables in a terminal.

use super::forwarding::Forwarding;
use super::page::{counters, meters};
use super::report::{Breakdown, Report};
use super::side::Side;
use std::io::{self, Write};

/// Writes it.
///
/// # Errors
/// Those of `out`.
pub fn table(out: &mut impl Write, report: &Report) -> io::Result<()> {
    writeln!(out, "machine: {}", report.machine.text())?;
    writeln!(
        out,
        "iperf3 with {} connections over veth; {} at {} Hz",
        report.connections, report.event, report.frequency_hertz
    )?;
    if !report.groups_fit_kernel {
        writeln!(out, "note: the table of groups was made for other kernels than this one")?;
    }
    for result in &report.results {
        of(out, result)?;
    }
    if let Some(own) = &report.own {
        writeln!(
            out,
            "\nWattline's own data plane: {:.1} cycles per packet at {:.2} GHz ({})",
            own.cycles_per_packet,
            own.clock_hertz / 1e9,
            own.note
        )?;
        writeln!(out, "{:<20}{:<20}{:>10}{:>12}", "node", "group", "cycles", "ns/packet")?;
        for node in &own.nodes {
            writeln!(
                out,
                "{:<20}{:<20}{:>10.1}{:>12.2}",
                node.node,
                node.group.name(),
                node.cycles_per_packet,
                node.cpu_seconds_per_packet * 1e9
            )?;
        }
    }
    forwarding(out, &report.forwarding)?;
    if let Some(why) = &report.forwarding_missing {
        writeln!(out, "\nforwarding: not measured: {why}")?;
    }
    writeln!(out, "\ncounters: {}", counters(report))?;
    writeln!(out, "meters: {}", meters(report))?;
    writeln!(out, "\n{}", report.note)
}

fn forwarding(out: &mut impl Write, all: &[Forwarding]) -> io::Result<()> {
    for it in all {
        writeln!(
            out,
            "\nforwarding by {}: {:.3} Mpps of 64 bytes, {:.1} ns of processor time a packet, lost {:.4} %",
            it.device_words,
            it.offered_rate_pps / 1e6,
            it.forward.nanos_per_packet(),
            it.loss_ratio * 100.0
        )?;
        if let Some(why) = &it.unsound_because {
            writeln!(out, "note: {why}")?;
        }
        writeln!(out, "{:<20}{:>10}{:>12}", "", "%", "ns/packet")?;
        for share in &it.forward.groups {
            writeln!(
                out,
                "{:<20}{:>10.1}{:>12.1}",
                share.group.name(),
                share.share * 100.0,
                share.cpu_seconds_per_packet * 1e9
            )?;
        }
        unclaimed(out, "forward", &it.forward)?;
    }
    Ok(())
}

fn of(out: &mut impl Write, result: &Breakdown) -> io::Result<()> {
    writeln!(
        out,
        "\n{} bytes a call, offloads {}: {:.2} Gbit/s, {:.0} packets/s of {:.0} bytes",
        result.io_bytes,
        if result.offloads { "on" } else { "off" },
        result.rate_bps / 1e9,
        result.rate_pps,
        result.packet_mean_bytes
    )?;
    writeln!(
        out,
        "{:<20}{:>10}{:>12}{:>10}{:>12}{:>12}{:>10}",
        "", "transmit %", "ns/packet", "ns/byte", "receive %", "ns/packet", "ns/byte"
    )?;
    for (transmit, receive) in result.transmit.groups.iter().zip(&result.receive.groups) {
        writeln!(
            out,
            "{:<20}{:>10.1}{:>12.1}{:>10.4}{:>12.1}{:>12.1}{:>10.4}",
            transmit.group.name(),
            transmit.share * 100.0,
            transmit.cpu_seconds_per_packet * 1e9,
            transmit.cpu_seconds_per_byte * 1e9,
            receive.share * 100.0,
            receive.cpu_seconds_per_packet * 1e9,
            receive.cpu_seconds_per_byte * 1e9
        )?;
    }
    unclaimed(out, "transmit", &result.transmit)?;
    unclaimed(out, "receive", &result.receive)?;
    for event in &result.events {
        if let Some(per_packet) = event.per_packet {
            writeln!(out, "  {:.2} {} a packet, both sides", per_packet, event.event)?;
        }
    }
    for component in &result.components {
        writeln!(
            out,
            "  {} ({}, {}): idle {:.2} W, link {:+.2} W, data {:+.2} W, {:.1} nJ a packet",
            component.meter,
            component.source,
            component.accuracy,
            component.idle_watts,
            component.link_watts,
            component.data_watts,
            component.data_joules_per_packet * 1e9
        )?;
    }
    Ok(())
}

fn unclaimed(out: &mut impl Write, name: &str, side: &Side) -> io::Result<()> {
    let listed: Vec<_> = side
        .unclaimed
        .iter()
        .take(5)
        .map(|(function, share)| format!("{function} {:.1} %", share * 100.0))
        .collect();
    if listed.is_empty() {
        return Ok(());
    }
    writeln!(out, "  unclaimed, {name} ({} samples): {}", side.samples, listed.join(", "))
}
