//! The XDP programs on old and new kernels in emulated machines: each verifier accepts each object,
//! and the programs treat crafted frames in the same way.
//!
//! `cargo test -p wattline-testbed --test kernels -- --ignored --nocapture` prints the table. It
//! takes minutes, and fetches about 120 MB for each kernel at the first time.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use wattline_testbed::Error;
use wattline_testbed::rig::{Machine, Options, Rig};
use wattline_xdp::measured::{MeasuredLoad, MeasuredReceiver, MeasuredSender};
use wattline_xdp::polls::Polls;
use wattline_xdp::steer::{Steering, TABLE_ENTRIES};
use wattline_xdp::{
    Copies, CountingSink, LiveGenerator, PassAll, XdpForward, XdpMode, XdpModeChoice, XdpProgram,
};

/// Supported series of Debian's kernels.
const KERNELS: [&str; 3] = ["6.1", "6.12", "6.18"];
/// Objects that a kernel refuses, with its message: `scale` steers by TCX on interfaces, which
/// nothing else needs.
const NOT_ON: [(&str, &str, &str); 1] = [("6.1", "steer", "TCX (Linux 6.6)")];
/// Environment variable that makes this program the one in the guest.
const INSIDE: &str = "WATTLINE_TEST_OBJECTS";
/// Beginning of a line with names of objects and their outcome.
const LOADED: &str = "loaded: ";
/// Time limit of all tests of the crate in an emulated machine on a busy host.
const PATIENCE: Duration = Duration::from_secs(800);
const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];

/// Objects that are loaded together, and the function that loads them on a separate interface.
type Load = (&'static [&'static str], fn(u32) -> Result<(), String>);

const LOADS: [Load; 10] = [
    (&["sockets"], |ifindex| {
        let program = XdpProgram::load(ifindex, MAC, XdpModeChoice::Only(XdpMode::Native));
        program.map(drop).map_err(|e| e.to_string())
    }),
    (&["forward", "redirect", "transmit"], |ifindex| {
        let forward = Copies::new().and_then(|it| XdpForward::new(&it.into()));
        let forward = forward.map_err(|e| e.to_string())?;
        let choice = XdpModeChoice::Only(XdpMode::Native);
        let program = XdpProgram::load_forwarding(ifindex, MAC, choice, Some(&forward));
        program.map(drop).map_err(|e| e.to_string())
    }),
    (&["generator"], |ifindex| {
        LiveGenerator::new(ifindex, &[0; 60], None).map(drop).map_err(|e| e.to_string())
    }),
    (&["patient"], |ifindex| {
        let gap = Duration::from_micros(10);
        LiveGenerator::waiting(ifindex, &[0; 60], gap).map(drop).map_err(|e| e.to_string())
    }),
    (&["sink"], |ifindex| CountingSink::attach(ifindex).map(drop).map_err(|e| e.to_string())),
    (&["measured_send"], |ifindex| {
        MeasuredSender::new(&MeasuredLoad::nothing(ifindex)).map(drop).map_err(|e| e.to_string())
    }),
    (&["measured_receive"], |ifindex| {
        MeasuredReceiver::attach(ifindex, 1).map(drop).map_err(|e| e.to_string())
    }),
    (&["pass"], |ifindex| PassAll::attach(ifindex).map(drop).map_err(|e| e.to_string())),
    (&["napi_poll"], |_| Polls::observe().map(drop).map_err(|e| e.to_string())),
    (&["steer"], |ifindex| {
        Steering::attach(ifindex, &[0; TABLE_ENTRIES]).map(drop).map_err(|e| e.to_string())
    }),
];

/// Runs in the emulated machine, with interfaces `x0` upwards; elsewhere it does nothing.
#[test]
fn inside() {
    if std::env::var_os(INSIDE).is_none() {
        return;
    }
    for (number, (objects, load)) in LOADS.iter().enumerate() {
        let ifindex = wattline_linux::namespace::interface_index(&format!("x{number}")).unwrap();
        let result = match load(ifindex) {
            Ok(()) => "ok".to_owned(),
            Err(error) => error.replace('\n', " | "),
        };
        objects.iter().for_each(|object| println!("{LOADED}{object} {result}"));
    }
}

#[test]
fn every_object_has_its_line() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../xdp/bpf/objects");
    let entries = std::fs::read_dir(folder).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let there: BTreeSet<String> =
        names.filter_map(|name| Some(name.strip_suffix(".bpf.o")?.to_owned())).collect();
    let loaded = LOADS.iter().flat_map(|(objects, _)| *objects);
    // Its function belongs to a module that the emulated machine loads (tests/rig/nat.rs).
    let loaded = loaded.chain(&["flows"]).map(|name| (*name).to_owned());
    assert_eq!(loaded.collect::<BTreeSet<_>>(), there);
}

