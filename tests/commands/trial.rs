//! `wattline trial` on a copy of a recorded machine, whose power follows a rule that only the test
//! knows.

use crate::govern::running::{CPUS, Machine};
use crate::metrics::{free_port, get, serve};
use crate::program::{any_document, ended_with, number, runs, wattline_in};
use crate::prometheus::start;
use serde_json::Value;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};
use wattline_needs::{KillOnDrop, until};

/// Watts that the server saves while its card collects packets for 100 us.
const SAVING: f64 = 3.0;
const METER: &str = "sys/class/hwmon/hwmon0";
const USECS: &str = "ethtool/eth9/rx-usecs";
/// The setting that saves.
const COLLECTS: &str = "[govern]\nknobs = [\"moderation\"]\nmoderation = \"100us\"\n";
/// A setting that turns each knob, and draws the same power as the machine as it is.
const ALL: &str =
    "[govern]\nprofile = \"max-save\"\nmoderation = \"50us\"\nidle_latency = \"1us\"\n";

/// A server under a load that moves, with a meter for all of it.
struct Server {
    machine: Machine,
    /// The load is multiplied by this.
    times: Arc<AtomicU32>,
    /// Tasks wait for a CPU all the time.
    crowded: Arc<AtomicBool>,
    child: Option<KillOnDrop>,
}

/// Replaces a file in one step: a reader must not find half of it.
fn replace(path: &Path, text: &str) -> bool {
    let new = path.with_extension("new");
    fs::write(&new, text).and_then(|()| fs::rename(&new, path)).is_ok()
}

