//! Server files that name their parts: cards, links, receive path, cores and platform.

use wattline_server::{
    Application, BusyTimePower, Path, PowerPart, ServerFile, ServerModel, library,
};
use wattline_units::PacketsPerSecond;

const HEAD: &str = "name = \"mine\"\ndescription = \"a machine of parts\"\nsource = \"a test\"\n";

fn file(parts: &str) -> Result<ServerFile, String> {
    let text = format!("{HEAD}[parts]\n{parts}");
    ServerFile::parse("mine.toml", &text).map_err(|error| error.to_string())
}

fn machine(parts: &str) -> ServerModel {
    file(parts).unwrap_or_else(|error| panic!("{error}")).model().unwrap().clone()
}

/// Returns the watts at 5 Mpps of 64 B on six cores.
fn watts(server: &ServerModel) -> f64 {
    let cost = server.packet_cost(Application::Ipv4, 64).unwrap();
    let point = server.napi_point(6, server.processor.highest_frequency());
    server.power_terms(cost, 64, &point, PacketsPerSecond(5e6)).total().0
}

const FIBRE: &str = "cards = [\"Solarflare(Fibre)\", \"Solarflare(Fibre)\"]\n";

#[test]
fn cards_draw_the_table_power_idle_and_loaded() {
    let parts = format!("cores = \"westmere-2010\"\n{FIBRE}");
    let (with, without) = (machine(&parts), ServerModel::load("westmere-2010").unwrap());
    let named = ServerModel { name: "mine".into(), ..without.clone() };
    let named = ServerModel { description: "a machine of parts".into(), ..named };
    assert_eq!(machine("cores = \"westmere-2010\""), named, "only names change");
    assert_eq!((with.nic.ports, with.power.base.nic.0), (2, 2.0 * (2.6 + 3.1)));
    // Table IV: 0.2 W for 15.9 Gbit/s of both directions; a forwarded bit counts twice.
    assert!((with.power.traffic_per_gigabit.0 - 2.0 * 0.2 / 15.9).abs() < 1e-9);
    let gigabits = 5e6 * 64.0 * 8.0 / 1e9;
    let swapped = (11.4 - 8.0) + gigabits * (2.0 * 0.2 / 15.9 - 0.175);
    assert!((watts(&with) - watts(&without) - swapped).abs() < 1e-9);
    // A file with its own sections may also name cards, and omit the sections that they replace.
    let own = library::text_of("westmere-2010", library::Kind::Servers).unwrap();
    let own = own.lines().filter(|line| !line.starts_with("nic_port_watts"));
    let own = own.chain(["[parts]", FIBRE]).collect::<Vec<_>>().join("\n");
    let own = ServerFile::parse("own.toml", &own).unwrap().model().unwrap().clone();
    assert_eq!((own.power, own.nic), (with.power, with.nic));
}

#[test]
fn links_of_a_card_have_their_own_watts_and_speed() {
    let server = machine("cores = \"westmere-2010\"\ncards = [\"Intel Multiport(4x1G)\"]");
    assert_eq!((server.nic.ports, server.nic.link.0), (4, 1e9));
    assert!((server.power.base.nic.0 - 12.3).abs() < 1e-9);
    assert!((server.sources.links.0 - (12.3 - 7.9)).abs() < 1e-9, "Table III");
    // A short packet takes 0.672 us on a link of 1 Gbit/s instead of 0.067.
    let slower = server.nic.pass_through.as_seconds() * 1e6 - 6.58;
    assert!((slower - 0.6048).abs() < 1e-3, "{slower}");
}

#[test]
fn receive_path_replaces_the_kernel_cost() {
    let cycles = |receive: &str| {
        let parts = format!("cores = \"westmere-2010\"\nreceive = \"{receive}\"");
        let server = machine(&parts).on_path(Path::Kernel).unwrap();
        (server.applications[&Application::Ipv4].cycles_per_packet, server.sources.receive_cycles)
    };
    // 1200 for the driver and 1100 for buffers, as printed, and 630 for IPv4.
    assert_eq!(cycles("published"), (2930.0, 2300.0));
    assert_eq!(cycles("contiguous-buffers"), (424.0 + 880.0 + 630.0, 1304.0));
}

