//! The result as a page.

use super::{Card, Measured, Report, State};
use crate::figure_page;
use wattline_report::FigurePage;
use wattline_report::plot::{Axis, Bars};

/// Returns the page.
pub fn page(report: &Report) -> FigurePage {
    let verdict = match (report.cards.len(), &report.measured) {
        (_, Some(measured)) => format!("{}.", measured.interfaces.join(" to ")),
        (0, None) => {
            "No network card on this machine (--all shows interfaces without hardware).".to_owned()
        }
        (cards, None) => format!("{cards} interfaces."),
    };
    let mut page = FigurePage::begin("Network cards", &verdict);
    // Both interfaces of a pair may be in other namespaces.
    if !report.cards.is_empty() {
        page.table(
            ["interface", "driver", "PCI", "state", "Gbit/s", "queues", "bus, Gbit/s", "notes"],
            report.cards.iter().map(card),
        );
    }
    if let Some(measured) = &report.measured {
        pair(&mut page, measured);
    }
    figure_page::end(page, &[], None)
}

fn card(card: &Card) -> [String; 8] {
    let number = |value: Option<f64>| value.map_or("-".to_owned(), |it| format!("{:.1}", it / 1e9));
    let or_dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    [
        card.interface.clone(),
        or_dash(&card.driver),
        or_dash(&card.pci_id),
        card.state.clone(),
        number(card.link_rate_bps),
        format!("{}/{}", card.receive_queues, card.transmit_queues),
        number(card.pcie.as_ref().map(|pcie| pcie.rate_bps)),
        card.notes.join("; "),
    ]
}

fn pair(page: &mut FigurePage, measured: &Measured) {
    page.heading("Throughput of the pair");
    page.text(&format!(
        "{}. Host CPU and the server's watts include both ends, which are on this machine. The \
         metrics are Gbit/s per watt, of figures that agree.",
        measured.rule
    ));
    let axis = Axis::new("Gbit/s").from_zero();
    let names = measured.states.iter().map(|it| it.state.name());
    let mut bars = Bars::new("Throughput of the last run", "streams", axis, names);
    for (at, direction) in ["forward", "back"].into_iter().enumerate() {
        let last = |it: &State| it.runs.last().map_or(0.0, |run| run.received_bps[at] / 1e9);
        bars = bars.series(direction, measured.states.iter().map(last));
    }
    page.plots([bars.stacked([]).svg()]);
    let figures = measured.states.iter().flat_map(|state| {
        state.figures.iter().map(|it| {
            let (figure, scale) = match it.figure.as_str() {
                "throughput_bps" => ("throughput, Gbit/s", 1e9),
                "cpu_percent" => ("host CPU, % of one processor", 1.0),
                meter => (meter, 1.0),
            };
            let agreement = it.disagreement.as_deref().unwrap_or("agree");
            let mean = format!("{:.4}", it.mean / scale);
            [state.state.name(), figure, &mean, agreement].map(str::to_owned)
        })
    });
    page.table(["state", "figure (meters: W)", "mean of the last three", "runs"], figures);
    let metric = |value: Option<f64>| value.map_or("-".to_owned(), |it| format!("{it:.3}"));
    page.table(
        ["state", "NIC performance per watt", "server performance per watt"],
        measured.states.iter().map(|it| {
            let metrics = [it.nic_performance_per_watt, it.server_performance_per_watt];
            let [nic, server] = metrics.map(metric);
            [it.state.name().to_owned(), nic, server]
        }),
    );
    let runs = measured.states.iter().flat_map(|state| {
        state.runs.iter().zip(1..).map(|(run, number)| {
            let watts = run.powers.iter().map(|it| {
                let watts = it.power_watts.map_or("no reading".to_owned(), |it| format!("{it:.2}"));
                format!("{} {watts} ({}, {})", it.meter, it.source, it.accuracy)
            });
            let [forward, back] = run.received_bps.map(|rate| format!("{:.4}", rate / 1e9));
            let name = format!("{} {number}", state.state.name());
            let watts = watts.collect::<Vec<_>>().join("; ");
            [name, forward, back, format!("{:.1}", run.cpu_percent), watts]
        })
    });
    page.table(["every run", "forward, Gbit/s", "back, Gbit/s", "host CPU, %", "W"], runs);
    let both = |of: &[Option<String>; 2]| {
        of.each_ref().map(|it| it.as_deref().unwrap_or("unknown")).join(", ")
    };
    let card = measured.card_meter.clone();
    let values = [
        ("drivers", both(&measured.drivers)),
        ("media", both(&measured.media)),
        ("meter of the card", card.unwrap_or_else(|| "none: name one by --card-meter".to_owned())),
        ("meters of the server", measured.server_meters.join(" + ")),
        ("missing meters", measured.meters_missing.clone()),
    ];
    page.values(values.into_iter().filter(|(_, value)| !value.is_empty()));
}

#[cfg(test)]
mod tests {
    use super::super::Figure;
    use super::super::{Run, Traffic};
    use super::*;
    use crate::breakdown::MeterPower;
    use wattline_meters::Scope;

    #[test]
    fn page_has_cards_and_every_run_of_a_pair() {
        let power = MeterPower {
            meter: "a <meter>".into(),
            scope: Scope::Device,
            source: "measured".into(),
            accuracy: "gold".into(),
            power_watts: Some(14.0),
        };
        let run = Run { received_bps: [9.3e9, 9.4e9], powers: vec![power], cpu_percent: 265.0 };
        let figure = |figure: &str, mean, disagreement: Option<&str>| Figure {
            figure: figure.into(),
            mean,
            disagreement: disagreement.map(str::to_owned),
        };
        let state = State {
            state: Traffic::Both,
            runs: vec![run; 3],
            figures: vec![
                figure("throughput_bps", 18.7e9, None),
                figure("cpu_percent", 265.0, Some("the runs differ by 9.0 %")),
            ],
            nic_performance_per_watt: Some(1.336),
            server_performance_per_watt: None,
        };
        let measured = Measured {
            interfaces: ["<b>".into(), "c".into()],
            drivers: [Some("bnx2x".into()), None],
            media: [Some("FIBRE".into()), None],
            rule: "three agree".into(),
            states: vec![state],
            card_meter: None,
            server_meters: Vec::new(),
            meters_missing: "no RAPL".into(),
        };
        let cards = vec![Card {
            interface: "eth<0>".into(),
            driver: None,
            pci_id: None,
            state: "up".into(),
            link_rate_bps: Some(10e9),
            receive_queues: 4,
            transmit_queues: 4,
            mtu_bytes: None,
            numa_node: None,
            pcie: None,
            notes: vec!["slow bus".into()],
        }];
        let shown = page(&Report { cards, measured: Some(measured) }).end();
        for words in [
            "eth&lt;0&gt;",
            "slow bus",
            "&lt;b&gt; to c",
            "a &lt;meter&gt;",
            "18.7000",
            "1.336",
            "differ by 9.0 %",
            "both 3",
            "three agree",
            "bnx2x, unknown",
            "FIBRE, unknown",
            "no RAPL",
        ] {
            assert!(shown.contains(words), "{words}");
        }
        crate::looked_at("nic", &shown);
        let page = page(&Report { cards: Vec::new(), measured: None });
        assert!(page.plain().contains("No network card"));
    }
}
