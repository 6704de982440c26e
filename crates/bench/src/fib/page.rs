//! The result as a page.

use super::{Lookups, PeerLookups, Report, Table};
use crate::figure_page;
use wattline_report::FigurePage;
use wattline_report::plot::{Axis, Bars};

/// Returns the page.
pub fn page(report: &Report) -> FigurePage {
    let rate = |rate: f64| format!("{:.1}", rate / 1e6);
    let fastest = report.results.iter().max_by(|a, b| {
        let (a, b) = (a.lookups_per_second, b.lookups_per_second);
        a.total_cmp(&b)
    });
    let verdict = fastest.map_or_else(
        || "Nothing was measured.".to_owned(),
        |of| {
            format!(
                "Up to {} million lookups a second ({}).",
                rate(of.lookups_per_second),
                name(of)
            )
        },
    );
    let mut page = FigurePage::begin("Longest-prefix match", &verdict);
    let axis = Axis::new("million lookups a second").from_zero();
    let groups = report.results.iter().map(name);
    let mut bars = Bars::new("Lookups of one core", "family and addresses", axis, groups)
        .series("Wattline", report.results.iter().map(|it| it.lookups_per_second / 1e6));
    // Each result has the same peers.
    let peers = report.results.first().map_or(0, |first| first.peers.len());
    for number in 0..peers {
        let of = |it: &Lookups| it.peers.get(number).map_or(0.0, |it| it.lookups_per_second / 1e6);
        let name =
            report.results[0].peers.get(number).map_or_else(String::new, |it| peer(report, it));
        bars = bars.series(name, report.results.iter().map(of));
    }
    page.plots([bars.svg()]);
    page.table(
        [
            "family and addresses",
            "million lookups/s",
            "lower quartile",
            "upper quartile",
            "cycles a lookup",
            "peers",
        ],
        report.results.iter().map(|it| {
            [
                name(it),
                rate(it.lookups_per_second),
                rate(it.lookups_per_second_spread.lower_quartile),
                rate(it.lookups_per_second_spread.upper_quartile),
                format!("{:.1}", it.cycles_per_lookup),
                peer_rates(report, &it.peers),
            ]
        }),
    );
    page.heading("Tables");
    let mib = |bytes: usize| format!("{:.1}", bytes as f64 / f64::from(1 << 20));
    page.table(
        [
            "family",
            "prefixes",
            "built in, s",
            "MiB",
            "MiB that lookups read",
            "updates/s meanwhile",
        ],
        report.tables.iter().map(|table| {
            [
                table.family.name().to_owned(),
                table.prefixes.to_string(),
                format!("{:.3}", table.build_seconds),
                mib(table.memory_bytes),
                table.resident_bytes.map_or_else(|| "-".to_owned(), mib),
                format!("{:.0}", table.updates.updates_per_second),
            ]
        }),
    );
    let how = [
        ("lookups", "in batches of 32, by processor time; the median of the passes".to_owned()),
        (
            "kernel of Wattline",
            report.tables.iter().map(|it| kernel(report, it)).collect::<Vec<_>>().join("; "),
        ),
        ("cycles", format!("of a counter of {:.2} GHz", report.tsc_hertz / 1e9)),
    ];
    figure_page::end(page, &how, Some(&report.calibration))
}

/// Returns the measured lookup variant, and the rates of all variants in a small table.
fn kernel(report: &Report, table: &Table) -> String {
    let used = report.results.iter().find(|it| it.family == table.family);
    let rates = table.variants.iter().map(|(name, rate)| format!("{name} {:.0}", rate / 1e6));
    let rates = rates.collect::<Vec<_>>().join(", ");
    let (family, used) = (table.family.name(), used.map_or("-", |it| it.kernel));
    format!("{family} {used}; million lookups/s in caches: {rates}")
}

fn name(of: &Lookups) -> String {
    format!("{} {}", of.family.name(), of.addresses.name())
}

fn peer(report: &Report, of: &PeerLookups) -> String {
    let name = report.peer.as_ref().map_or("-", |peer| &peer.name);
    format!("{name}, {}", of.variant.words())
}

fn peer_rates(report: &Report, peers: &[PeerLookups]) -> String {
    let one = |of: &PeerLookups| {
        let doubt = if of.agrees { "" } else { " (disagrees)" };
        format!(
            "{}: {:.1} million/s, ratio {:.2}{doubt}",
            peer(report, of),
            of.lookups_per_second / 1e6,
            of.ratio
        )
    };
    match peers {
        [] => "-".to_owned(),
        peers => peers.iter().map(one).collect::<Vec<_>>().join("; "),
    }
}
