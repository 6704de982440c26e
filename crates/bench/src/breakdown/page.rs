//! The result as a page that needs nothing from elsewhere.

use super::forwarding::Forwarding;
use super::report::{Breakdown, Report};
use super::side::Side;
use wattline_report::escape;
use wattline_report::page::{self, put};
use wattline_report::plot::{Axis, BarSeries, Bars};

/// The page.
pub fn html(report: &Report) -> String {
    let title = "Where processor time goes per packet";
    let mut page = page::begin(title);
    put(&mut page, format_args!("<h1>{title}</h1>\n<p>{}</p>\n", escape(&summary(report))));
    put(&mut page, format_args!("<p>{}</p>\n", escape(report.note)));
    if !report.groups_fit_kernel {
        page.push_str("<p>The table of groups was made for other kernels than this one.</p>\n");
    }
    page.push_str("<div class=\"plots\">\n");
    for offloads in [true, false] {
        for (name, side) in SIDES {
            if let Some(plot) = plot(report, offloads, name, side) {
                page.push_str(&plot);
            }
        }
    }
    page.push_str("</div>\n");
    for result in &report.results {
        section(&mut page, result);
    }
    own(&mut page, report);
    forwarding(&mut page, &report.forwarding);
    if let Some(why) = &report.forwarding_missing {
        put(&mut page, format_args!("<p>Forwarding was not measured: {}.</p>\n", escape(why)));
    }
    components(&mut page, report);
    page.push_str("<h2>Conditions</h2>\n");
    page::table(
        &mut page,
        ["what", "value"],
        [
            ["machine", &*report.machine.text()],
            ["event", report.event],
            ["samples per second and processor", &report.frequency_hertz.to_string()],
            ["connections", &report.connections.to_string()],
            ["link", "a veth pair between two network namespaces, iperf3 on both sides"],
            ["counters", &counters(report)],
            ["meters", &meters(report)],
        ]
        .map(|row| row.map(str::to_owned))
        .into_iter(),
    );
    page::end(&mut page);
    page
}

type Of = fn(&Breakdown) -> &Side;
const SIDES: [(&str, Of); 2] = [("transmit", |it| &it.transmit), ("receive", |it| &it.receive)];

fn summary(report: &Report) -> String {
    let most = report.results.iter().map(|it| it.rate_bps).fold(0.0, f64::max);
    format!(
        "iperf3 with {} connections over veth, up to {:.2} Gbit/s; functions of the kernel in the \
         groups of Liao and Bhuyan.",
        report.connections,
        most / 1e9
    )
}

/// Bars of one side over the sizes, stacked by group.
fn plot(report: &Report, offloads: bool, name: &str, side: Of) -> Option<String> {
    let results: Vec<&Breakdown> =
        report.results.iter().filter(|result| result.offloads == offloads).collect();
    let first = results.first()?;
    let series = side(first).groups.iter().enumerate().map(|(index, share)| BarSeries {
        name: share.group.name().to_owned(),
        values: results
            .iter()
            .map(|result| side(result).groups[index].cpu_seconds_per_packet * 1e9)
            .collect(),
        published: vec![None; results.len()],
    });
    let bars = Bars {
        title: format!("{name}, offloads {}", if offloads { "on" } else { "off" }),
        x_label: "bytes of each call of the program".into(),
        y: Axis::new("processor time per packet (ns)"),
        groups: results.iter().map(|result| result.io_bytes.to_string()).collect(),
        series: series.collect(),
        stacked: true,
        ordered: false,
        halves: Vec::new(),
        published: vec![None; results.len()],
    };
    Some(bars.svg())
}