/// Observations on one kernel.
struct Seen {
    release: String,
    objects: usize,
    passed: usize,
    /// Failures, in words.
    wrong: Vec<String>,
    /// Number of tests reported as skipped.
    skipped: usize,
}

#[test]
#[ignore = "boots three kernels, which takes minutes"]
fn every_kernel_takes_every_xdp_program() {
    let Some(rig) = Rig::find() else {
        return wattline_needs::tool("an emulator in target/rig");
    };
    let tests = tests_of_the_programs();
    let objects: usize = LOADS.iter().map(|(objects, _)| objects.len()).sum();
    let mut wrong = Vec::new();
    println!("| kernel | objects taken | tests passed |\n|---|---|---|");
    for series in KERNELS {
        let rig = match rig.with_kernel(series) {
            Ok(rig) => rig,
            Err(error @ Error::Rig { .. }) => {
                println!("| {series} | SKIPPED: {error} | |");
                continue;
            }
            Err(error) => panic!("{error}"),
        };
        let mut seen =
            try_out(&rig, &tests).unwrap_or_else(|error| panic!("Linux {series}: {error}"));
        let lacks = NOT_ON.iter().filter(|(on, ..)| *on == series);
        let lacks: Vec<_> =
            lacks.map(|(_, object, message)| (format!("{object} "), *message)).collect();
        let is_known = |failure: &String| {
            lacks
                .iter()
                .any(|(object, message)| failure.starts_with(object) && failure.contains(message))
        };
        let before = seen.wrong.len();
        seen.wrong.retain(|failure| !is_known(failure));
        assert_eq!(
            before - seen.wrong.len(),
            lacks.len(),
            "{series} has what it lacked: {lacks:?}"
        );
        let Seen { release, passed, skipped, .. } = &seen;
        let failed = seen.wrong.len();
        println!("| {release} | {} of {objects} | {passed}, {failed} wrong |", seen.objects);
        if *skipped > 0 || *passed == 0 {
            wrong.push(format!("{release}: {passed} tests passed, {skipped} were skipped"));
        }
        wrong.extend(seen.wrong.iter().map(|failure| format!("{release}: {failure}")));
        if seen.objects + lacks.len() != objects {
            wrong.push(format!("{release}: {} of {objects} objects", seen.objects));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Returns the unit tests of `wattline-xdp`, in which the kernel runs the programs on frames.
fn tests_of_the_programs() -> PathBuf {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["test", "-p", "wattline-xdp", "--lib", "--no-run", "--message-format=json"]);
    let output = cargo.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let messages = text.lines().filter_map(|line| serde_json::from_str(line).ok());
    let mut built = messages.filter_map(|message: serde_json::Value| {
        let of_crate = message["target"]["name"] == "wattline_xdp";
        message["executable"].as_str().filter(|_| of_crate).map(PathBuf::from)
    });
    built.next().expect("cargo names the program that it built")
}

fn try_out(rig: &Rig, tests: &Path) -> Result<Seen, Error> {
    let programs = vec![("objects", std::env::current_exe().unwrap()), ("tests", tests.to_owned())];
    let options = Options { programs, namespaces: true, ..Options::default() };
    let mut machine = Machine::boot(rig, &options)?;
    let release = machine.run("uname -r", PATIENCE)?.trim().to_owned();
    assert_eq!(release, rig.release(), "this is not the kernel that was asked for");
    for number in 0..LOADS.len() {
        let line = format!(
            "/bin/ip link add x{number} up type veth peer name y{number} && \
             /bin/ip link set y{number} up"
        );
        machine.run(&line, PATIENCE)?;
    }
    let said = machine.run(&format!("{INSIDE}=1 objects --exact inside --nocapture"), PATIENCE)?;
    let loaded = said.lines().filter_map(|line| line.strip_prefix(LOADED));
    let (taken, refused): (Vec<&str>, Vec<&str>) = loaded.partition(|line| line.ends_with(" ok"));
    let mut wrong: Vec<String> = refused.into_iter().map(str::to_owned).collect();
    // One after the other: an emulated machine has few resources.
    let ended = machine.attempt("tests --test-threads 1 --show-output 2>&1", PATIENCE)?;
    let results = || ended.output.lines().filter(|line| line.starts_with("test "));
    let passed = results().filter(|line| line.ends_with("... ok")).count();
    let skipped = ended.output.lines().filter(|line| line.starts_with("skipped: ")).count();
    wrong.extend(results().filter(|line| line.ends_with("... FAILED")).map(str::to_owned));
    if ended.status != 0 {
        wrong.push(ended.output);
    }
    machine.power_off()?;
    Ok(Seen { release, objects: taken.len(), passed, wrong, skipped })
}
