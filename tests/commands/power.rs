//! The commands probe, meter and restore on trees of machines, and on this one.

#[path = "../../crates/meters/tests/common/parts.rs"]
mod parts;

use crate::metrics::serve;
use crate::program::{any_document, ended_with, wattline, words};
use parts::PARTS;
use serde_json::Value;
use std::fs;
use std::io::ErrorKind;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use wattline_knobs::{Machine, Session};
use wattline_linux::sysfs::Tree;

const MAX: &str = "sys/devices/system/cpu/cpufreq/policy0/scaling_max_freq";
const NOBODY: u32 = 65_534;

fn fixture(of: &str, name: &str) -> String {
    format!("{}/../../crates/{of}/tests/fixtures/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// A copy of a tree of knobs, with a session that was killed after it halved a frequency.
fn killed() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("root");
    let copied = Command::new("cp")
        .args(["-r", &fixture("knobs", "acpi-cpufreq")])
        .arg(&root)
        .status()
        .unwrap();
    assert!(copied.success());
    for path in [directory.path(), &root] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let tree = Tree::at(&root);
    let state = root.join("var/lib/wattline");
    let (mut session, _) = Session::begin(Machine::new(&tree), &tree, &state).unwrap();
    session.set(&format!("/{MAX}").parse().unwrap(), "1600000").unwrap();
    session.keep();
    (directory, root)
}

/// Runs a program that was just copied: a test that starts another one at this moment may still
/// hold it open for writing.
fn output_of(command: &mut Command) -> Output {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        match command.output() {
            Err(error) if error.kind() == ErrorKind::ExecutableFileBusy && Instant::now() < end => {
                std::thread::sleep(Duration::from_millis(5));
            }
            other => return other.unwrap(),
        }
    }
}

fn value(root: &Path) -> String {
    fs::read_to_string(root.join(MAX)).unwrap()
}

#[test]
fn restore_prints_commands_and_then_does_it() {
    let (_directory, root) = killed();
    let at = ["--root", root.to_str().unwrap()];
    let printed = wattline(&words("restore --print", &at));
    assert_eq!(String::from_utf8_lossy(&printed.stdout), format!("echo 3300000 > /{MAX}\n"));
    assert_eq!(value(&root), "1600000\n", "printing touches nothing");
    let restored = wattline(&words("restore --json", &at));
    assert_eq!(any_document(&restored)["lines"][0]["result"], "restored");
    assert_eq!(value(&root), "3300000\n");
    let again = wattline(&words("restore", &at));
    assert_eq!(String::from_utf8_lossy(&again.stdout), "nothing to undo\n");
    assert_eq!(again.status.code(), Some(0));
}

/// As old versions left it, which did not remove a partial line after the disk was full.
#[test]
fn a_damaged_journal_is_named_undone_as_far_as_it_goes_and_no_success() {
    let (_directory, root) = killed();
    let journal = root.join("var/lib/wattline/knobs.journal");
    let text = fs::read_to_string(&journal).unwrap();
    fs::write(&journal, format!("no entry\n{}{text}", &text[..40])).unwrap();
    let at = ["--root", root.to_str().unwrap()];
    let printed = wattline(&words("restore --print", &at));
    assert_eq!(String::from_utf8_lossy(&printed.stdout), format!("echo 3300000 > /{MAX}\n"));
    assert_eq!(printed.status.code(), Some(65));
    let restored = wattline(&words("restore", &at));
    ended_with(&restored, 65, &["line 1: ", "line 2: ", "knobs.journal.damaged"]);
    assert_eq!(value(&root), "3300000\n");
    assert!(root.join("var/lib/wattline/knobs.journal.damaged").exists() && !journal.exists());
    assert!(wattline(&words("restore", &at)).status.success(), "nothing is left to undo");
}