fn section(page: &mut String, result: &Breakdown) {
    put(
        page,
        format_args!(
            "<h2>{} bytes a call, offloads {}</h2>\n<p>{:.2} Gbit/s, {:.0} packets/s of {:.0} \
             bytes.</p>\n",
            result.io_bytes,
            if result.offloads { "on" } else { "off" },
            result.rate_bps / 1e9,
            result.rate_pps,
            result.packet_mean_bytes
        ),
    );
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
    page::table(
        page,
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
        put(
            page,
            format_args!(
                "<details><summary>Functions that no group claims, {name} ({} samples in \
                 all)</summary>\n",
                side.samples
            ),
        );
        let rows = side.unclaimed.iter();
        page::table(
            page,
            ["function", "share of the samples, %"],
            rows.map(|(function, share)| [function.clone(), format!("{:.2}", share * 100.0)]),
        );
        page.push_str("</details>\n");
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
        page.push_str("<h3>Counters of all processors</h3>\n");
        let heads = ["event", "per packet, both sides", "counted for % of the time"];
        page::table(page, heads, counted.into_iter());
    }
}

fn own(page: &mut String, report: &Report) {
    let Some(own) = &report.own else { return };
    put(
        page,
        format_args!(
            "<h2>Wattline's own data plane</h2>\n<p>{:.1} cycles per packet at {:.2} GHz: {}.</p>\n",
            own.cycles_per_packet,
            own.clock_hertz / 1e9,
            escape(own.note)
        ),
    );
    page::table(
        page,
        ["node", "group", "cycles per packet", "ns per packet"],
        own.nodes.iter().map(|node| {
            [
                node.node.clone(),
                node.group.name().to_owned(),
                format!("{:.1}", node.cycles_per_packet),
                format!("{:.2}", node.cpu_seconds_per_packet * 1e9),
            ]
        }),
    );
}

fn forwarding(page: &mut String, all: &[Forwarding]) {
    let Some(first) = all.first() else { return };
    page.push_str(
        "<h2>Forwarding</h2>\n<p>Processor time of the threads that forward frames of 64 bytes between \
         veth pairs. Application: Wattline's worker, or its XDP program. What the generator and its \
         receiver take is not in it. The sum is what the scheduler charged them; samples divide it. \
         Without a card, the driver is that of veth.</p>\n<div \
         class=\"plots\">",
    );
    let series = first.forward.groups.iter().enumerate().map(|(index, share)| BarSeries {
        name: share.group.name().to_owned(),
        values: all
            .iter()
            .map(|it| it.forward.groups[index].cpu_seconds_per_packet * 1e9)
            .collect(),
        published: Vec::new(),
    });
    let bars = Bars {
        title: "Processor time of a forwarded packet".into(),
        x_label: "who forwards".into(),
        y: Axis::new("ns").from_zero(),
        groups: all.iter().map(|it| it.device.to_owned()).collect(),
        series: series.collect(),
        stacked: true,
        ordered: false,
        halves: Vec::new(),
        published: Vec::new(),
    };
    page.push_str(&bars.svg());
    page.push_str("</div>\n");
    for it in all {
        put(page, format_args!("<h3>{}</h3>\n", escape(&it.device_words)));
        put(
            page,
            format_args!(
                "<p>{:.3} Mpps, {:.0} ns of processor time a packet; {:.4} % lost{}.</p>\n",
                it.offered_rate_pps / 1e6,
                it.forward.nanos_per_packet(),
                it.loss_ratio * 100.0,
                it.unsound_because
                    .as_ref()
                    .map_or_else(String::new, |why| format!("; not sound: {}", escape(why)))
            ),
        );
        page::table(
            page,
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

fn components(page: &mut String, report: &Report) {
    page.push_str("<h2>Power of components</h2>\n");
    if report.results.iter().all(|result| result.components.is_empty()) {
        put(page, format_args!("<p>{}</p>\n", escape(&meters(report))));
        return;
    }
    page.push_str(
        "<p>Idle: nothing runs. Link: what the link adds. Data: what the data add to that. The \
         accuracy is the meter's; that of a difference is worse.</p>\n",
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
                if result.offloads { "on" } else { "off" }.to_owned(),
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
    page::table(page, heads, rows);
}

/// Names the counters that were read, or the reason why there were none.
pub(super) fn counters(report: &Report) -> String {
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

/// Names the meters that were read, or the reason why there were none.
pub(super) fn meters(report: &Report) -> String {
    match report.meters_missing.as_str() {
        "" => "those of this machine, see above".to_owned(),
        missing => missing.to_owned(),
    }
}
