//! No file of a crate imports another that imports it, directly or by way of others.
//!
//! The test reads the sources below `src` of every crate. One file imports another if it names an
//! item that is defined there: in a `use`, or in any path of an expression, type or pattern, also
//! among the arguments of a macro that look like expressions. Names are followed through `use` and
//! `pub use` to their definition: a path by the crate's root counts as a path to the type's own
//! file. `pub use` and `mod` alone are no imports. So `mod.rs` may declare and re-export its
//! children, and they may use its items; it may not use them as well.
//!
//! Methods of a type from another file and names within macros of other forms are not seen. Code
//! for tests alone (`#[cfg(test)]`) does not count. Circles that have to stay are in `house.toml`,
//! with the reason.

use crate::house::House;
use crate::modules::Modules;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

type Imports = BTreeMap<(PathBuf, PathBuf), String>;

/// Groups of files that all import each other, directly or by way of others in the group.
fn circles(imports: &Imports) -> Vec<BTreeSet<PathBuf>> {
    let files: BTreeSet<&PathBuf> = imports.keys().flat_map(|(a, b)| [a, b]).collect();
    let reached: BTreeMap<&PathBuf, BTreeSet<&PathBuf>> = files
        .iter()
        .map(|file| {
            let mut reached = BTreeSet::new();
            let mut new = vec![*file];
            while let Some(user) = new.pop() {
                let used = imports.keys().filter(|(from, _)| from == user).map(|(_, to)| to);
                new.extend(used.filter(|used| reached.insert(*used)));
            }
            (*file, reached)
        })
        .collect();
    let mut circles: Vec<BTreeSet<PathBuf>> = Vec::new();
    for file in &files {
        let both = |other: &&&PathBuf| {
            reached[*file].contains(**other) && reached[**other].contains(*file)
        };
        let circle: BTreeSet<PathBuf> =
            files.iter().filter(both).map(|file| (*file).clone()).collect();
        if !circle.is_empty() && !circles.contains(&circle) {
            circles.push(circle);
        }
    }
    circles
}

/// The imports that make a circle, one a line.
fn shown(circle: &BTreeSet<PathBuf>, imports: &Imports) -> String {
    let within =
        imports.iter().filter(|((from, to), _)| circle.contains(from) && circle.contains(to));
    within
        .map(|((from, to), path)| format!("\n    {} -> {}: {path}", from.display(), to.display()))
        .collect()
}

fn root(folder: &Path) -> PathBuf {
    let library = folder.join("src/lib.rs");
    if library.exists() { library } else { folder.join("src/main.rs") }
}

#[test]
fn files_of_a_crate_import_each_other_only_with_a_reason() {
    let house = House::read();
    let mut wrong = Vec::new();
    let mut files = 0;
    for (name, folder) in house.crates() {
        let imports = Modules::read(&root(&folder)).imports();
        files += imports.len();
        let found = circles(&imports);
        let allowed: Vec<BTreeSet<PathBuf>> = house.circles(&name);
        for circle in found.iter().filter(|circle| !allowed.contains(circle)) {
            wrong.push(format!("{name}: a circle of {:?}{}", circle, shown(circle, &imports)));
        }
        for circle in allowed.iter().filter(|circle| !found.contains(circle)) {
            wrong.push(format!(
                "{name}: house.toml allows {circle:?}, which is no circle: take it out"
            ));
        }
    }
    assert!(files > 500, "imports between files were found: {files}");
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// The circles of a crate made of these files.
fn circles_of(files: &[(&str, &str)]) -> Vec<BTreeSet<PathBuf>> {
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    circles(&Modules::read(&folder.path().join("lib.rs")).imports())
}

fn circle(files: [&str; 2]) -> Vec<BTreeSet<PathBuf>> {
    vec![files.map(PathBuf::from).into()]
}

#[test]
fn every_kind_of_path_to_a_file_is_a_use_of_it() {
    let root = ("lib.rs", "pub mod a; pub mod b; pub use a::A;");
    let a = ("a.rs", "use crate::b::B; pub struct A(B); pub const X: u32 = 1;");
    for back in [
        "use crate::a::A; pub struct B;",
        "use super::a::{self as it, X}; pub struct B;",
        "pub struct B; fn f(_: crate::A) {}",
        "use crate::*; pub struct B; fn f(_: A) {}",
        "pub struct B; fn f() { println!(\"{}\", crate::a::X) }",
        "pub struct B; mod within { fn f() -> u32 { super::super::a::X } }",
        "named! { pub enum B { C = \"c\" } } fn f() -> u32 { crate::a::X }",
    ] {
        assert_eq!(circles_of(&[root, a, ("b.rs", back)]), circle(["a.rs", "b.rs"]), "{back}");
    }
    for alone in [
        "pub struct B;",
        "pub struct B; #[cfg(test)] mod tests { use crate::a::A; }",
        "pub use crate::a::A; pub struct B;",
        "use std::fmt; pub struct B; fn f(_: fmt::Error) {}",
        "/// Goes into [`crate::a::A`].\npub struct B;",
    ] {
        assert!(circles_of(&[root, a, ("b.rs", alone)]).is_empty(), "{alone}");
    }
}

#[test]
fn folder_may_reexport_or_use_its_files_but_not_be_used_by_files_that_it_uses() {
    let root = ("lib.rs", "mod c;");
    let below = ("c/d.rs", "use super::LIMIT; pub struct D([u8; LIMIT]);");
    let shows = ("c/mod.rs", "mod d; pub use d::D; pub const LIMIT: usize = 1;");
    assert!(circles_of(&[root, shows, below]).is_empty());
    let uses = ("c/mod.rs", "mod d; pub use d::D; pub const LIMIT: usize = 1; fn f(_: D) {}");
    assert_eq!(circles_of(&[root, uses, below]), circle(["c/d.rs", "c/mod.rs"]));
    let three = [
        ("lib.rs", "mod a; mod b; mod c;"),
        ("a.rs", "use crate::b::B; pub struct A(B);"),
        ("b.rs", "use crate::c::C; pub struct B(C);"),
        ("c.rs", "pub struct C; fn f() -> crate::a::A { todo!() }"),
    ];
    assert_eq!(circles_of(&three), [["a.rs", "b.rs", "c.rs"].map(PathBuf::from).into()]);
}