/// The file of a driver that hangs: a pipe without a reader.
#[test]
fn a_restore_that_meets_a_hanging_driver_ends_names_it_and_keeps_the_journal() {
    let (_directory, root) = killed();
    let journal = root.join("var/lib/wattline/knobs.journal");
    let intents = fs::read_to_string(&journal).unwrap();
    // Killed before the value was read back: the file's present value may be its own.
    fs::write(&journal, intents.lines().next().unwrap().to_owned() + "\n").unwrap();
    let file = root.join(MAX);
    fs::remove_file(&file).unwrap();
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mkfifoat(rustix::fs::CWD, &file, mode).unwrap();
    let at = ["restore", "--root", root.to_str().unwrap()];
    let hangs = wattline(&at);
    ended_with(&hangs, 74, &[MAX, "has not answered"]);
    assert!(journal.exists());
    fs::remove_file(&file).unwrap();
    fs::write(&file, "1600000\n").unwrap();
    assert!(wattline(&at).status.success());
    assert_eq!(value(&root), "3300000\n");
    assert!(!journal.exists());
}

#[test]
fn without_permission_restore_ends_with_77_and_changes_nothing() {
    if !rustix::process::geteuid().is_root() {
        wattline_needs::rights("only root can hand rights away");
        return;
    }
    let (_directory, root) = killed();
    // A copy outside of root's directories.
    let program = root.join("wattline");
    crate::copy_program(&program);
    let as_nobody = || {
        let mut command = Command::new(&program);
        output_of(command.args(["restore", "--root"]).arg(&root).uid(NOBODY).gid(NOBODY))
    };
    // Neither lock nor journal may be opened.
    let refused = as_nobody();
    assert_eq!(refused.status.code(), Some(77), "{refused:?}");
    // These may be opened, but not the setting.
    let state = root.join("var/lib/wattline");
    for path in [state.clone(), state.join("knobs.journal"), state.join("knobs.lock")] {
        std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    let refused = as_nobody();
    ended_with(&refused, 77, &["scaling_max_freq: no permission; run as root"]);
    assert_eq!(value(&root), "1600000\n");
    assert!(state.join("knobs.journal").exists(), "to be restored by someone who may");
}

#[test]
fn meters_are_listed_with_what_may_be_summed() {
    let list =
        wattline(&["meter", "list", "--json", "--root", &fixture("meters", "intel-two-dies")]);
    let list = any_document(&list);
    assert_eq!(list["meters"].as_array().unwrap().len(), 4);
    assert_eq!(list["summed"].as_array().unwrap().len(), 4);
    assert_eq!(list["meters"][1]["id"], "rapl:package-0-die-0/dram");
    assert_eq!(list["meters"][1]["provenance"]["accuracy"], "silver");
}

#[test]
fn a_machine_without_meters_is_unavailable_not_at_zero() {
    let root = fixture("meters", "virtual-machine");
    let read = wattline(&["meter", "read", "--root", &root]);
    ended_with(&read, 69, &["power is unavailable", "this is a virtual machine"]);
    assert!(read.stdout.is_empty());
}

#[test]
fn counters_that_only_root_may_read_are_a_missing_permission() {
    if !rustix::process::geteuid().is_root() {
        wattline_needs::rights("only root can hand rights away");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("root");
    let from = fixture("meters", "amd");
    assert!(Command::new("cp").args(["-r", &from]).arg(&root).status().unwrap().success());
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    for zone in ["intel-rapl:0", "intel-rapl:0:0"] {
        let counter = root.join("sys/class/powercap").join(zone).join("energy_uj");
        fs::set_permissions(counter, fs::Permissions::from_mode(0o400)).unwrap();
    }
    let program = root.join("wattline");
    crate::copy_program(&program);
    let mut command = Command::new(&program);
    command.args(["meter", "read", "--root"]).arg(&root).uid(NOBODY).gid(NOBODY);
    let refused = output_of(&mut command);
    ended_with(&refused, 77, &["give a group the right to read"]);
}

fn read_meters(root: &str) -> Output {
    wattline(&words("meter read --json --interval 10ms --root", &[root]))
}

#[test]
fn power_is_read_with_its_source_and_broken_sensors_by_name() {
    let root = fixture("meters", "acpi-power-meter");
    let read = any_document(&read_meters(&root));
    assert_eq!(read["total"]["power_watts"], 118.2);
    assert_eq!(read["total"]["source"], "measured");
    assert_eq!(read["total"]["accuracy"], "gold");
    assert_eq!(read["checks"], Value::Array(vec![]), "nothing is shown twice");

    let root = fixture("meters", "broken-sensors");
    let output = read_meters(&root);
    assert_eq!(output.status.code(), Some(69), "no meter is left");
    let read = any_document(&output);
    assert_eq!(read["total"]["power_watts"], Value::Null);
    assert_eq!(read["total"]["source"], "unavailable");
    let rejected = |id: &str| {
        let meters = read["meters"].as_array().unwrap();
        meters.iter().find(|meter| meter["meter"] == id).unwrap()["rejected"].clone()
    };
    assert_eq!(rejected("hwmon:power_meter-hwmon0/power1"), "sentinel");
    assert_eq!(rejected("rapl:package-0"), "out of range");
}

/// One of two supplies without a figure: the other is not the machine.
#[test]
fn a_part_is_not_shown_as_the_total() {
    let root = tempfile::tempdir().unwrap();
    let mut copy = Command::new("cp");
    copy.args(["-r", &format!("{}/.", fixture("meters", "two-supplies"))]).arg(root.path());
    assert!(copy.status().unwrap().success());
    let read = || {
        let root = root.path().display().to_string();
        any_document(&read_meters(&root))
    };
    assert_eq!(read()["total"]["power_watts"], 400.0);
    let supply = root.path().join("sys/class/hwmon/hwmon3/power1_input");
    fs::write(supply, "-1\n").unwrap();
    let read = read();
    assert_eq!(read["total"]["power_watts"], Value::Null, "{read}");
    assert_eq!(read["total"]["source"], "unavailable");
}

#[test]
fn records_are_csv_with_a_line_per_tick() {
    let root = fixture("meters", "acpi-power-meter");
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("power.csv");
    let out = file.to_str().unwrap();
    let line = "meter record --period 20ms --duration 100ms";
    let arguments = words(line, &["--root", &root, "--out", out]);
    let output = wattline(&arguments);
    assert!(output.status.success(), "{output:?}");
    let text = fs::read_to_string(&file).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("time_seconds,meter,power_watts"), "{text}");
    assert!(lines.len() >= 2);
    assert!(
        lines[1..].iter().all(|line| line.contains(",hwmon:power_meter-ACPI000D:00/power1,118.2,")),
        "{text}"
    );
    // Taken and missed ticks add up to the duration.
    ended_with(&output, 0, &["ticks missed"]);
    assert_eq!(wattline(&arguments).status.code(), Some(74), "an existing file is not overwritten");
}

/// An exporter whose watts follow the processor time of a process after a lag.
fn late_exporter(late: Duration) -> (u16, Arc<AtomicU32>) {
    let process = Arc::new(AtomicU32::new(0));
    let of = Arc::clone(&process);
    let mut seen = vec![(Instant::now(), 0.0)];
    let port = serve(TcpListener::bind("127.0.0.1:0").unwrap(), move || {
        let stat = fs::read_to_string(format!("/proc/{}/stat", of.load(Ordering::Relaxed)));
        let ticks = stat.unwrap_or_default().split(' ').nth(13).map(str::parse::<f64>);
        let ticks = ticks.and_then(Result::ok).unwrap_or(seen[seen.len() - 1].1);
        seen.push((Instant::now(), ticks));
        let shown = seen.iter().rposition(|(time, _)| time.elapsed() >= late).unwrap_or(0);
        let before = shown.saturating_sub(2);
        let seconds = (seen[shown].0 - seen[before].0).as_secs_f64().max(0.1);
        let watts = 100.0 + (seen[shown].1 - seen[before].1) / seconds;
        format!("pdu_watts {watts}\n")
    });
    (port, process)
}

#[test]
fn lag_of_a_remote_meter_is_found_by_a_load() {
    const LATE: f64 = 3.0;
    let root = tempfile::tempdir().unwrap();
    let (port, process) = late_exporter(Duration::from_secs_f64(LATE));
    fs::create_dir_all(root.path().join("sys")).unwrap();
    fs::create_dir_all(root.path().join("etc/wattline")).unwrap();
    let name = format!("prometheus:http://127.0.0.1:{port}/metrics#pdu_watts");
    let text = format!("[[meter]]\nname = \"{name}\"\nperiod = \"100ms\"\n");
    fs::write(root.path().join("etc/wattline/meters.toml"), text).unwrap();
    let align = |duration: &str| {
        let mut command = Command::new(wattline_needs::program());
        command.args(["meter", "align", "--json", "--duration", duration, "--root"]);
        let child = command.arg(root.path()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let child = child.unwrap();
        process.store(child.id(), Ordering::Relaxed);
        child.wait_with_output().unwrap()
    };
    assert_eq!(align("1s").status.code(), Some(2));
    // Other tests may take the processors for a while.
    let found = (0..3).find_map(|_| {
        let output = align("20s");
        let lags = any_document(&output);
        let lag = lags[0]["lag_seconds"].as_f64()?;
        let uncertainty = lags[0]["uncertainty_seconds"].as_f64()?;
        println!("{lags:#}");
        // It is asked ten times a second, and shows the mean of two answers.
        (output.status.success() && (lag - LATE - 0.2).abs() <= uncertainty + 0.3).then_some(())
    });
    assert!(found.is_some(), "the lag was not found");
}

/// Rows of a phase: a platform's meter, a package and its memory, each with a little noise.
fn phase(folder: &Path, name: &str, watts: [f64; 3]) -> String {
    let mut text = String::from(
        "time_seconds,meter,power_watts,energy_joules,elapsed_seconds,source,accuracy,rejected,\
         sees,part_of\n",
    );
    let meters = [
        ("ipmi:dcmi", "platform", "gold"),
        ("rapl:package-0", "package", "silver"),
        ("rapl:package-0/dram", "memory", "silver"),
    ];
    for (tick, wobble) in [(1, -0.25), (2, 0.0), (3, 0.25)] {
        for ((meter, sees, class), watts) in meters.iter().zip(watts) {
            let watts = watts + wobble;
            text += &format!("{tick},{meter},{watts},{watts},1,measured,{class},,{sees},\n");
        }
    }
    let path = folder.join(name);
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn watts_are_attributed_from_recorded_phases() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, watts| phase(directory.path(), name, watts);
    let idle = file("idle.csv", [84.0, 20.0, 4.0]);
    let plus = file("plus.csv", [93.0, 21.0, 4.0]);
    let polling = file("polling.csv", [153.0, 81.0, 4.0]);
    let loaded = file("loaded.csv", [151.0, 71.0, 7.0]);
    let of = |more: &[&str]| {
        let phases = ["--idle", &idle, "--idle-plus", &plus, "--loaded", &loaded];
        wattline(&[&["meter", "attribute"], &phases[..], more].concat())
    };
    let shares = ["--polling", &polling, "--useful-share", "0.25", "--empty-share", "0.5"];
    let report = any_document(&of(&[&shares[..], &["--json"]].concat()));
    let parts = report["parts"].as_array().unwrap();
    let watts = |part: &str| {
        let found = parts.iter().find(|one| one["part"] == part).unwrap();
        assert!(found["uncertainty_watts"].as_f64().unwrap() > 0.0, "{part}");
        found["power_watts"].as_f64().unwrap()
    };
    for (part, expected) in PARTS {
        assert!((watts(part) - expected).abs() < 1e-9, "{part}: {report:#}");
    }
    let sum: f64 = parts.iter().map(|part| part["power_watts"].as_f64().unwrap()).sum();
    assert!((sum - report["power_watts"].as_f64().unwrap()).abs() < 1e-9, "parts + rest = whole");
    assert_eq!((&report["source"], &report["accuracy"]), (&"measured".into(), &"silver".into()));
    let text = String::from_utf8(of(&[]).stdout).unwrap();
    assert!(text.contains("package, awake") && text.contains("rapl:package-0 (silver)"), "{text}");

    // Everything that is wrong at once, each with its file.
    fs::write(&plus, "time,watts\n1,2\n").unwrap();
    let gone = directory.path().join("gone.csv");
    let arguments = ["--idle", gone.to_str().unwrap(), "--idle-plus", &plus, "--loaded", &loaded];
    let wrong = wattline(&words("meter attribute", &arguments));
    ended_with(&wrong, 66, &["gone.csv: No such file", "plus.csv: "]);
    let shares = of(&["--useful-share", "0.9", "--empty-share", "0.2"]);
    assert_eq!(shares.status.code(), Some(65), "{shares:?}");
    assert_eq!(wattline(&["meter", "attribute", "--idle", &idle]).status.code(), Some(2));
}

/// `attribute` reads the records of `record`, and measures by itself when the user starts a phase.
#[test]
fn watts_are_attributed_from_records_and_live() {
    let root = fixture("meters", "acpi-power-meter");
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("power.csv");
    let file = file.to_str().unwrap();
    let line = "meter record --period 5ms --duration 60ms";
    let recorded = wattline(&words(line, &["--root", &root, "--out", file]));
    assert!(recorded.status.success(), "{recorded:?}");
    let files = ["--idle", file, "--idle-plus", file, "--loaded", file];
    let report = any_document(&wattline(&words("meter attribute --json", &files)));
    let near = |found: &Value, watts: f64| {
        let found = found["power_watts"].as_f64().unwrap();
        assert!((found - watts).abs() < 1e-9, "{found} W instead of {watts} W");
    };
    let part = |report: &Value, name: &str| {
        let parts = report["parts"].as_array().unwrap();
        parts.iter().find(|part| part["part"] == name).unwrap().clone()
    };
    near(&report, 118.2);
    near(&part(&report, "network card, idle"), 0.0);

    let mut live = Command::new(wattline_needs::program())
        .args(["meter", "attribute", "--json", "--live", "100ms", "--root", &root])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut live.stdin.take().unwrap(), b"\n\n\n").unwrap();
    let output = live.wait_with_output().unwrap();
    let report = any_document(&output);
    near(&part(&report, "rest"), 118.2);
    let asked = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(asked.lines().count(), 3, "{asked}");
    let ended = wattline(&["meter", "attribute", "--live", "100ms", "--root", &root]);
    assert_eq!(ended.status.code(), Some(2), "nobody answers");
    let none = fixture("meters", "virtual-machine");
    let unavailable = wattline(&["meter", "attribute", "--live", "1s", "--root", &none]);
    assert_eq!(unavailable.status.code(), Some(69));
}

#[test]
fn probe_lists_knobs_meters_and_rivals_of_a_recorded_machine() {
    let root = fixture("knobs", "intel-pstate-hwp");
    let probe = any_document(&wattline(&["probe", "--json", "--root", &root]));
    let names: Vec<&str> =
        probe["knobs"].as_array().unwrap().iter().map(|k| k["name"].as_str().unwrap()).collect();
    for name in ["frequency of CPUs [0]", "idle states", "uncore frequency package_00_die_00"] {
        assert!(names.contains(&name), "{name} is not among {names:?}");
    }
    let moderated =
        any_document(&wattline(&["probe", "--json", "--root", &fixture("knobs", "acpi-cpufreq")]));
    assert_eq!(moderated["rivals"][0]["name"], "adaptive moderation of eth9");
    let nothing = wattline(&["probe", "--root", "/no/such/tree"]);
    assert_eq!(nothing.status.code(), Some(66));
}

/// The machine of the test: `probe` of its record shows the same as of the machine.
#[test]
fn this_machine_is_recorded_without_what_identifies_it() {
    let directory = tempfile::tempdir().unwrap();
    let to = directory.path().join("recorded");
    let recorded = wattline(&["probe", "--record", to.to_str().unwrap()]);
    assert!(recorded.status.success(), "{recorded:?}");
    let live = any_document(&wattline(&["probe", "--json"]));
    let copy = any_document(&wattline(&["probe", "--json", "--root", to.to_str().unwrap()]));
    assert_eq!(live["virtual_machine"], copy["virtual_machine"]);
    let ids = |probe: &Value| -> Vec<String> {
        let meters = probe["meters"].as_array().unwrap();
        meters.iter().map(|meter| meter["id"].to_string()).collect()
    };
    assert_eq!(ids(&live), ids(&copy));
    let name_of = |probe: &Value, part: &str| {
        let knobs = probe["knobs"].as_array().unwrap().clone();
        knobs.into_iter().find(|knob| knob["name"].as_str().unwrap().contains(part))
    };
    assert_eq!(name_of(&live, "idle states"), name_of(&copy, "idle states"));
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let kept = fs::read_to_string(to.join("proc/sys/kernel/random/boot_id")).unwrap();
    assert_ne!(kept, boot);
    let again = wattline(&["probe", "--record", to.to_str().unwrap()]);
    assert_eq!(again.status.code(), Some(74), "a recording is not mixed with another");
}
