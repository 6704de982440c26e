//! The table of crates on the architecture page agrees with Cargo.

use crate::house::House;
use std::collections::BTreeMap;

const PAGE: &str = include_str!("../../docs/explanation/architecture.md");

/// Floor and uses by crate, as the page has them.
fn table() -> BTreeMap<String, (usize, Vec<String>)> {
    let cells = |line: &'static str| -> Vec<&'static str> {
        line.trim_matches('|').split('|').map(str::trim).collect()
    };
    let rows = PAGE.lines().filter(|line| line.starts_with('|')).map(cells);
    let rows = rows.skip_while(|row| row.get(1) != Some(&"crate")).skip(2);
    let rows = rows.take_while(|row| row.len() == 4 && row[0].parse::<usize>().is_ok());
    let uses = |text: &str| -> Vec<String> {
        text.split(',').map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect()
    };
    rows.map(|row| (row[1].to_owned(), (row[0].parse().unwrap(), uses(row[3])))).collect()
}

#[test]
fn the_page_has_every_crate_with_its_floor_and_uses() {
    let house = House::read();
    let mut table = table();
    assert!(table.len() > 20, "the table was found: {}", table.len());
    let mut wrong = Vec::new();
    for (name, floor) in house.floors() {
        let uses: Vec<String> = house
            .uses()
            .into_iter()
            .filter(|(user, _, tests)| user == name && !tests)
            .map(|(_, used, _)| used)
            .collect();
        match table.remove(name) {
            Some(shown) if shown == (floor, uses.clone()) => {}
            shown => wrong.push(format!(
                "{name}: floor {floor}, uses {}; the page says {shown:?}",
                uses.join(", ")
            )),
        }
    }
    wrong.extend(table.keys().map(|name| format!("the page has {name}, which is no crate")));
    assert!(wrong.is_empty(), "docs/explanation/architecture.md:\n{}", wrong.join("\n"));
}
