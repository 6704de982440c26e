//! `wattline govern`: its life on a copy of a machine's files, and on this machine.

mod cost;
mod router;
pub mod running;
mod waiting;

use crate::copy::copy;
use crate::metrics_page::{Role, agrees_with};
use crate::program::{ended_with, wattline};
use running::{CPUS, Machine, SAMPLED};
use serde_json::Value;
use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use wattline_daemon::socket::{Request, ask};
use wattline_needs::{KillOnDrop, until};

#[test]
fn power_follows_the_load_and_an_orderly_end_leaves_no_trace() {
    let mut machine = Machine::new();
    machine.start(SAMPLED);
    assert_eq!(machine.notification(), "WATCHDOG=1");
    let log = machine.log();
    for words in
        ["profile balanced", "frequency of 2 CPUs: 1.60 to 3.30 GHz", "eth9: 2 receive queues"]
    {
        assert!(log.contains(words), "{words}: {log}");
    }
    until("both CPUs are slow", || [0, 1].iter().all(|cpu| machine.speed(*cpu) == "1600000"));
    machine.busy_until("both CPUs are fast", || {
        [0, 1].iter().all(|cpu| machine.speed(*cpu) == "3300000")
    });
    machine.write("ethtool/eth9/statistics", "rx_queue_0_packets 7\nrx_queue_1_packets 40");
    until("arrivals are counted by queue", || machine.stats()["power"]["offered_packets"] == 42);
    let stats = machine.stats();
    assert_eq!(
        (&stats["govern"]["rule"], &stats["power"]["platform"]),
        (&"policy".into(), &"host".into())
    );
    assert_eq!(stats["power"]["can"]["moderation"], false, "kept as it is");
    assert_eq!(machine.value("ethtool/eth9/rx-usecs"), "3");
    let metrics = machine.metrics();
    for line in ["wattline_core_frequency_hertz{core=\"0\"} ", "wattline_rule{rule=\"policy\"} 1"] {
        assert!(metrics.contains(line), "{line} is missing in\n{metrics}");
    }
    // Other requests are refused with a reason.
    let refused = ask(&machine.socket(), Request::Graph).unwrap_err().to_string();
    assert!(refused.contains("a governor has no graph"), "{refused}");
    let socket = machine.socket();
    let socket = socket.to_str().unwrap();
    let top = wattline(&["top", "--once", "--socket", socket, "--interval", "200ms"]);
    let text = String::from_utf8_lossy(&top.stdout).into_owned();
    assert!(text.contains("policy ondemand") && text.contains(" GHz"), "{text}");
    let shown = wattline(&["stats", "--socket", socket]);
    let text = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(text.contains("the policy rules") && text.contains("this governor took"), "{text}");
    machine.signal("-TERM");
    assert_eq!(machine.ended(), Some(0), "{}", machine.log());
    assert!(machine.is_as_before(), "{:?}", machine.differences());
    assert!(!machine.socket().exists() && !machine.path("var/lib/wattline/knobs.journal").exists());
}

/// The profile's summary says "100 us" only for its own configuration; `stats` and `top` show the
/// period in force.
#[test]
fn stats_and_top_show_the_moderation_in_force_and_what_differs_from_the_profile() {
    let mut machine = Machine::new();
    machine.start("profile = \"max-save\"\nmoderation = \"50us\"\n");
    until("the period is set", || machine.value("ethtool/eth9/rx-usecs") == "50");
    let log = machine.log();
    assert!(log.contains("profile max-save, with moderation of the configuration"), "{log}");
    assert!(!log.contains("prefer to save"), "{log}");
    let shown = |arguments: &[&str]| {
        let mut command = Command::new(wattline_needs::program());
        command.args(arguments).arg("--socket").arg(machine.socket());
        String::from_utf8_lossy(&command.output().unwrap().stdout).into_owned()
    };
    let stats = shown(&["stats"]);
    for words in [
        "profile max-save, with moderation of the configuration; policy hardware",
        "interrupt moderation: 50 us\n",
        " core and frequency changes in ",
    ] {
        assert!(stats.contains(words), "{words}: {stats}");
    }
    let top = shown(&["top", "--once", "--interval", "200ms"]);
    assert!(top.contains("  moderation 50 us"), "{top}");
}