#[test]
fn cores_run_on_the_platform_of_another_server() {
    let new = ServerModel::load("xeon-platinum-8470").unwrap();
    let old = ServerModel::load("westmere-2010").unwrap();
    let mixed = machine("cores = \"xeon-platinum-8470\"\nplatform = \"westmere-2010\"");
    assert_eq!((&mixed.processor, &mixed.nic), (&new.processor, &old.nic));
    let expected =
        old.power.base.total() - old.power.base.cpu_packages + new.power.base.cpu_packages;
    assert!((mixed.power.base.total() - expected).0.abs() < 1e-9);
    let platform = &mixed.sources.of[&PowerPart::Platform];
    assert!(platform.contains("westmere-2010") && platform.contains("8470"), "{platform}");
}

#[test]
fn every_part_has_a_source_and_its_figures() {
    let file = file(&format!("cores = \"westmere-2010\"\n{FIBRE}receive = \"published\"")).unwrap();
    let of = &file.model().unwrap().sources.of;
    let names = |part, words: [&str; 2]| {
        let source: &String = &of[&part];
        assert!(words.iter().all(|word| source.contains(word)), "{part:?}: {source}");
    };
    names(PowerPart::Cores, ["westmere-2010 (fitted)", "Niccolini"]);
    names(PowerPart::IdleCores, ["westmere-2010 (derived, published)", "Niccolini"]);
    names(PowerPart::Cards, ["2 x Solarflare(Fibre); sohan-2010-nics (published)", "Sohan"]);
    let busy = BusyTimePower::from_file(&file).unwrap();
    let idle = busy.watts(file.model().unwrap().processor.lowest_frequency(), &[0.0]);
    assert!((idle.0 - (115.0 - 8.0 + 11.4)).abs() < 1e-9, "governor's watts: {idle}");
    names(PowerPart::Receive, ["2300 of the 2930 cycles", "liao-2011-host (published)"]);
    let fields: Vec<&str> = file.figures.iter().map(|figure| figure.field.as_str()).collect();
    for field in ["power.core_awake_watts", "parts.Solarflare(Fibre).active_watts"] {
        assert!(fields.contains(&field), "{field} is not in {fields:?}");
    }
    assert!(!fields.contains(&"power.base.nic_port_watts"));
}

#[test]
fn mistakes_name_file_line_field_and_allowed_values() {
    let cases = [
        (
            "cards = [\"intel-82599\"]",
            6,
            "parts.cards: sohan-2010-nics has no card \"intel-82599\"; allowed: Solarflare(Fibre), ",
        ),
        (
            "cards = [\"Intel 1G\"]",
            6,
            "no idle and active power and throughput of \"Intel 1G\"; allowed: Solarflare",
        ),
        ("cards = [\"Intel(CX4)\", \"Intel Multiport(4x1G)\"]", 6, "links of 1 Gbit/s, not of 10"),
        ("link_gbps = 1\ncards = [\"Intel(CX4)\"]", 7, "links of 10 Gbit/s, not of 1"),
        ("link_gbps = 0", 6, "parts.link_gbps = 0: must be 0.001 to 10000"),
        ("cards = []", 6, "must be a list of texts, one at least"),
        (
            "cards = [\"Intel(CX4)\"]\ncards_from = \"none-such\"",
            7,
            "parts.cards_from: none-such: ",
        ),
        ("cards_from = \"sohan-2010-nics\"", 6, "parts.cards_from: needs cards as well"),
        (
            "receive = \"fast\"",
            6,
            "no receive path \"fast\"; allowed: published, direct-cache-access",
        ),
        (
            "platform = \"bolla-a\"",
            6,
            "parts.platform: server model \"bolla-a\" cannot be used for",
        ),
        ("eee = true", 6, "parts.eee: unknown"),
        ("[wake_up]\nfixed_us = 1\ncycles = 1", 4, "remove wake_up, or cores"),
    ];
    for (parts, line, expected) in cases {
        let error = file(&format!("cores = \"westmere-2010\"\n{parts}")).unwrap_err();
        let start = format!("mine.toml:{line}: ");
        let found =
            error.lines().any(|found| found.starts_with(&start) && found.contains(expected));
        assert!(found, "{expected:?} at line {line} not in {error}");
    }
    let error = file(FIBRE).unwrap_err();
    assert!(error.contains("name cores, or give processor, idle_state"), "{error}");
    let nested = std::env::temp_dir().join(format!("wattline-parts-{}.toml", std::process::id()));
    std::fs::write(&nested, format!("{HEAD}[parts]\ncores = \"westmere-2010\"")).unwrap();
    let error = file(&format!("cores = {:?}", nested.display())).unwrap_err();
    std::fs::remove_file(&nested).unwrap();
    assert!(error.contains("names parts itself"), "{error}");
}
