//! Statements of Sohan et al. and of Liao and Bhuyan about their tables, recomputed from the data.

use wattline_server::components::NicCard;
use wattline_server::{ComponentFile, ServerModel};
use wattline_units::Watts;

fn cards() -> ComponentFile {
    ComponentFile::load("sohan-2010-nics").unwrap()
}

#[test]
fn idle_power_is_the_sum_of_the_rails() {
    let totals = [
        ("Intel(Base-T)", 21.2),
        ("Solarflare(Base-T)", 18.0),
        ("Broadcom(Fibre)", 13.1),
        ("Solarflare(Fibre)", 5.7),
        ("Intel(CX4)", 5.6),
        ("Solarflare(CX4)", 4.6),
    ];
    let cards = cards();
    assert_eq!(cards.cards.len(), 10);
    for (name, total) in totals {
        let idle = cards.card(name).unwrap().idle().unwrap();
        assert!((idle.0 - total).abs() < 1e-9, "{name}: {idle}");
    }
}

#[test]
fn performance_per_watt_of_the_card_ranks_as_in_figure_2() {
    let cards = cards();
    let published = [
        ("Solarflare(CX4)", 3.367),
        ("Solarflare(Fibre)", 2.695),
        ("Intel(CX4)", 1.839),
        ("Broadcom(Fibre)", 1.336),
        ("Solarflare(Base-T)", 0.868),
        ("Intel(Base-T)", 0.514),
        ("Intel Multiport(2x1G)", 0.917),
        ("Intel 1G", 0.895),
        ("Broadcom Multiport(2x1G)", 0.471),
        ("Intel Multiport(4x1G)", 0.456),
    ];
    for (name, metric) in published {
        let ours = cards.card(name).unwrap().gigabits_per_watt().unwrap();
        assert!((ours - metric).abs() < 6e-4, "{name}: {ours}");
    }
}

/// The order of Figure 3: the offload card first, then Solarflare, Intel last, for any power of the
/// host per CPU percent.
#[test]
fn performance_per_watt_of_the_server_prefers_offload() {
    let cards = cards();
    for per_percent in [0.1, 0.3, 0.9] {
        let metric = |card: &NicCard| {
            card.server_gigabits_per_watt(Watts(200.0), Watts(per_percent)).unwrap()
        };
        let mut ranked: Vec<&NicCard> =
            cards.cards.iter().filter(|card| card.host_cpu_percent.is_some()).collect();
        ranked.sort_by(|a, b| metric(b).total_cmp(&metric(a)));
        assert_eq!(ranked[0].name, "Broadcom(Fibre)");
        assert!(ranked[1..4].iter().all(|card| card.name.starts_with("Solarflare")));
        assert!(ranked[4..].iter().all(|card| card.name.starts_with("Intel")));
    }
}

#[test]
fn links_cost_about_a_watt_each() {
    let cards = cards();
    for (name, links) in [("Broadcom(Fibre)", 2), ("Intel Multiport(4x1G)", 4)] {
        let by_links = &cards.card(name).unwrap().idle_by_links;
        assert_eq!(by_links.len(), links + 1);
        let slope = (by_links[links] - by_links[0]).0 / links as f64;
        assert!((slope - 1.0).abs() < 0.15, "{name}: {slope} W a link");
    }
}

/// The parts that Liao and Bhuyan measured do not add up to the total; Wattline shows the rest.
#[test]
fn components_of_a_receiving_host_leave_a_residual() {
    let host = ComponentFile::load("liao-2011-host").unwrap();
    let rest: Vec<f64> =
        host.scenarios.iter().filter_map(|s| s.unexplained()).map(|watts| watts.0).collect();
    assert_eq!(rest.len(), 4);
    assert!(rest.iter().all(|watts| (0.0..2.0).contains(watts)), "{rest:?}");
}

/// Co-PI's five pairs of register value and interrupt period: ITR / 4 us.
#[test]
fn interrupt_moderation_of_the_82599_follows_its_register() {
    use wattline_server::ServerFile;
    use wattline_units::Span;
    assert!(ServerModel::load("xeon-silver-4108").is_err(), "its power is not published");
    let nic = ServerFile::load("xeon-silver-4108").unwrap().nic.unwrap();
    let moderation = nic.moderation.unwrap();
    for (register, micros) in [(24, 6), (40, 10), (336, 84), (800, 200), (4088, 1022)] {
        let asked = Span::from_micros(register) / 4;
        assert_eq!(moderation.nearest(asked), Span::from_micros(micros));
    }
    let settings = (moderation.longest - moderation.shortest).as_picos() / 2_000_000 + 1;
    assert_eq!(settings, 509);
}
