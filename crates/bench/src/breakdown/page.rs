//! The result as a self-contained page.

use super::forwarding::Forwarding;
use super::report::{Breakdown, Report};
use super::side::{Share, Side};
use crate::figure_page;
use wattline_report::FigurePage;
use wattline_report::plot::{Axis, Bars};

/// Returns the page.
pub fn page(report: &Report) -> FigurePage {
    let mut page = FigurePage::begin("Processor time per packet", &summary(report));
    page.text(report.note);
    if !report.groups_fit_kernel {
        page.text("The table of groups was made for other kernels than this one.");
    }
    let plots = [true, false].into_iter().flat_map(|offloads| {
        SIDES.into_iter().filter_map(move |(name, side)| plot(report, offloads, name, side))
    });
    page.plots(plots);
    for result in &report.results {
        section(&mut page, result);
    }
    page.heading("Claims of the paper, judged on this machine");
    page.checks(&report.claims);
    forwarding(&mut page, &report.forwarding);
    if let Some(why) = &report.forwarding_missing {
        page.text(&format!("Forwarding was not measured: {why}."));
    }
    components(&mut page, report);
    let link = "a veth pair between two network namespaces, iperf3 on both sides";
    let how = [
        ("event", report.event.to_owned()),
        ("samples per second and processor", report.frequency_hertz.to_string()),
        ("connections", report.connections.to_string()),
        ("link", link.to_owned()),
        ("counters", counters(report)),
        ("meters", meters(report)),
    ];
    figure_page::end(page, &how, None)
}

type SideOf = fn(&Breakdown) -> &Side;
const SIDES: [(&str, SideOf); 2] = [("transmit", |it| &it.transmit), ("receive", |it| &it.receive)];

fn summary(report: &Report) -> String {
    let most = report.results.iter().map(|it| it.rate_bps).fold(0.0, f64::max);
    format!(
        "iperf3 with {} connections over veth, up to {:.2} Gbit/s; functions of the kernel in the \
         groups of Liao and Bhuyan.",
        report.connections,
        most / 1e9
    )
}

/// Returns the bars of one side over the sizes, stacked by group.
fn plot(report: &Report, offloads: bool, name: &str, side: SideOf) -> Option<String> {
    let results: Vec<&Breakdown> =
        report.results.iter().filter(|result| result.offloads == offloads).collect();
    let first = results.first()?;
    let bars = Bars::new(
        format!("{name}, offloads {}", on_or_off(offloads)),
        "bytes of each call of the program",
        Axis::new("processor time per packet (ns)").from_zero(),
        results.iter().map(|result| result.io_bytes.to_string()),
    );
    let add = |bars: Bars, (index, share): (usize, &Share)| {
        let nanos = |result: &&Breakdown| side(result).groups[index].cpu_seconds_per_packet * 1e9;
        bars.series(share.group.name(), results.iter().map(nanos))
    };
    Some(side(first).groups.iter().enumerate().fold(bars, add).stacked([]).svg())
}

fn on_or_off(offloads: bool) -> &'static str {
    if offloads { "on" } else { "off" }
}

fn section(page: &mut FigurePage, result: &Breakdown) {
    let offloads = on_or_off(result.offloads);
    page.heading(&format!("{} bytes a call, offloads {offloads}", result.io_bytes));
    page.text(&format!(
        "{:.2} Gbit/s, {:.0} packets/s of {:.0} bytes.",
        result.rate_bps / 1e9,
        result.rate_pps,
        result.packet_mean_bytes
    ));
    let heads = [
        "group",
        "transmit, %",
        "ns per packet",
        "ns per byte",
        "receive, %",
        "ns per packet",
        "ns per byte",
    ];
    let pairs = result.transmit.groups.iter().zip(&result.receive.groups);
    page.table(
        heads,
        pairs.map(|(transmit, receive)| {
            let mut row = vec![transmit.group.name().to_owned()];
            for share in [transmit, receive] {
                row.push(format!("{:.1}", share.share * 100.0));
                row.push(format!("{:.1}", share.cpu_seconds_per_packet * 1e9));
                row.push(format!("{:.4}", share.cpu_seconds_per_byte * 1e9));
            }
            row.try_into().unwrap_or_else(|_| heads.map(|_| String::new()))
        }),
    );
    for (name, side) in SIDES {
        let side = side(result);
        if side.unclaimed.is_empty() {
            continue;
        }
        let rows = side.unclaimed.iter();
        let rows =
            rows.map(|(function, share)| [function.clone(), format!("{:.2}", share * 100.0)]);
        let samples = side.samples;
        page.details(
            &format!("Functions that no group claims, {name} ({samples} samples in all)"),
            |page| page.table(["function", "share of the samples, %"], rows),
        );
    }
    let counted = result.events.iter().filter_map(|event| {
        Some([
            event.event.clone(),
            format!("{:.2}", event.per_packet?),
            format!("{:.0}", event.counted_share * 100.0),
        ])
    });
    let counted: Vec<_> = counted.collect();
    if !counted.is_empty() {
        page.subheading("Counters of all processors");
        let heads = ["event", "per packet, both sides", "counted for % of the time"];
        page.table(heads, counted);
    }
}

