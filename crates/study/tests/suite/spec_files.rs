//! Server files from published results of SPECpower.

use std::path::{Path, PathBuf};
use wattline_server::{Origin, ServerFile};
use wattline_study::fit::routers::SnakeTest;
use wattline_study::fit::spec::{Load, SpecError, SpecResults, two_of_three};

const HEAD: &str =
    "published,vendor,system,cpu,chips,cores,processor_mhz,memory_gb,watts_full,watts_idle";

/// Returns results of servers of several sizes and years; the tests use the last one.
fn results() -> SpecResults {
    let row = |index: u32| {
        let (chips, cores) = (1 + index % 2, 8 << (index / 2 % 4));
        let (year, memory) = (2008 + index % 17, 16 << (index / 8 % 3));
        let full = 60.0 * f64::from(chips * cores).powf(0.5) * (1.0 + 0.02 * f64::from(index % 5));
        format!(
            "Mar-{year},v,s,c,{chips},{},2400,{memory},{full:.1},{:.1}",
            chips * cores,
            full / 5.0
        )
    };
    let rows: Vec<String> = (0..60).map(row).collect();
    let last = "Jun-2023,HPE,ProLiant,AMD EPYC 9654,2,192,2400,384,800,150";
    SpecResults::parse("s.csv", &format!("{HEAD}\n{}\n{last}\n", rows.join("\n"))).unwrap()
}

#[test]
fn row_becomes_a_whole_server_with_origins() {
    let text = results().to_toml(61, "epyc", "s.csv").unwrap();
    let file = ServerFile::parse("epyc.toml", &text).unwrap();
    let model = file.model().unwrap();
    assert_eq!((model.processor.sockets, model.processor.cores_per_socket), (2, 96));
    assert_eq!(model.nic.queues_per_port, 128, "more cannot forward");
    let awake = model.awake_core_power(model.processor.highest_frequency()).0;
    assert!((192.0 * awake + 150.0 - 800.0).abs() < 1e-6, "{awake}");
    let figure = |field: &str| {
        file.figures
            .iter()
            .find(|figure| figure.field == field)
            .unwrap_or_else(|| panic!("{field}"))
    };
    for (field, origin) in [
        ("processor.cores_per_socket", Origin::Published),
        ("processor.frequencies_ghz", Origin::Assumed),
        ("power.base.other_watts", Origin::Published),
        ("power.core_awake_watts_per_ghz", Origin::Derived),
        ("application.ipv4.cycles_per_packet", Origin::Assumed),
        ("nic.link_gbps", Origin::Assumed),
    ] {
        assert_eq!(figure(field).origin, origin, "{field}");
    }
    let note = figure("power.base.other_watts").note.as_ref().unwrap();
    assert!(note.contains("servers alike draw"), "{note}");
}

/// Shipped servers written from a result, each with its system and month.
const SHIPPED: [(&str, &str, &str); 2] = [
    ("epyc-9654p", "ProLiant DL345 Gen11", "Nov-2022"),
    ("xeon-e-2388g", "FUJITSU Server PRIMERGY TX1330 M5", "Jan-2022"),
];

#[test]
fn shipped_server_marks_its_capacity_as_assumed() {
    for (name, system, published) in SHIPPED {
        let file = ServerFile::load(name).unwrap();
        assert!(file.description.starts_with(system), "{}", file.description);
        assert!(file.source.contains(&format!("SPECpower_ssj2008 published in {published}")));
        for figure in &file.figures {
            let is_size = ["sockets", "cores_per_socket", "clock_ghz", "other_watts"]
                .iter()
                .any(|size| figure.field.ends_with(size));
            let origin = match figure.field.as_str() {
                "power.core_awake_watts_per_ghz" => Origin::Derived,
                _ if is_size => Origin::Published,
                _ => Origin::Assumed,
            };
            assert_eq!(figure.origin, origin, "{name}: {}", figure.field);
        }
    }
}

/// The fit's range in the notes depends on all results; the figures do not.
#[test]
fn shipped_server_equals_the_file_of_its_row() {
    let Some(data) = data() else { return };
    let results = SpecResults::load(data.join("specpower-2026-03.csv").to_str().unwrap()).unwrap();
    for (name, system, published) in SHIPPED {
        let is_it = |row: &&wattline_study::fit::spec::SpecResult| {
            row.system == system && row.published == published
        };
        let Some(row) = results.rows.iter().find(is_it) else {
            wattline_needs::data(format_args!("the result of {system}"));
            continue;
        };
        let text = results.to_toml(row.row, name, "specpower-2026-03.csv").unwrap();
        let file = ServerFile::parse("s.toml", &text).unwrap();
        assert_eq!(file.model().unwrap(), ServerFile::load(name).unwrap().model().unwrap());
    }
}

/// Returns the directory of published watts, which are not part of the project.
fn data() -> Option<PathBuf> {
    let data = std::env::var_os("WATTLINE_DATA").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
        PathBuf::from,
    );
    let data = data.join("power");
    if !data.is_dir() {
        wattline_needs::data(format_args!("published watts in {}", data.display()));
        return None;
    }
    Some(data)
}

#[test]
fn missing_row_is_refused() {
    let results = results();
    for row in [0, 62] {
        let error = results.to_toml(row, "none", "s.csv").unwrap_err().to_string();
        assert!(error.contains("allowed: 1 to 61"), "{error}");
    }
}

#[test]
fn published_results_are_predicted_and_written() {
    let Some(data) = data() else { return };
    let results = SpecResults::load(data.join("specpower-2026-03.csv").to_str().unwrap()).unwrap();
    for load in Load::ALL {
        let random = SpecError::measure(&results.rows, load, two_of_three).unwrap();
        println!("{}: {random:?}", load.name());
        assert!(random.median < 0.4 && random.within > 0.85, "{random:?}");
        let later = SpecError::measure(&results.rows, load, |result| result.year < 2019.0).unwrap();
        println!("{}, later ones: {later:?}", load.name());
    }
    for result in results.rows.iter().step_by(3) {
        let text = match results.to_toml(result.row, "s", "s.csv") {
            Ok(text) => text,
            Err(error) => {
                assert!(result.chips > 64, "row {}: {error}", result.row);
                continue;
            }
        };
        let file = ServerFile::parse("s.toml", &text).unwrap_or_else(|error| panic!("{error}"));
        assert!(file.model().is_ok(), "row {}", result.row);
    }
    for test in SnakeTest::load_all(&data.join("netpowerbench")).unwrap() {
        println!("{} {}: {:?}", test.device, test.kind, test.errors());
    }
}
