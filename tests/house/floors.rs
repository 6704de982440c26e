//! A crate uses only crates of the floors below its own; `house.toml` has the floors.

use crate::house::House;
use std::collections::BTreeSet;

#[test]
fn crates_use_only_what_is_below_them() {
    let house = House::read();
    let floors = house.floors();
    let crates: BTreeSet<String> = house.crates().into_iter().map(|(name, _)| name).collect();
    let mut wrong = Vec::new();
    for name in crates.iter().filter(|name| !floors.contains_key(name.as_str())) {
        wrong.push(format!("{name} has no floor: give it one in house.toml"));
    }
    for name in floors.keys().copied().chain(house.with_circles()) {
        if !crates.contains(name) {
            wrong.push(format!("house.toml names {name}, which is no crate: take it out"));
        }
    }
    let uses = house.uses();
    assert!(uses.len() > 50, "uses were found: {}", uses.len());
    // Missing floors are reported above.
    let floor = |name: &String| floors.get(name.as_str()).copied().unwrap_or(0);
    let beyond: BTreeSet<_> =
        uses.iter().filter(|(user, used, _)| floor(used) >= floor(user)).cloned().collect();
    let allowed: BTreeSet<_> = [false, true]
        .into_iter()
        .flat_map(|tests| {
            let list = house.sideways(tests).iter();
            list.map(move |it| (it.user.clone(), it.used.clone(), tests))
        })
        .collect();
    for (user, used, tests) in beyond.difference(&allowed) {
        wrong.push(format!(
            "{user} (floor {}) uses {used} (floor {}){}: only floors below are allowed",
            floor(user),
            floor(used),
            if *tests { " in its tests" } else { "" },
        ));
    }
    for (user, used, _) in allowed.difference(&beyond) {
        wrong.push(format!("house.toml lets {user} use {used}, which needs no leave: take it out"));
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}