/// Killed alone, its watchdog restores; killed with it, the next start or `wattline restore` do.
#[test]
fn a_sigkill_is_undone_by_the_watchdog_by_restore_or_by_the_next_start() {
    const ALL: &str = "profile = \"max-save\"\nidle_latency = \"1us\"\n";
    let mut machine = Machine::new();
    for (round, pause) in [0u64, 13, 37, 110].into_iter().enumerate() {
        machine.start(ALL);
        std::thread::sleep(Duration::from_millis(pause));
        machine.signal("-KILL");
        assert_eq!(machine.ended(), None);
        until("the watchdog restores", || machine.is_as_before());
        until("the journal is put away", || {
            !machine.path("var/lib/wattline/knobs.journal").exists()
        });
        assert!(machine.is_as_before(), "round {round}: {:?}", machine.differences());
    }
    let kill_both = |machine: &mut Machine| {
        machine.start(ALL);
        until("moderation is set", || machine.value("ethtool/eth9/rx-usecs") == "100");
        // The watchdog first: it would restore.
        let guard = machine.guard().to_string();
        assert!(Command::new("kill").args(["-KILL", &guard]).status().unwrap().success());
        machine.signal("-KILL");
        machine.ended();
        assert!(!machine.is_as_before());
    };
    kill_both(&mut machine);
    let restored = until("the lock is free", || {
        let output = machine.restore();
        output.status.success().then_some(output)
    });
    assert!(machine.is_as_before(), "{:?}: {restored:?}", machine.differences());
    kill_both(&mut machine);
    machine.start("knobs = []\n");
    machine.logs("restored from an earlier run");
    until("all is as before", || machine.is_as_before());
    machine.signal("-INT");
    assert_eq!(machine.ended(), Some(0));
}

#[test]
fn a_latency_target_stands_above_what_could_be_saved() {
    let mut machine = Machine::new();
    let socket = machine.path("latency.sock");
    machine.start(&format!(
        "{SAMPLED}latency_target = \"1ms\"\nlatency_hold = \"300ms\"\nlatency_silence = \"1s\"\n\
         [[latency]]\nname = \"shop\"\nclients = \"{}\"\nwindow = \"500ms\"\n",
        socket.display()
    ));
    let report = |text: &str| {
        let _ = UnixDatagram::unbound().unwrap().send_to(text.as_bytes(), &socket);
    };
    let rule = |machine: &Machine| machine.stats()["govern"]["rule"].clone();
    // The rule is known before its writes are done: another thread makes them.
    until("silence is noticed", || {
        rule(&machine) == "silent-source" && machine.speed(0) == "3300000"
    });
    machine.logs("no source shows whether the latency target is kept");
    until("the policy decides", || {
        report("{\"latency_seconds\":[[0.0002,100]]}");
        rule(&machine) == "policy" && machine.speed(0) == "1600000"
    });
    until("the target is missed", || {
        report("{\"latency_seconds\":[[0.004,100]]}");
        rule(&machine) == "latency-target" && machine.speed(1) == "3300000"
    });
    let source = machine.stats()["govern"]["latency"][0].clone();
    assert!(source["latency_p99_seconds"].as_f64().is_some_and(|p99| p99 > 0.0039), "{source}");
    // Invalid reports are refused and counted, and do not count as a sign of life.
    until("silence is noticed again", || {
        report("{\"latency_seconds\":[[-1,5]]}");
        report("{\"latency_seconds\":[[0.0001,5]],\"time_unix_seconds\":99999999999}");
        rule(&machine) == "silent-source" && machine.speed(0) == "3300000"
    });
    let metrics = machine.metrics();
    agrees_with(&metrics, Role::Governor, 18);
    let refused = |reason: &str| {
        let name =
            format!("wattline_latency_refused_total{{source=\"shop\",reason=\"{reason}\"}} ");
        let value = metrics.lines().find_map(|line| line.strip_prefix(&name)?.parse::<f64>().ok());
        value.unwrap_or(0.0)
    };
    assert!(refused("negative") > 0.0 && refused("future") > 0.0, "{metrics}");
    assert!(metrics.contains("wattline_latency_source_up{source=\"shop\"} 0"), "{metrics}");
    // A service without requests keeps every target.
    until("an empty report is a sign of life", || {
        report("{}");
        rule(&machine) == "policy" && machine.speed(0) == "1600000"
    });
    machine.signal("-TERM");
    assert_eq!(machine.ended(), Some(0));
    assert!(machine.is_as_before() && !socket.exists());
}

