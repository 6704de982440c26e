//! `crates/reproduce/published/claims.csv` is well formed, and the shipped data agrees with it.

use std::collections::{BTreeMap, BTreeSet};
use wattline_server::ComponentFile;

/// Returns the claims by id, or `None` if the package is built outside the repository.
fn claims() -> Option<BTreeMap<String, csv::StringRecord>> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../reproduce/published/claims.csv");
    let Ok(mut reader) = csv::Reader::from_path(path) else {
        wattline_needs::data(format_args!("{path} is not there"));
        return None;
    };
    let rows = reader.records().map(|record| record.expect("a well-formed row"));
    let mut by_id = BTreeMap::new();
    for row in rows {
        let previous = by_id.insert(row[0].to_string(), row.clone());
        assert!(previous.is_none(), "{} is there twice", &row[0]);
    }
    Some(by_id)
}

#[test]
fn every_claim_has_a_place_a_kind_and_a_paper() {
    let Some(claims) = claims() else { return };
    assert_eq!(claims.len(), 550);
    let kinds: BTreeSet<&str> = claims.values().map(|row| &row[3]).collect();
    let known = BTreeSet::from(["algorithm", "equation", "method", "parameter", "result"]);
    assert!(kinds.is_subset(&known), "{kinds:?}");
    for (id, row) in &claims {
        let paper = match &id[..3] {
            "PS-" => "powersave",
            "BO-" => "bolla",
            "LI-" => "liao",
            "SO-" => "sohan",
            "CP-" => "copi",
            other => panic!("{other}"),
        };
        assert_eq!(&row[1], paper, "{id}");
        assert!(!row[2].is_empty() && !row[4].is_empty(), "{id} has no place or quantity");
    }
}

#[test]
fn card_data_equals_sohans_tables() {
    let Some(claims) = claims() else { return };
    let cards = ComponentFile::load("sohan-2010-nics").unwrap();
    let mut compared = 0;
    for row in claims.values().filter(|row| &row[1] == "sohan") {
        let (quantity, value) = (&row[4], &row[5]);
        let Some(card) = cards.cards.iter().find(|card| {
            quantity.strip_prefix(&card.name).is_some_and(|rest| rest.starts_with(' '))
        }) else {
            continue;
        };
        let ours = match quantity[card.name.len()..].trim() {
            "idle 3.3 V rail" => card.idle_3v3.map(|watts| watts.0),
            "idle 12 V rail" => card.idle_12v.map(|watts| watts.0),
            "idle total" => card.idle().map(|watts| watts.0),
            "active power" => card.active.map(|watts| watts.0),
            "throughput" | "actual throughput" => card.throughput.map(|rate| rate.0 / 1e9),
            "CPU usage" => card.host_cpu_percent,
            _ => continue,
        };
        let theirs: f64 = value.parse().unwrap();
        assert!((ours.unwrap() - theirs).abs() < 1e-9, "{}: {quantity}", &row[0]);
        compared += 1;
    }
    assert_eq!(compared, 18 + 18 + 8, "some rows of Tables II, IV and V were not compared");
}
