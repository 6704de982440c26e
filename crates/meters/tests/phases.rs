//! A loaded machine's power attributed from recordings of its phases.

#[path = "common/parts.rs"]
mod parts;

use parts::PARTS;
use proptest::prelude::*;
use wattline_meters::Scope;
use wattline_meters::attribution::CoreTime;
use wattline_meters::phases::{Phases, PhasesError, Report, report};
use wattline_meters::recording::Row;
use wattline_units::{Accuracy, Source};

/// Returns rows of a platform meter and, for given figures, two packages and a memory.
fn phase(platform: f64, packages: Option<[f64; 2]>, memory: Option<f64>) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut add = |meter: &str, sees, part_of: Option<&str>, accuracy, watts: f64| {
        for (tick, wobble) in [(0, None), (1, Some(-0.5)), (2, Some(0.0)), (3, Some(0.5))] {
            let power = wobble.map(|wobble| watts + wobble);
            rows.push(Row {
                time_seconds: f64::from(tick),
                meter: meter.to_owned(),
                power_watts: power,
                energy_joules: power.filter(|_| sees != Scope::Platform),
                elapsed_seconds: power.map(|_| 1.0),
                source: if power.is_some() { Source::Measured } else { Source::Unavailable },
                accuracy: if power.is_some() { accuracy } else { Accuracy::Unavailable },
                rejected: power.is_none().then(|| "first".to_owned()),
                sees,
                part_of: part_of.map(str::to_owned),
            });
        }
    };
    add("supply", Scope::Platform, None, Accuracy::Gold, platform);
    add("psys", Scope::Platform, None, Accuracy::Bronze, platform * 0.8);
    for (number, watts) in packages.iter().flatten().enumerate() {
        let id = format!("rapl:package-{number}");
        add(&id, Scope::Package, Some("psys"), Accuracy::Silver, *watts);
        // The same register once more.
        add(&format!("perf:{number}"), Scope::Package, Some(&id), Accuracy::Silver, *watts);
    }
    if let Some(watts) = memory {
        add("rapl:package-0/dram", Scope::Memory, None, Accuracy::Silver, watts);
    }
    rows
}

const CORES: CoreTime = CoreTime { useful_share: 0.25, empty_share: 0.5 };

fn watts(report: &Report, part: &str) -> f64 {
    let found = report.parts.iter().find(|one| one.part == part);
    found.unwrap_or_else(|| panic!("no {part} in {report:#?}")).power.mean.get()
}

#[test]
fn known_parts_of_a_machine_are_found_again() {
    let idle = phase(84.0, Some([12.0, 8.0]), Some(4.0));
    let idle_plus = phase(93.0, Some([12.5, 8.5]), Some(4.0));
    let polling = phase(153.0, Some([41.0, 40.0]), Some(4.0));
    let loaded = phase(151.0, Some([36.0, 35.0]), Some(7.0));
    let polled = Phases {
        idle: &idle,
        idle_plus: &idle_plus,
        polling: Some(&polling),
        loaded: &loaded,
        cores: CORES,
    };
    let report = report(&polled).unwrap();
    for (part, expected) in PARTS {
        assert!((watts(&report, part) - expected).abs() < 1e-9, "{part}: {report:#?}");
    }
    assert_eq!(report.meters["supply"], Accuracy::Gold);
    assert!(!report.meters.contains_key("psys") && !report.meters.contains_key("perf:0"));
    assert_eq!((report.accuracy, report.readings), (Accuracy::Silver, 3));
    // Three readings half a watt apart, and 5 % as limits of the supply's scale.
    let whole = report.whole.uncertainty.get();
    let expected = (0.25f64 / 3.0 + (151.0f64 * 0.05).powi(2) / 3.0).sqrt();
    assert!((whole - expected).abs() < 1e-9, "{whole}");
    // A card of 5 W is not drowned in 5 % of the whole, since only differences count.
    let card = report.parts.iter().find(|one| one.part == "network card, traffic").unwrap();
    assert!(card.power.uncertainty.get() < 5.0, "{card:?}");
}

#[test]
fn baseline_is_subtracted_without_package_meters() {
    let (idle, plus, loaded) =
        (phase(84.0, None, None), phase(92.0, None, None), phase(120.0, None, None));
    let phases =
        Phases { idle: &idle, idle_plus: &plus, polling: None, loaded: &loaded, cores: CORES };
    let found = report(&phases).unwrap();
    assert_eq!(watts(&found, "rest"), 84.0);
    assert_eq!(watts(&found, "network card, idle"), 8.0);
    assert_eq!(watts(&found, "processors and card, traffic"), 28.0);
    assert_eq!(found.notes.len(), 1);
}

#[test]
fn missing_readings_are_named() {
    let good = phase(84.0, Some([12.0, 8.0]), None);
    let phases =
        Phases { idle: &good, idle_plus: &good, polling: None, loaded: &good, cores: CORES };
    assert!(report(&phases).is_ok());
    let none = report(&Phases { loaded: &[], ..phases });
    assert_eq!(none, Err(PhasesError::NoPlatform("loaded")));
    let one: Vec<Row> = good.iter().filter(|row| row.meter != "rapl:package-1").cloned().collect();
    let error = report(&Phases { idle: &one, ..phases }).unwrap_err().to_string();
    assert_eq!(error, "idle: rapl:package-1 has 0 readings with a figure, at least 2 are needed");
    let mut modelled = good.clone();
    modelled.iter_mut().for_each(|row| row.source = Source::Modelled);
    let error = report(&Phases { idle_plus: &modelled, ..phases }).unwrap_err().to_string();
    assert!(error.starts_with("idle+: supply is modelled"), "{error}");
}

proptest! {
    /// Parts add up to the whole, and a meter that shows a few percent too much, within its class,
    /// moves no part by more than three standard uncertainties.
    #[test]
    fn parts_add_up_and_uncertainties_cover_errors_of_scale(
        board in 20.0f64..200.0, card in 1.0f64..30.0, package in 5.0f64..100.0,
        work in 1.0f64..100.0, traffic in 0.0f64..10.0,
        supply in -0.05f64..0.05, rapl in -0.1f64..0.1,
    ) {
        let phase = |platform: f64, package: f64| {
            let halves = [package * (1.0 + rapl) / 2.0; 2];
            phase((platform + package) * (1.0 + supply), Some(halves), None)
        };
        let idle = phase(board, package);
        let plus = phase(board + card, package);
        let loaded = phase(board + card + traffic, package + work);
        let phases = Phases {
            idle: &idle, idle_plus: &plus, polling: None, loaded: &loaded, cores: CORES,
        };
        let found = report(&phases).unwrap();
        let sum: f64 = found.parts.iter().map(|part| part.power.mean.get()).sum();
        prop_assert!((sum - found.whole.mean.get()).abs() < 1e-6);
        for (name, truth) in [
            ("package, asleep", package),
            ("package, awake", work),
            ("network card, idle", card),
            ("network card, traffic", traffic),
            ("rest", board),
        ] {
            let part = found.parts.iter().find(|part| part.part == name).unwrap();
            let off = (part.power.mean.get() - truth).abs();
            prop_assert!(off <= 3.0 * part.power.uncertainty.get(), "{name}: {off}");
        }
    }
}
