//! The result as a page.

use super::{Card, Measured, Report};
use crate::figure_page;
use wattline_report::FigurePage;
use wattline_report::plot::{Axis, Bars};

/// The page.
pub fn page(report: &Report) -> FigurePage {
    let verdict = match (report.cards.len(), &report.measured) {
        (_, Some(measured)) => format!("{} to {}.", measured.from, measured.to),
        (0, None) => {
            "No network card on this machine (--all shows interfaces without hardware).".to_owned()
        }
        (cards, None) => format!("{cards} interfaces."),
    };
    let mut page = FigurePage::begin("Network cards", &verdict);
    page.table(
        ["interface", "driver", "PCI", "state", "Gbit/s", "queues", "bus, Gbit/s", "notes"],
        report.cards.iter().map(card),
    );
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
    page.heading("What the pair carries");
    page.text(if measured.zero_copy { "Without copies." } else { "With copies." });
    let carried = &measured.carried;
    let axis = Axis::new("Mpps").from_zero();
    let lengths = carried.iter().map(|it| &it.frames);
    let bars = Bars::new("Packets received", "length of frames", axis, lengths)
        .series("received", carried.iter().map(|it| it.rate_pps / 1e6));
    page.plots([bars.svg()]);
    page.table(
        ["frames", "Mpps", "Gbit/s on the wire", "lost", "processors, % of one", "ns a packet"],
        carried.iter().map(|it| {
            [
                it.frames.clone(),
                format!("{:.4}", it.rate_pps / 1e6),
                format!("{:.4}", it.wire_rate_bps / 1e9),
                it.lost_packets.to_string(),
                format!("{:.0}", it.cpu_percent),
                format!("{:.0}", it.cpu_seconds_per_packet * 1e9),
            ]
        }),
    );
    if !measured.meters_missing.is_empty() {
        page.text(&format!("Power: unavailable, {}.", measured.meters_missing));
        return;
    }
    page.table(
        ["frames", "meter", "source", "accuracy", "idle, W", "link, W", "data, W"],
        carried.iter().flat_map(|of| {
            of.components.iter().map(|it| {
                [
                    of.frames.clone(),
                    it.meter.clone(),
                    it.source.clone(),
                    it.accuracy.clone(),
                    format!("{:.2}", it.idle_watts),
                    format!("{:.2}", it.link_watts),
                    format!("{:.2}", it.data_watts),
                ]
            })
        }),
    );
}

#[cfg(test)]
mod tests {
    use super::super::Carried;
    use super::*;
    use crate::breakdown::ComponentPower;
    use wattline_meters::Scope;

    #[test]
    fn cards_and_what_a_pair_carries_are_on_the_page() {
        let component = ComponentPower {
            meter: "a <meter>".into(),
            scope: Scope::Package,
            source: "measured".into(),
            accuracy: "gold".into(),
            idle_watts: 10.0,
            link_watts: 1.0,
            data_watts: 2.0,
            data_joules_per_packet: 1e-6,
        };
        let carried = Carried {
            frames: "64".into(),
            rate_pps: 1e6,
            wire_rate_bps: 672e6,
            lost_packets: 3,
            cpu_percent: 150.0,
            cpu_seconds_per_packet: 1.5e-6,
            components: vec![component],
        };
        let measured = Measured {
            from: "<b>".into(),
            to: "c".into(),
            zero_copy: false,
            carried: vec![carried],
            meters_missing: String::new(),
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
        for words in ["eth&lt;0&gt;", "slow bus", "&lt;b&gt; to c", "a &lt;meter&gt;", "1.0000"] {
            assert!(shown.contains(words), "{words}");
        }
        crate::looked_at("nic", &shown);
        let page = page(&Report { cards: Vec::new(), measured: None });
        assert!(page.plain().contains("No network card"));
    }
}
