//! The objects that are part of the project match their sources.

use aya_obj::generated::bpf_insn;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use wattline_xdp::Verdict;

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("bpf")
}

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/build-bpf")
}

/// Returns the files of a folder whose names end with `end`.
fn files(folder: &Path, end: &str) -> BTreeSet<String> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.ends_with(end)).collect()
}

#[test]
fn sources_are_unchanged_since_the_objects_were_built() {
    let folder = sources();
    let list = std::fs::read_to_string(folder.join("objects/SHA256SUMS")).unwrap();
    let listed: BTreeSet<_> = list.lines().filter_map(|line| line.rsplit('/').next()).collect();
    let objects = files(&folder.join("objects"), ".o");
    let programs = files(&folder, ".bpf.c");
    let expected = programs.iter().map(|name| name.replace(".c", ".o")).collect();
    assert_eq!(objects, expected, "each source has its object, and no object is left over");
    let headers = files(&folder, ".h");
    let all = [&headers, &programs, &objects].into_iter().flatten().map(String::as_str);
    assert_eq!(listed, all.collect());

    let mut check = Command::new("sha256sum");
    check.args(["--check", "--quiet", "objects/SHA256SUMS"]).current_dir(&folder);
    let output = check.output().expect("sha256sum is part of every Debian");
    assert!(
        output.status.success(),
        "run scripts/build-bpf after a change of the programs:\n{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// An instruction: operation, registers, offset, immediate.
type Instruction = (u8, u8, u8, i16, i32);
/// A map: kind, size of key and value, entries, flags.
type Definition = (u32, u32, u32, u32, u32);

/// Content of an object, as the kernel sees it.
#[derive(Debug, PartialEq)]
struct Content {
    programs: BTreeMap<String, Vec<Instruction>>,
    maps: BTreeMap<String, Definition>,
}

impl Content {
    fn read(object: &Path) -> Self {
        let object = std::fs::read(object).unwrap_or_else(|e| panic!("{}: {e}", object.display()));
        let object = aya_obj::Object::parse(&object).unwrap();
        let instruction = |i: &bpf_insn| (i.code, i.dst_reg(), i.src_reg(), i.off, i.imm);
        let programs = object.programs.iter().map(|(name, program)| {
            let function = &object.functions[&program.function_key()];
            (name.clone(), function.instructions.iter().map(instruction).collect())
        });
        let maps = object.maps.iter().map(|(name, map)| {
            let sizes = (map.key_size(), map.value_size(), map.max_entries());
            (name.clone(), (map.map_type(), sizes.0, sizes.1, sizes.2, map.map_flags()))
        });
        Self { programs: programs.collect(), maps: maps.collect() }
    }
}

#[test]
fn compiling_the_sources_gives_the_same_objects() {
    let folder = std::env::temp_dir().join(format!("wattline-bpf-{}", std::process::id()));
    let output = Command::new(script()).arg(&folder).output().unwrap();
    let output_text = String::from_utf8_lossy(&output.stderr).into_owned();
    // The compiler of the objects is not installed.
    if output.status.code() == Some(69) {
        let _ = std::fs::remove_dir_all(&folder);
        return wattline_needs::tool(&output_text);
    }
    assert!(output.status.success(), "{output_text}");
    let built = files(&folder, ".o");
    assert_eq!(built, files(&sources().join("objects"), ".o"));
    for object in &built {
        let fresh = Content::read(&folder.join(object));
        let ours = Content::read(&sources().join("objects").join(object));
        assert_eq!(fresh.programs.len(), 1, "{object} has one program");
        assert!(fresh == ours, "{object} is not what its source says: run scripts/build-bpf");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn source_and_crate_have_the_same_verdicts() {
    let header = std::fs::read_to_string(sources().join("verdict.h")).unwrap();
    let list = header.split("enum verdict {").nth(1).unwrap().split("};").next().unwrap();
    let names = list.lines().filter_map(|line| line.trim().strip_prefix("VERDICT_"));
    let names: Vec<String> =
        names.map(|name| name.trim_end_matches(',').to_lowercase().replace('_', "")).collect();
    let ours: Vec<String> =
        Verdict::ALL.map(|verdict| format!("{verdict:?}").to_lowercase()).into();
    assert_eq!(names, ours);
}