#[test]
fn rising_cpu_pressure_leads_to_the_safe_point_and_is_explained() {
    let mut machine = Machine::new();
    let wait = |machine: &Machine, micros: u64| {
        let text = format!("some avg10=0.00 avg60=0.00 avg300=0.00 total={micros}");
        machine.write("proc/pressure/cpu", &text);
    };
    wait(&machine, 0);
    machine.start(SAMPLED);
    until("CPU 0 is slow", || machine.speed(0) == "1600000");
    let begun = Instant::now();
    until("the pressure is noticed", || {
        wait(&machine, u64::try_from(begun.elapsed().as_micros()).unwrap());
        let rule = machine.stats()["govern"]["rule"] == "cpu-pressure";
        rule && machine.speed(0) == "3300000"
    });
    let mut explain = Command::new(wattline_needs::program());
    let explained = explain.args(["explain", "--socket"]).arg(machine.socket()).output().unwrap();
    let text = String::from_utf8_lossy(&explained.stdout).into_owned();
    assert!(text.contains("CPU pressure rose"), "{text}");
    machine.signal("-TERM");
    assert_eq!(machine.ended(), Some(0));
    assert!(machine.is_as_before());
}

#[test]
fn a_reload_is_taken_whole_or_not_at_all() {
    let mut machine = Machine::new();
    machine.start(SAMPLED);
    until("CPU 0 is slow", || machine.speed(0) == "1600000");
    machine.configure("policy = \"queue-length\"\n");
    let refused = ask(&machine.socket(), Request::Reload).unwrap_err().to_string();
    assert!(refused.contains("queue-length") && refused.contains("use ondemand"), "{refused}");
    machine.configure("profil = \"latency\"\n");
    machine.signal("-HUP");
    until("both refusals are logged", || {
        machine.log().matches("the configuration stays as it was").count() == 2
    });
    until("CPU 0 is slow again", || machine.speed(0) == "1600000");
    machine.configure(
        "policy = \"performance\"\nknobs = [\"frequency\", \"idle\"]\nidle_latency = \"1us\"\n",
    );
    machine.signal("-HUP");
    until("CPU 0 is fast", || machine.speed(0) == "3300000");
    until("deep sleep is forbidden", || {
        machine.value(&format!("{CPUS}/cpu1/cpuidle/state2/disable")) == "1"
    });
    let same = ask(&machine.socket(), Request::Reload).unwrap();
    assert_eq!(same["applied"], Value::Array(vec![]));
    ask(&machine.socket(), Request::Stop).unwrap();
    assert_eq!(machine.ended(), Some(0));
    assert!(machine.is_as_before(), "{:?}", machine.differences());
}

#[test]
fn foreign_and_vanished_settings_are_reported_and_governing_goes_on() {
    let mut machine = Machine::new();
    machine.write("proc/77/comm", "irqbalance");
    machine.write("proc/78/comm", "tuned");
    machine.start(&format!("profile = \"max-save\"\n{SAMPLED}"));
    machine.logs("TuneD also sets");
    machine.logs("systemctl disable --now irqbalance");
    until("moderation is set", || machine.value("ethtool/eth9/rx-usecs") == "100");
    // Another program changes a CPU's governor.
    let policy = format!("{CPUS}/cpufreq/policy0/scaling_governor");
    machine.write(&policy, "ondemand");
    until("the change by another program is reported", || {
        let troubles = machine.stats()["power"]["host"]["troubles"].to_string();
        troubles.contains("another program has set it to") && troubles.contains("policy0")
    });
    // CPU 1 goes, with its files, and comes back.
    let files = [format!("{CPUS}/cpufreq/policy1"), format!("{CPUS}/cpu1")];
    let kept = machine.path("kept");
    fs::create_dir(&kept).unwrap();
    machine.write(&format!("{CPUS}/online"), "0");
    for (number, file) in files.iter().enumerate() {
        fs::rename(machine.path(file), kept.join(number.to_string())).unwrap();
    }
    machine.logs("CPU 1 is off-line: its frequency and idle states cannot be set");
    for (number, file) in files.iter().enumerate() {
        fs::rename(kept.join(number.to_string()), machine.path(file)).unwrap();
    }
    machine.write(&format!("{CPUS}/online"), "0-1");
    until("CPU 1 is slow again", || machine.speed(1) == "1600000");
    machine.busy_until("CPU 1 is fast", || machine.speed(1) == "3300000");
    assert_eq!(machine.stats()["govern"]["restarts"], 0);
    // An interface comes and goes; counts of the governor before go on.
    let decisions = |machine: &Machine| machine.stats()["power"]["decisions"].as_u64();
    let before = decisions(&machine);
    assert!(before > Some(1), "{before:?}");
    machine.write("sys/class/net/eth8/queues/rx-0/rps_cpus", "0");
    machine.write("sys/class/net/eth8/device/vendor", "");
    let ports = |machine: &Machine| {
        let stats = machine.stats();
        (stats["ports"].as_array().map(Vec::len), stats["govern"]["restarts"].as_u64())
    };
    until("the new interface is counted", || ports(&machine) == (Some(2), Some(1)));
    machine.logs("eth8 has come");
    assert!(decisions(&machine) >= before, "{before:?}");
    fs::remove_dir_all(machine.path("sys/class/net/eth8")).unwrap();
    until("it is counted no more", || ports(&machine) == (Some(1), Some(2)));
    machine.signal("-TERM");
    assert_eq!(machine.ended(), Some(0), "{}", machine.log());
    // Settings of other programs stay, and so do settings of a CPU that went offline.
    assert_eq!(machine.value(&policy), "ondemand");
}