fn forwarding(page: &mut FigurePage, all: &[Forwarding]) {
    let Some(first) = all.first() else { return };
    page.heading("Forwarding");
    page.text(
        "Processor time of the threads that forward frames of 64 bytes between veth pairs. \
         Application: Wattline's worker, or its XDP program. The time of the generator and its \
         receiver is not included. The sum is the time charged by the scheduler; samples divide \
         it. Without a card, the driver is that of veth.",
    );
    let axis = Axis::new("ns").from_zero();
    let devices = all.iter().map(|it| it.device);
    let bars = Bars::new("Processor time of a forwarded packet", "who forwards", axis, devices);
    let add = |bars: Bars, (index, share): (usize, &Share)| {
        let nanos = |it: &Forwarding| it.forward.groups[index].cpu_seconds_per_packet * 1e9;
        bars.series(share.group.name(), all.iter().map(nanos))
    };
    page.plots([first.forward.groups.iter().enumerate().fold(bars, add).stacked([]).svg()]);
    for it in all {
        page.subheading(&it.device_words);
        page.text(&format!(
            "{:.3} Mpps, {:.0} ns of processor time a packet; {:.4} % lost{}.",
            it.offered_rate_pps / 1e6,
            it.forward.nanos_per_packet(),
            it.loss_ratio * 100.0,
            it.unsound_because
                .as_ref()
                .map_or_else(String::new, |why| format!("; not sound: {why}"))
        ));
        page.table(
            ["group", "% of the time", "ns a packet"],
            it.forward.groups.iter().map(|share| {
                [
                    share.group.name().to_owned(),
                    format!("{:.1}", share.share * 100.0),
                    format!("{:.1}", share.cpu_seconds_per_packet * 1e9),
                ]
            }),
        );
    }
}

fn components(page: &mut FigurePage, report: &Report) {
    page.heading("Power of components");
    if report.results.iter().all(|result| result.components.is_empty()) {
        page.text(&meters(report));
        return;
    }
    page.text(
        "Idle: nothing runs. Link: what the link adds. Data: what the data add to that. The \
         accuracy is the meter's; that of a difference is worse.",
    );
    let heads = [
        "bytes a call",
        "offloads",
        "meter",
        "scope",
        "source",
        "accuracy",
        "idle, W",
        "link, W",
        "data, W",
        "data, nJ per packet",
    ];
    let rows = report.results.iter().flat_map(|result| {
        result.components.iter().map(|component| {
            [
                result.io_bytes.to_string(),
                on_or_off(result.offloads).to_owned(),
                component.meter.clone(),
                component.scope.to_string(),
                component.source.clone(),
                component.accuracy.clone(),
                format!("{:.2}", component.idle_watts),
                format!("{:.2}", component.link_watts),
                format!("{:.2}", component.data_watts),
                format!("{:.1}", component.data_joules_per_packet * 1e9),
            ]
        })
    });
    page.table(heads, rows);
}

/// Returns the names of the counters, or the reason why there were none.
fn counters(report: &Report) -> String {
    let events = report.results.first().map_or(&[][..], |result| &result.events);
    if events.is_empty() {
        return "not asked for".to_owned();
    }
    let said = events.iter().map(|event| match event.per_packet {
        Some(_) => event.event.clone(),
        None => format!("{}: {}", event.event, event.reason),
    });
    said.collect::<Vec<_>>().join("; ")
}

/// Returns the names of the meters, or the reason why there were none.
fn meters(report: &Report) -> String {
    match report.meters_missing.as_str() {
        "" => "all meters of this machine, see above".to_owned(),
        missing => missing.to_owned(),
    }
}