/// Simulates power, packet counts and pressure as long as the machine is there.
fn live(root: &Path, times: &AtomicU32, crowded: &AtomicBool) {
    let (began, mut last) = (Instant::now(), Instant::now());
    let (mut packets, mut waited, mut noise) = (0.0, 0.0, 17_u32);
    loop {
        let now = Instant::now();
        let (elapsed, seconds) = (last.elapsed().as_secs_f64(), began.elapsed().as_secs_f64());
        last = now;
        noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let random = f64::from(noise >> 8) / f64::from(1 << 24) - 0.5;
        let load = 1.0 + 0.5 * (seconds / 5.0).sin() + 0.1 * random;
        let load = load * f64::from(times.load(Ordering::Relaxed));
        packets += 1000.0 * load * elapsed;
        waited += if crowded.load(Ordering::Relaxed) { elapsed } else { 0.0 };
        let collects = fs::read_to_string(root.join(USECS)).is_ok_and(|text| text.trim() == "100");
        let drift = seconds / 60.0;
        let saved = if collects { SAVING } else { 0.0 };
        let watts = 60.0 + 10.0 * load + drift + random - saved;
        let counted = format!("rx_queue_0_packets {packets:.0}\nrx_queue_1_packets 0\n");
        let pressure =
            format!("some avg10=0.00 avg60=0.00 avg300=0.00 total={:.0}\n", waited * 1e6);
        // Without its sensor, the machine goes on.
        replace(&root.join(METER).join("power1_average"), &format!("{:.0}\n", watts * 1e6));
        if !replace(&root.join("ethtool/eth9/statistics"), &counted)
            || !replace(&root.join("proc/pressure/cpu"), &pressure)
        {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

impl Server {
    fn new() -> Self {
        let machine = Machine::new();
        machine.write(&format!("{METER}/name"), "power_meter");
        machine.write("proc/pressure/cpu", "some avg10=0.00 total=0");
        for cpu in [0, 1] {
            machine.write(&format!("{CPUS}/cpu{cpu}/cpufreq/scaling_cur_freq"), "2000000");
        }
        machine.write("collects.toml", COLLECTS);
        machine.write("all.toml", ALL);
        let (times, crowded) = (Arc::new(AtomicU32::new(1)), Arc::<AtomicBool>::default());
        let (root, own) = (machine.root.path().to_owned(), (times.clone(), crowded.clone()));
        std::thread::spawn(move || live(&root, &own.0, &own.1));
        until("the meter shows power", || machine.path(METER).join("power1_average").exists());
        Self { machine, times, crowded, child: None }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(wattline_needs::program());
        // Names of files are of the machine's folder.
        command.arg("trial").args(arguments).current_dir(self.machine.root.path());
        command.args(["--root", "."]);
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Begins a trial, and waits until it has set something.
    fn start(&mut self, arguments: &[&str]) {
        let log = fs::File::create(self.machine.path("log")).unwrap();
        let child = self.command(arguments).stdout(Stdio::null()).stderr(log).spawn().unwrap();
        self.child = Some(KillOnDrop(child));
        until("a setting is changed", || !self.is_as_before());
    }

    fn signal(&self, name: &str, process: u32) {
        let done = Command::new("kill").arg(name).arg(process.to_string()).status();
        assert!(done.unwrap().success());
    }

    fn process(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    fn ended(&mut self) -> Option<i32> {
        let mut child = self.child.take().unwrap();
        until("the trial ends", || child.try_wait().unwrap()).code()
    }

    /// The watchdog of the present block.
    fn guard(&self) -> u32 {
        child_of(self.process())
    }

    fn is_as_before(&self) -> bool {
        self.machine.differences().is_empty()
    }

    fn journal(&self) -> PathBuf {
        self.machine.path("var/lib/wattline/knobs.journal")
    }
}

/// Returns the child of a process: the watchdog of a trial, or the step of a first hour.
fn child_of(process: u32) -> u32 {
    until("the child runs", || match children_of(process)[..] {
        [child] => Some(child),
        _ => None,
    })
}

fn children_of(process: u32) -> Vec<u32> {
    let text = fs::read_to_string(format!("/proc/{process}/task/{process}/children"));
    text.unwrap_or_default().split_whitespace().map(|child| child.parse().unwrap()).collect()
}

/// The interval of a result holds the truth, give or take a tenth of the saving: one of twenty exact
/// intervals may miss it.
fn holds(result: &Value, truth: f64) {
    // An end without a bound is null.
    let end = |key: &str, open: f64| result[key].as_f64().unwrap_or(open);
    let lower = end("difference_lower_watts", f64::NEG_INFINITY);
    let upper = end("difference_upper_watts", f64::INFINITY);
    let near = 0.1 * SAVING;
    assert!(lower - near <= truth && truth <= upper + near, "{result:#}");
}

#[test]
fn trial_finds_the_saving_of_a_server_whose_load_moves() {
    let server = Server::new();
    let output = server.run(&["none", "collects.toml", "--block", "2s", "--pairs", "12", "--json"]);
    let result = any_document(&output);
    holds(&result, -SAVING);
    assert_eq!(result["difference_shown"], true, "{result:#}");
    assert_eq!((&result["work"], &result["at_equal_work"]), (&"packets_pps".into(), &true.into()));
    assert_eq!((&result["source"], &result["accuracy"]), (&"measured".into(), &"bronze".into()));
    let means = &result["means"]["b"];
    for key in ["power_watts", "packets_pps", "busy_cpus", "pressure_share", "frequency_hertz"] {
        assert!(means[key].is_number(), "{key}: {result:#}");
    }
    assert!((700.0..1300.0).contains(&number(means, "packets_pps")), "{result:#}");
    assert!(server.is_as_before(), "{:?}", server.machine.differences());
    assert!(!server.journal().exists());
}

#[test]
fn trial_of_nothing_against_nothing_shows_nothing() {
    let server = Server::new();
    // One of twenty trials shows a difference where there is none.
    let text = (0..3).find_map(|_| {
        let output = server.run(&["none", "none", "--block", "2s", "--pairs", "8"]);
        assert!(output.status.success(), "{output:?}");
        assert!(server.is_as_before(), "{:?}", server.machine.differences());
        let text = String::from_utf8(output.stdout).unwrap();
        text.contains("no difference shown: up to ").then_some(text)
    });
    let text = text.expect("three trials of nothing show a difference");
    for words in ["8 pairs of blocks of 2 s", "randomisation test", "measured, bronze", "packets"] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn trial_survives_a_load_that_triples() {
    let server = Server::new();
    let times = Arc::clone(&server.times);
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_secs(15));
        times.store(3, Ordering::Relaxed);
    });
    let output = server.run(&["none", "collects.toml", "--block", "2s", "--pairs", "12", "--json"]);
    let result = any_document(&output);
    holds(&result, -SAVING);
    assert!(number(&result["means"]["a"], "packets_pps") > 1300.0, "{result:#}");
}

#[test]
fn signal_restores_the_machine_and_the_same_command_goes_on() {
    let mut server = Server::new();
    let line =
        ["all.toml", "collects.toml", "--block", "2s", "--pairs", "8", "--out", "trial.json"];
    server.start(&line);
    until("two pairs are stored", || {
        let stored: Value =
            serde_json::from_str(&server.machine.value("trial.json")).unwrap_or_default();
        (stored["pairs"].as_array()?.len() >= 2).then_some(())
    });
    until("a block has begun", || !server.is_as_before());
    server.signal("-TERM", server.process());
    assert_eq!(server.ended(), Some(130), "{}", server.machine.log());
    assert!(server.is_as_before(), "{:?}", server.machine.differences());
    let log = server.machine.log();
    assert!(log.contains("interrupted") && log.contains("the same command continues"), "{log}");
    // Another trial does not use these blocks.
    let other = server.run(&["none", "collects.toml", "--block", "2s", "--out", "trial.json"]);
    assert_eq!(other.status.code(), Some(65), "{other:?}");
    let began = Instant::now();
    let output = server.run(&[&line[..], &["--json"]].concat());
    holds(&any_document(&output), -SAVING);
    assert!(began.elapsed() < Duration::from_secs(60));
    // A trial that is complete is printed again.
    let again = server.run(&[&line[..], &["--json"]].concat());
    assert_eq!(any_document(&again)["difference_watts"], any_document(&output)["difference_watts"]);
}

/// Killed alone, its watchdog restores; killed with it, `wattline restore` or the next start do.
#[test]
fn sigkill_in_a_block_leaves_no_setting_changed() {
    let mut server = Server::new();
    let line = ["all.toml", "collects.toml", "--block", "3s"];
    for pause in [0, 700, 3_400] {
        server.start(&line);
        std::thread::sleep(Duration::from_millis(pause));
        server.signal("-KILL", server.process());
        assert_eq!(server.ended(), None);
        until("the watchdog restores", || server.is_as_before());
        // Between two blocks nothing is changed, and the journal is empty or not there.
        until("the lock is free", || server.machine.restore().status.success());
        assert!(server.is_as_before() && !server.journal().exists());
    }
    let mut kill_both = || {
        server.start(&line);
        let guard = server.guard();
        server.signal("-KILL", guard);
        server.signal("-KILL", server.process());
        server.ended();
        until("the machine is left changed", || !server.is_as_before());
    };
    kill_both();
    let restored = server.machine.restore();
    assert!(restored.status.success(), "{restored:?}");
    assert!(server.is_as_before(), "{:?}", server.machine.differences());
}

#[test]
fn next_trial_restores_what_a_killed_one_left() {
    let mut server = Server::new();
    server.start(&["all.toml", "collects.toml", "--block", "3s"]);
    let guard = server.guard();
    server.signal("-KILL", guard);
    server.signal("-KILL", server.process());
    server.ended();
    assert!(!server.is_as_before());
    let child = server.command(&["none", "none", "--block", "3s"]).stdout(Stdio::null()).spawn();
    server.child = Some(KillOnDrop(child.unwrap()));
    until("the next start restores", || server.is_as_before());
}

/// A setting of another program: two commands with a pause between them.
const TOOL: &str = r#"
[setting]
before = ["cat", "ethtool/eth9/rx-usecs"]
enter = [["sh", "-c", "echo 77 > ethtool/eth9/rx-usecs; sleep 0.2; echo $0 > ethtool/eth9/rx-usecs", "100"]]
leave = [["sh", "-c", "echo $0 > ethtool/eth9/rx-usecs", "{before}"]]
check = [["grep", "-qx", "100", "ethtool/eth9/rx-usecs"]]
versions = [["echo", "tool 2.1"]]
settle = "100ms"
write = { "/sys/devices/system/cpu/cpufreq/policy*/scaling_governor" = "ondemand" }
"#;

#[test]
fn saving_of_a_setting_file_is_found_and_its_versions_are_named() {
    let server = Server::new();
    server.machine.write("tool.toml", TOOL);
    let output = server.run(&["none", "tool.toml", "--block", "2s", "--pairs", "12", "--json"]);
    let result = any_document(&output);
    holds(&result, -SAVING);
    assert_eq!(result["at_equal_work"], true, "{result:#}");
    let versions = result["versions"].to_string();
    assert!(versions.contains("tool 2.1") && versions.contains("wattline 0."), "{versions}");
    assert!(server.is_as_before(), "{:?}", server.machine.differences());
}

/// Kills at moments of entering, running and leaving; commands are ended before the setting is
/// undone.
#[test]
fn setting_file_is_undone_after_sigkill_at_any_moment() {
    let mut server = Server::new();
    server.machine.write("tool.toml", TOOL);
    for moment in [0, 50, 100, 150, 200, 250, 350, 1_000, 2_250, 2_350, 2_450] {
        server.start(&["tool.toml", "tool.toml", "--block", "2s"]);
        std::thread::sleep(Duration::from_millis(moment));
        // Once it is stopped, it starts no more children.
        let process = server.process();
        server.signal("-STOP", process);
        let status = format!("/proc/{process}/stat");
        until("the trial stops", || fs::read_to_string(&status).unwrap().contains(") T "));
        let children = children_of(process);
        server.signal("-KILL", process);
        assert_eq!(server.ended(), None);
        // Until a command that enters has ended, the setting may be as before for a moment alone.
        until("watchdog and command end", || !children.iter().copied().any(runs));
        assert!(server.is_as_before(), "{moment}: {:?}", server.machine.differences());
        until("the lock is free", || server.machine.restore().status.success());
    }
}

#[test]
fn setting_file_that_fails_ends_the_trial_and_is_undone() {
    let server = Server::new();
    for (from, to, says) in [
        ("; sleep 0.2;", "; exit 3;", "ended with exit status: 3"),
        ("sleep 0.2", "sleep 3600", "not done within 2 s"),
        ("\"-qx\", \"100\"", "\"-qx\", \"99\"", "not in force: grep"),
        ("policy*", "policies*", "no such file"),
        // Another program reverts the setting during the block.
        ("settle", "#", "not in force: grep"),
    ] {
        let mut text = format!("{TOOL}limit = \"2s\"\n").replace(from, to);
        if from == "settle" {
            text = text.replace(
                "echo $0 > ethtool/eth9/rx-usecs\", \"100\"",
                "echo 100 > ethtool/eth9/rx-usecs; (sleep 1; echo 5 > ethtool/eth9/rx-usecs) &\"",
            );
        }
        server.machine.write("tool.toml", &text);
        let output = server.run(&["tool.toml", "none", "--block", "2s"]);
        ended_with(&output, 65, &[says, "tool.toml"]);
        assert!(server.is_as_before(), "{says}: {:?}", server.machine.differences());
    }
}

/// Shows the server's power and a counter of its work as an exporter does.
fn exporter(root: PathBuf) -> u16 {
    serve(TcpListener::bind("127.0.0.1:0").unwrap(), move || {
        let shown = |file: &str| fs::read_to_string(root.join(file)).unwrap_or_default();
        let watts: f64 =
            shown("sys/class/hwmon/hwmon0/power1_average").trim().parse().unwrap_or(f64::NAN);
        let statistics = shown("ethtool/eth9/statistics");
        let packets = statistics.split_whitespace().nth(1).unwrap_or_default();
        format!("pdu_watts{{outlet=\"7\"}} {}\nserved_total {packets}\n", watts / 1e6)
    })
}

#[test]
fn same_saving_is_found_through_an_exporter_and_by_its_counter() {
    let server = Server::new();
    let port = exporter(server.machine.root.path().to_owned());
    let page = format!("prometheus:http://127.0.0.1:{port}/metrics");
    let meter = |period: &str| {
        format!(
            "[[meter]]\nname = '{page}#pdu_watts{{outlet=\"7\"}}'\nperiod = \"{period}\"\nlag = \"0s\"\naccuracy = \"gold\""
        )
    };
    let line = ["none", "collects.toml", "--block", "3s", "--pairs", "12", "--json"];
    server.machine.write("etc/wattline/meters.toml", &meter("1s"));
    let refused = server.run(&line);
    ended_with(&refused, 2, &["blocks of 7 s"]);
    server.machine.write("etc/wattline/meters.toml", &meter("100ms"));
    let counter = format!("{page}#served_total");
    let output = server.run(&[&line[..], &["--work", &counter]].concat());
    let result = any_document(&output);
    holds(&result, -SAVING);
    assert_eq!(
        (&result["work"], &result["accuracy"]),
        (&"counter_per_second".into(), &"gold".into())
    );
    assert_eq!(result["sensors"], serde_json::json!(["prometheus"]));
    assert!(!result.to_string().contains("127.0.0.1"), "reports have no addresses: {result:#}");
    let missing = server.run(&["none", "balanced", "--work", &format!("{page}#none")]);
    ended_with(&missing, 69, &["--work: 0 lines"]);
}

/// Reads a remote meter of the platform, and compares by it.
fn found_through(server: &Server, kind: &str, address: &str, more: &str) {
    let meter = format!(
        "[[meter]]\nname = '{kind}:{address}'\nperiod = \"100ms\"\nlag = \"300ms\"\n{more}"
    );
    server.machine.write("etc/wattline/meters.toml", &meter);
    let read = ["meter", "read", "--json", "--root", "."];
    let read = any_document(&wattline_in(server.machine.root.path(), &read));
    assert!((40.0..100.0).contains(&number(&read["total"], "power_watts")), "{read:#}");
    let line = ["none", "collects.toml", "--block", "2s", "--pairs", "10", "--json"];
    let result = any_document(&server.run(&line));
    holds(&result, -SAVING);
    assert_eq!(result["sensors"], serde_json::json!([kind]));
    assert!(server.is_as_before(), "{:?}", server.machine.differences());
}

#[test]
fn same_saving_is_found_through_a_prometheus_server() {
    let Some(prometheus) = wattline_testbed::command::program("prometheus") else {
        return wattline_needs::tool("prometheus");
    };
    let server = Server::new();
    let folder = tempfile::tempdir().unwrap();
    let port = exporter(server.machine.root.path().to_owned());
    let (_running, port) = start(prometheus, folder.path(), &[port], "100ms");
    let has_value = || {
        get(port, "/api/v1/query?query=pdu_watts").is_some_and(|text| text.contains("\"value\""))
    };
    until("Prometheus has a value", has_value);
    found_through(&server, "prometheus", &format!("http://127.0.0.1:{port}#pdu_watts"), "");
}

/// Serves resources of the server's power by the emulator of OpenStack's sushy-tools.
#[test]
fn same_saving_is_found_through_a_redfish_service() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let tools = package.join("../../target/tools/redfish/bin");
    if !tools.join("sushy-static").exists() {
        return wattline_needs::tool("sushy-tools");
    }
    let server = Server::new();
    let folder = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        fs::create_dir_all(folder.path().join(path)).unwrap();
        fs::write(folder.path().join(path).join("index.json"), text).unwrap();
    };
    write("Chassis", r#"{"Members": [{"@odata.id": "/redfish/v1/Chassis/1"}]}"#);
    let metrics = "Chassis/1/EnvironmentMetrics";
    write(
        "Chassis/1",
        &format!(r#"{{"EnvironmentMetrics": {{"@odata.id": "/redfish/v1/{metrics}"}}}}"#),
    );
    write(metrics, "{}");
    let (root, shown) = (server.machine.root.path().to_owned(), folder.path().join(metrics));
    std::thread::spawn(move || {
        let watts = || fs::read_to_string(root.join(METER).join("power1_average")).ok();
        while let Some(watts) = watts() {
            let watts: f64 = watts.trim().parse().unwrap_or(f64::NAN);
            let text = format!(r#"{{"PowerWatts": {{"Reading": {}}}}}"#, watts / 1e6);
            replace(&shown.join("index.json"), &text);
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    let port = free_port();
    let tls = package.join("../../crates/meters/tests/fixtures/tls");
    let mut service = Command::new(tools.join("python"));
    service.arg(tools.join("sushy-static")).args([
        "-i",
        "127.0.0.1",
        "-p",
        &port.to_string(),
        "-m",
    ]);
    service
        .arg(folder.path())
        .arg("-c")
        .arg(tls.join("own.pem"))
        .arg("-k")
        .arg(tls.join("key.pem"));
    let service = service.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let _running = KillOnDrop(service);
    until("the service listens", || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
    let pin = fs::read_to_string(tls.join("own.pem")).unwrap();
    server.machine.write("etc/wattline/own.pem", &pin);
    let more = "certificate = \"/etc/wattline/own.pem\"\n";
    found_through(&server, "redfish", &format!("https://127.0.0.1:{port}"), more);
}

#[test]
fn pressure_above_its_limit_ends_the_trial() {
    let mut server = Server::new();
    server.start(&["all.toml", "collects.toml", "--block", "4s"]);
    server.crowded.store(true, Ordering::Relaxed);
    assert_eq!(server.ended(), Some(65), "{}", server.machine.log());
    let log = server.machine.log();
    assert!(log.contains("CPU pressure was") && log.contains("--pressure-limit 50.00 %"), "{log}");
    assert!(server.is_as_before(), "{:?}", server.machine.differences());
}

#[test]
fn silent_latency_source_ends_a_trial_with_a_latency_limit() {
    let server = Server::new();
    let source = "latency_silence = \"1s\"\n[[latency]]\nname = \"a\"\nclients = \"a.sock\"\n";
    server.machine.write("source.toml", &format!("{COLLECTS}{source}"));
    let line = ["source.toml", "none", "--block", "4s", "--latency-limit", "5ms"];
    let output = server.run(&line);
    ended_with(&output, 65, &["no source shows whether --latency-limit is kept"]);
    assert!(server.is_as_before(), "{:?}", server.machine.differences());
}

#[test]
fn trial_without_its_meter_ends_and_restores() {
    let mut server = Server::new();
    server.start(&["all.toml", "collects.toml", "--block", "4s"]);
    fs::rename(server.machine.path(METER), server.machine.path("gone")).unwrap();
    assert_eq!(server.ended(), Some(69), "{}", server.machine.log());
    let log = server.machine.log();
    assert!(log.contains("a block is void") && log.contains("three blocks in a row"), "{log}");
    assert!(server.is_as_before(), "{:?}", server.machine.differences());
    // It does not even begin then.
    let refused = server.run(&["none", "balanced"]);
    ended_with(&refused, 69, &["no meter can be read", "modprobe"]);
}

#[test]
fn plan_states_the_time_to_resolve_one_percent() {
    let server = Server::new();
    let output = server.run(&["none", "collects.toml", "--block", "2s", "--plan", "--json"]);
    let planned = any_document(&output);
    assert!(
        (number(&planned, "half_width_watts") / number(&planned, "power_watts") - 0.01).abs()
            < 1e-9
    );
    assert!(number(&planned, "pairs") >= 8.0, "{planned:#}");
    assert_eq!(number(&planned, "duration_seconds"), 4.0 * number(&planned, "pairs"));
    assert!(server.is_as_before());
}

#[test]
fn mistakes_are_refused_before_anything_is_set() {
    let server = Server::new();
    let latency = format!("{CPUS}/none");
    for (line, code, says) in [
        (&["none", "fast"][..], 66, "\"max-save\""),
        (&["none", "balanced", "--pairs", "3"], 2, "8 or more"),
        (&["none", "balanced", "--block", "1ms"], 2, "from 2s"),
        (&["none", "balanced", "--pressure-limit", "2"], 2, "up to 1"),
        (&["none", "balanced", "--latency-limit", "2ms"], 2, "[[latency]]"),
        (&["none", &latency], 66, "neither"),
        (&["none", "nothing.toml"], 69, "nothing to compare"),
    ] {
        server.machine.write("nothing.toml", "[govern]\nknobs = []\ncpus = [0]\n");
        let output = server.run(line);
        ended_with(&output, code, &[says]);
    }
    assert!(server.is_as_before());
}

/// Returns the text of a file in the archive of a first hour.
fn archived(archive: &Path, file: &str) -> String {
    let read = Command::new("tar").arg("-xzOf").arg(archive).arg(format!("a/{file}")).output();
    let read = read.unwrap();
    assert!(read.status.success(), "{file}: {read:?}");
    String::from_utf8(read.stdout).unwrap()
}

const GOVERNOR: &str = "sys/devices/system/cpu/cpufreq/policy0/scaling_governor";

impl Server {
    /// The report of a shortened first hour, of a server at its highest frequency, which
    /// `balanced` changes.
    fn first_hour(&self) -> Command {
        for policy in ["policy0", "policy1"] {
            self.machine.write(&GOVERNOR.replace("policy0", policy), "performance");
        }
        self.first_hour_command()
    }

    fn first_hour_command(&self) -> Command {
        let mut command = Command::new(wattline_needs::program());
        command.args(["probe", "--first-hour", "a.tar.gz", "--block", "2s", "--root", "."]);
        command.current_dir(self.machine.root.path());
        command
    }

    /// Runs the same command on the machine as it is now.
    fn first_hour_again(&self) -> Output {
        self.first_hour_command().output().unwrap()
    }

    /// Returns true if the frequencies are as before the first hour.
    fn is_fast(&self) -> bool {
        let written = |path: &PathBuf| !path.ends_with("scaling_governor");
        self.machine.value(GOVERNOR) == "performance"
            && !self.machine.differences().iter().any(written)
    }
}

#[test]
fn first_hour_is_one_archive_and_leaves_the_machine_as_it_was() {
    let server = Server::new();
    let output = server.first_hour().output().unwrap();
    let (shown, notes) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{shown}{notes}");
    let archive = server.machine.path("a.tar.gz");
    let steps: Value = serde_json::from_str(&archived(&archive, "first-hour/steps.json")).unwrap();
    let steps = steps.as_array().unwrap();
    assert_eq!(steps.len(), 5);
    for step in steps {
        assert_eq!(step["exit_code"], 0, "{step}");
        assert!(shown.contains(&format!("{}: done", step["command"].as_str().unwrap())), "{shown}");
        let text = archived(&archive, &format!("first-hour/{}", step["file"].as_str().unwrap()));
        assert!(!text.is_empty(), "{step}");
    }
    let trial: Value = serde_json::from_str(&archived(&archive, "first-hour/trial.json")).unwrap();
    assert_eq!(trial["pairs"], 8, "{trial:#}");
    assert!(archived(&archive, "first-hour/power.csv").lines().count() > 2);
    assert_eq!(archived(&archive, GOVERNOR).trim(), "performance");
    assert!(server.is_fast(), "{:?}", server.machine.differences());
    // An existing file stays, and is named at once.
    let began = Instant::now();
    let again = server.first_hour().output().unwrap();
    let error = String::from_utf8(again.stderr).unwrap();
    assert!(error.contains("a.tar.gz: is there already"), "{error}");
    assert!(began.elapsed() < Duration::from_secs(5), "{error}");
}

#[test]
fn first_hour_that_cannot_be_stored_or_tried_is_refused_at_once() {
    let server = Server::new();
    let began = Instant::now();
    for (block, place, code, expected) in [
        ("1us", "a.tar.gz", 2, "--block: from 2s to 24h"),
        ("2d", "a.tar.gz", 2, "--block"),
        ("2s", "none/a.tar.gz", 74, "none/a.tar.gz"),
    ] {
        let hour = ["probe", "--root", ".", "--first-hour", place, "--block", block];
        ended_with(&wattline_in(server.machine.root.path(), &hour), code, &[expected]);
    }
    assert!(began.elapsed() < Duration::from_secs(10));
    assert!(!server.machine.path("a.tar.gz").exists());
}

impl Server {
    /// Begins the report of a first hour, and waits until its trial has set something.
    fn start_first_hour(&mut self) {
        let log = fs::File::create(self.machine.path("log")).unwrap();
        let child = self.first_hour().stdout(Stdio::null()).stderr(log).spawn().unwrap();
        self.child = Some(KillOnDrop(child));
        until("the trial sets something", || !self.is_fast());
    }
}

#[test]
fn killed_first_hour_takes_its_trial_along() {
    let mut server = Server::new();
    server.start_first_hour();
    let trial = child_of(server.process());
    let guard = child_of(trial);
    server.signal("-KILL", server.process());
    assert_eq!(server.ended(), None);
    // Its sixteen blocks take longer.
    let began = Instant::now();
    until("the trial ends", || !runs(trial));
    until("its watchdog ends", || !runs(guard));
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    assert!(server.is_fast(), "{:?}", server.machine.differences());
    assert!(!server.journal().exists() && !server.machine.path("a.tar.gz").exists());
}

#[test]
fn first_hour_restores_what_a_killed_one_left_and_begins_anew() {
    let mut server = Server::new();
    server.start_first_hour();
    let trial = child_of(server.process());
    let guard = child_of(trial);
    // Another report refuses a machine that is governed.
    let other = server.first_hour_again();
    ended_with(&other, 69, &["is changing this machine's settings"]);
    // At once: the trial outlives neither.
    let processes = [guard, server.process(), trial].map(|process| process.to_string());
    assert!(Command::new("kill").arg("-KILL").args(processes).status().unwrap().success());
    server.ended();
    until("the trial is gone", || !runs(trial));
    assert!(!server.is_fast(), "nothing is left to restore");
    let again = server.first_hour_again();
    ended_with(&again, 0, &["left by a killed run: ", "scaling_governor"]);
    // The record has the machine's own settings, not the ones that were left.
    assert_eq!(archived(&server.machine.path("a.tar.gz"), GOVERNOR).trim(), "performance");
    assert!(server.is_fast(), "{:?}", server.machine.differences());
}

#[test]
fn interrupted_first_hour_leaves_no_archive_and_no_setting_changed() {
    let mut server = Server::new();
    server.start_first_hour();
    server.signal("-TERM", server.process());
    assert_eq!(server.ended(), Some(74), "{}", server.machine.log());
    assert!(server.machine.log().contains("interrupted"), "{}", server.machine.log());
    assert!(server.is_fast(), "{:?}", server.machine.differences());
    assert!(!server.machine.path("a.tar.gz").exists());
}