#[test]
fn a_plan_says_what_would_be_done_and_why_and_writes_nothing() {
    let machine = Machine::new();
    machine.configure("profile = \"max-save\"\n");
    let plan = |more: &[&str]| {
        let mut command = Command::new(wattline_needs::program());
        command.args(["plan", "--govern", "--root"]).arg(machine.root.path()).args(more);
        command.output().unwrap()
    };
    let text = String::from_utf8(plan(&[]).stdout).unwrap();
    for words in ["profile balanced", "policy hardware", "processor or kernel control it"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    for setting in ["setspeed", "scaling_max_freq", "scaling_min_freq"] {
        assert!(!text.contains(setting), "{setting}: {text}");
    }
    assert!(!text.contains("rx-usecs") && !text.contains("smp_affinity"), "{text}");
    let config = machine.path("govern.toml");
    let json = plan(&["--json", config.to_str().unwrap()]);
    let json: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json["profile"], "max-save");
    let moderation: Vec<&str> = (json["at_start"].as_array().unwrap().iter())
        .filter(|write| write["setting"].as_str().unwrap().ends_with("rx-usecs"))
        .filter_map(|write| write["value"].as_str())
        .collect();
    assert_eq!(moderation.last(), Some(&"100"), "{json:#}");
    machine.configure("policy = \"queue-length\"\n");
    let refused = plan(&[config.to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(78));
    assert!(machine.is_as_before());
}

/// A server of 64 CPUs with hardware P-states, one of them without a policy and one without idle states.
#[test]
fn plan_of_a_large_server_has_reasons_and_remedies_on_few_lines() {
    let recorded = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../crates/knobs/tests/fixtures/intel-pstate-hwp");
    let root = tempfile::tempdir().unwrap();
    copy(&recorded, root.path());
    let cpus = root.path().join(CPUS);
    for cpu in 2..64 {
        copy(&cpus.join("cpu1"), &cpus.join(format!("cpu{cpu}")));
        let policy = cpus.join(format!("cpufreq/policy{cpu}"));
        copy(&cpus.join("cpufreq/policy1"), &policy);
        fs::write(policy.join("related_cpus"), format!("{cpu}\n")).unwrap();
        fs::write(policy.join("affected_cpus"), format!("{cpu}\n")).unwrap();
    }
    fs::write(cpus.join("online"), "0-63\n").unwrap();
    fs::remove_dir_all(cpus.join("cpufreq/policy7")).unwrap();
    fs::remove_dir_all(cpus.join("cpu9/cpuidle")).unwrap();
    fs::remove_dir_all(cpus.join("intel_uncore_frequency")).unwrap();
    for profile in ["balanced", "latency", "max-save"] {
        let config = root.path().join(format!("{profile}.toml"));
        fs::write(&config, format!("[govern]\nprofile = \"{profile}\"\n")).unwrap();
        let mut command = Command::new(wattline_needs::program());
        command.args(["plan", "--govern"]).arg(&config).arg("--root").arg(root.path());
        let output = command.output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.lines().count() <= 25, "{profile}: {text}");
        let writes = text.lines().filter(|line| line.starts_with("  "));
        let writes: Vec<&str> = writes.collect();
        let preference = "policy{0-6,8-63}/energy_performance_preference";
        assert!(writes.iter().any(|line| line.contains(preference)), "{profile}: {text}");
        assert!(writes.iter().all(|line| line.ends_with(')')), "{profile}: {text}");
        for limit in ["scaling_min_freq", "scaling_max_freq"] {
            assert!(!text.contains(limit), "{profile}: {text}");
        }
        let refused = text.lines().filter(|line| line.starts_with("not governed: "));
        let refused: Vec<&str> = refused.collect();
        assert!(refused.iter().any(|line| line.contains("CPU 7 has no cpufreq policy")), "{text}");
        let remedies = ["in the firmware)", " in knobs)", "(module intel_uncore_frequency)"];
        for line in refused {
            assert!(remedies.iter().any(|remedy| line.ends_with(remedy)), "{profile}: {line}");
        }
    }
}

