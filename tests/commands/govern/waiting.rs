//! A policy that cannot work on the machine any more: all settings are restored, and the governor
//! waits for a machine or a configuration with which it can.

use super::running::{CPUS, Machine};
use std::fs;
use std::process::Command;
use wattline_daemon::socket::{Request, ask};
use wattline_needs::until;

/// Tables of a machine of so many cores: the lowest frequency is fast enough for every load.
fn tables(cores: usize) -> String {
    format!(
        "# version = 1\n# server = \"test\"\n# workload = \"none\"\n# source = \"modelled\"\n\
         # percentile = 95.0\n# machine.cores = {cores}\n\
         # machine.frequencies_ghz = [1.6, 2.4, 3.3]\n# machine.moderation_us = [0.0, 1000.0]\n\
         load_rps,frequency_ghz,period_us,latency_us,power_watts\n\
         1000,3.3,default,50,9\n1000,1.6,0,100,1\n1000000,3.3,default,50,9\n1000000,1.6,0,100,1\n"
    )
}

/// Adds the next CPU, with its files.
fn bring(machine: &Machine, cpu: usize) {
    for (from, to) in [("cpufreq/policy1", "cpufreq/policy"), ("cpu1", "cpu")] {
        crate::copy::copy(
            &machine.path(&format!("{CPUS}/{from}")),
            &machine.path(&format!("{CPUS}/{to}{cpu}")),
        );
    }
    for file in ["affected_cpus", "related_cpus"] {
        machine.write(&format!("{CPUS}/cpufreq/policy{cpu}/{file}"), &cpu.to_string());
    }
    machine.write(&format!("{CPUS}/online"), &format!("0-{cpu}"));
}

fn remove(machine: &Machine, cpu: usize) {
    machine.write(&format!("{CPUS}/online"), &format!("0-{}", cpu - 1));
    for folder in ["cpufreq/policy", "cpu"] {
        fs::remove_dir_all(machine.path(&format!("{CPUS}/{folder}{cpu}"))).unwrap();
    }
}

/// Returns true if all files but the list of CPUs on line have their old contents.
fn is_given_back(machine: &Machine) -> bool {
    machine.differences().iter().all(|file| file.ends_with(format!("{CPUS}/online")))
}

fn waits(machine: &Machine) -> Option<String> {
    machine.stats()["govern"]["waits_because"].as_str().map(str::to_owned)
}

#[test]
fn a_governor_whose_tables_do_not_fit_a_changed_machine_waits_until_they_do() {
    let mut machine = Machine::new();
    let file = machine.path("tables.csv");
    fs::write(&file, tables(2)).unwrap();
    let own = format!(
        "policy = \"copi:tables={},target=1ms\"\nknobs = [\"frequency\"]\n",
        file.display()
    );
    machine.start(&own);
    until("both CPUs are slow", || [0, 1].iter().all(|cpu| machine.speed(*cpu) == "1600000"));
    assert!(machine.metrics().contains("wattline_governing 1\n"), "{}", machine.metrics());

    bring(&machine, 2);
    machine.logs("CPU 2 has come: the governor starts again");
    machine.logs("nothing is governed: ");
    let why = until("it says that it waits", || waits(&machine));
    assert!(why.contains("2 cores, not 3"), "{why}");
    // Restored: no CPU stays slow meanwhile.
    assert!(is_given_back(&machine), "{:?}", machine.differences());
    assert!(!machine.path("var/lib/wattline/knobs.journal").exists());
    let metrics = machine.metrics();
    assert!(metrics.contains("wattline_governing 0\n"), "{metrics}");
    assert!(!metrics.contains("wattline_core_frequency_hertz{"), "{metrics}");
    let shown = |command: &[&str]| {
        let output = Command::new(wattline_needs::program())
            .args(command)
            .arg("--socket")
            .arg(machine.socket())
            .output();
        let output = output.unwrap();
        assert!(output.status.success(), "{command:?}: {output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let text = shown(&["stats"]);
    assert!(text.contains("NOTHING IS GOVERNED") && text.contains("2 cores, not 3"), "{text}");
    shown(&["top", "--once", "--interval", "200ms"]);

    // A reload by the same tables, or by others that do not fit either, is refused; it waits on.
    let refused = ask(&machine.socket(), Request::Reload).unwrap_err().to_string();
    assert!(refused.contains("2 cores, not 3"), "{refused}");
    fs::write(&file, tables(4)).unwrap();
    let refused = ask(&machine.socket(), Request::Reload).unwrap_err().to_string();
    assert!(refused.contains("4 cores, not 3"), "{refused}");
    assert!(waits(&machine).is_some());

    // The machine and its tables are the old ones again.
    fs::write(&file, tables(2)).unwrap();
    remove(&machine, 2);
    until("it governs again", || waits(&machine).is_none());
    until("both CPUs are slow again", || [0, 1].iter().all(|cpu| machine.speed(*cpu) == "1600000"));
    // It waits once more, and new tables end that without a change of the machine.
    bring(&machine, 2);
    until("it waits again", || waits(&machine));
    fs::write(&file, tables(3)).unwrap();
    let report = ask(&machine.socket(), Request::Reload).unwrap();
    assert_eq!(report["applied"][0], "[govern]", "{report}");
    until("all three are slow", || [0, 1, 2].iter().all(|cpu| machine.speed(*cpu) == "1600000"));
    // It ends in order while it waits, too.
    bring(&machine, 3);
    until("it waits for tables of four", || waits(&machine));
    machine.signal("-TERM");
    assert_eq!(machine.ended(), Some(0), "{}", machine.log());
    assert!(is_given_back(&machine), "{:?}", machine.differences());
}