#[test]
fn profiles_are_printed_to_be_copied_and_mistakes_are_usage_errors() {
    let print = |name: &str| wattline(&["govern", "--print-profile", name]);
    let printed = print("latency");
    assert!(printed.status.success());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("own.toml");
    fs::write(&file, &printed.stdout).unwrap();
    let checked = wattline(&["config", "--govern", file.to_str().unwrap()]);
    assert!(checked.status.success(), "{checked:?}");
    ended_with(&print("fast"), 2, &["\"max-save\""]);
}

/// The machine of the test, if it has no knob: `govern` reports that, and measures.
#[test]
fn machine_without_knobs_is_reported_and_measured() {
    let knobs = ["cpu0/cpufreq", "cpu0/cpuidle/state0"];
    if knobs.iter().any(|knob| fs::metadata(format!("/{CPUS}/{knob}")).is_ok()) {
        return wattline_needs::machine("this machine has knobs, which a test must not turn");
    }
    if fs::read_to_string("/proc/self/status").is_ok_and(|own| !own.contains("Uid:\t0\t")) {
        return wattline_needs::rights("root");
    }
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("own.sock");
    let config = folder.path().join("own.toml");
    fs::write(&config, format!("[govern]\nsocket = \"{}\"\n", socket.display())).unwrap();
    let log = folder.path().join("log");
    let child = Command::new(wattline_needs::program())
        .arg("govern")
        .arg(&config)
        .stdout(std::process::Stdio::null())
        .stderr(fs::File::create(&log).unwrap())
        .spawn();
    // Ended in any case: a governor keeps others from governing this machine.
    let mut child = KillOnDrop(child.unwrap());
    let stats = until("CPUs are seen to work", || {
        let stats = ask(&socket, Request::Stats).ok()?;
        let busy: f64 = (stats["workers"].as_array()?.iter())
            .filter_map(|core| core["busy_seconds"].as_f64())
            .sum();
        (busy > 0.0).then_some(stats)
    });
    let metrics = ask(&socket, Request::Metrics).unwrap();
    // Ten decisions a second: the aim is 0.1 % of a core and 20 MB. An unoptimised test program is
    // larger, and on a busy machine it takes several times the processor time.
    let own = |key: &str| ask(&socket, Request::Stats).unwrap()["govern"]["process"][key].as_f64();
    let (began, first) = (Instant::now(), own("cpu_seconds").unwrap());
    std::thread::sleep(Duration::from_secs(5));
    let taken = own("cpu_seconds").unwrap() - first;
    let share = 100.0 * taken / began.elapsed().as_secs_f64();
    println!("the governor itself takes {share:.2} % of a core");
    assert!(share < 1.0, "{share} % of a core");
    assert!(own("resident_bytes").is_some_and(|bytes| bytes < 30e6), "{:?}", own("resident_bytes"));
    ask(&socket, Request::Stop).unwrap();
    assert!(child.wait().unwrap().success());
    let log = fs::read_to_string(log).unwrap();
    // A virtual card may have interrupt moderation, which this configuration leaves alone.
    let nothing_to_turn = [
        "this machine has no knob that could be turned",
        "this configuration turns none of the knobs that this machine has",
    ];
    assert!(nothing_to_turn.iter().any(|words| log.contains(words)), "{log}");
    for words in [
        "not governed: frequency: no cpufreq policy",
        "frequency: needs a cpufreq driver",
        "left out: lo: the loopback",
    ] {
        assert!(log.contains(words), "{words}: {log}");
    }
    assert_eq!(stats["power"]["can"]["frequency"], false);
    assert_eq!(stats["power"]["frequency_hertz"], Value::Array(vec![]), "nobody knows it");
    let metrics = metrics.as_str().unwrap();
    assert!(metrics.contains("wattline_knob_available{knob=\"frequency\"} 0"), "{metrics}");
    assert!(!metrics.contains("wattline_core_frequency_hertz{"), "{metrics}");
}
