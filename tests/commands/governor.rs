//! Planned writes of a governor, and the fate of its writes when it is killed.

use crate::copy::copy;
use crate::program::{any_document, ended_with};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;
use tempfile::TempDir;
use wattline_host::Watchdog;
use wattline_knobs::{Machine, OnExit, Session, SessionError};
use wattline_linux::sysfs::Tree;

const ROOT: &str = "WATTLINE_GUARDED_WRITER";
/// A governor that may set any frequency.
const RAISING: &str = "[power]\nplatform = \"host\"\nmay_raise = true";
const GOVERNOR: &str = "sys/devices/system/cpu/cpufreq/policy0/scaling_governor";

/// A copy of a recorded machine, with a card of four queues.
fn machine() -> TempDir {
    let from = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../crates/knobs/tests/fixtures/acpi-cpufreq");
    let root = tempfile::tempdir().unwrap();
    copy(&from, root.path());
    let write = |path: &str, value: &str| fs::write(root.path().join(path), value).unwrap();
    write("ethtool/eth9/redirect-table", &["0,1,2,3"; 32].join(","));
    write("ethtool/eth9/combined-channels", "4");
    root
}

/// Returns all files except Wattline's own; incomplete writes to plain files do not count.
fn snapshot(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut directories = vec![root.join("sys"), root.join("ethtool")];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
            let path = entry.path();
            if entry.file_type().unwrap().is_dir() {
                directories.push(path);
            } else if path.extension().is_none_or(|extension| extension != "new") {
                let text = fs::read_to_string(&path).unwrap();
                files.insert(path, text.trim().as_bytes().to_vec());
            }
        }
    }
    files
}

fn plan(root: &Path, power: &str, more: &[&str]) -> Output {
    let config = root.join("router.toml");
    let text = format!(
        "[router]\nworkers = 2\ncpus = [0, 1]\n{power}\n[[port]]\nname = \"a\"\ninterface = \"eth9\"\n"
    );
    fs::write(&config, text).unwrap();
    let mut command = Command::new(wattline_needs::program());
    command.arg("plan").arg(&config).arg("--root").arg(root).args(more).output().unwrap()
}

#[test]
fn a_plan_names_every_write_with_its_reason_and_makes_none() {
    let root = machine();
    let before = snapshot(root.path());
    let output = plan(root.path(), RAISING, &["--json"]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(snapshot(root.path()), before);
    assert!(!root.path().join("var").exists(), "not even a journal");
    let plan_json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let start = plan_json["at_start"].as_array().unwrap();
    let at_start = |setting: &str| {
        start.iter().find(|write| write["setting"].as_str().unwrap().ends_with(setting))
    };
    let governor = at_start("policy1/scaling_governor").unwrap();
    assert_eq!(
        (&governor["value"], &governor["present"]),
        (&"userspace".into(), &"schedutil".into())
    );
    assert!(start.iter().all(|write| !write["why"].as_str().unwrap().is_empty()));
    let later = plan_json["later"].as_array().unwrap();
    let values = |setting: &str| -> Vec<String> {
        let write =
            later.iter().find(|write| write["setting"].as_str().unwrap().ends_with(setting));
        let values = write.map(|write| write["values"].as_array().unwrap().clone());
        values.unwrap_or_default().iter().map(|value| value.as_str().unwrap().to_owned()).collect()
    };
    assert!(values("policy0/scaling_setspeed").contains(&"1600000".to_owned()));
    assert!(values("eth9/redirect-table").len() >= 2);
    // All that it may write later is in the range of the machine.
    assert!(values("eth9/rx-usecs").iter().all(|micros| micros.parse::<u64>().unwrap() <= 1000));
    assert_eq!(plan_json["problems"], Value::Array(vec![]));
    // As a router that has given up CAP_SYS_ADMIN: the files `disable` would be refused.
    let all = || start.iter().chain(later).map(|write| write["setting"].as_str().unwrap());
    assert!(all().any(|setting| setting.ends_with("cpu0/power/pm_qos_resume_latency_us")));
    assert!(!all().any(|setting| setting.contains("cpuidle")), "{plan_json:#}");

    let text = plan(root.path(), RAISING, &[]);
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("nothing has been written") && text.contains("at the start:"), "{text}");
}

/// Settings that only root may write look as if they did not exist.
#[test]
fn a_plan_of_another_user_says_what_it_cannot_see() {
    use std::os::unix::fs::PermissionsExt;
    if !rustix::process::geteuid().is_root() {
        wattline_needs::rights("root, to become another user");
        return;
    }
    // Where any user can start it.
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let program = folder.path().join("wattline");
    crate::copy_program(&program);
    let plan = |command: &mut Command| {
        let output = command.args(["plan", "--govern"]).current_dir("/").output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let mut nobody = Command::new("setpriv");
    nobody.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&program);
    let printed = plan(&mut nobody);
    assert!(printed.starts_with("made without root privileges"), "{printed}");
    assert!(!printed.contains("enable C-states in the firmware"), "{printed}");
    assert!(!plan(&mut Command::new(&program)).contains("without root privileges"));
}

#[test]
fn router_raises_nothing_unless_asked_by_name() {
    let root = machine();
    let output = plan(root.path(), "[power]\nplatform = \"host\"", &["--json"]);
    assert!(output.status.success(), "{output:?}");
    let plan = String::from_utf8(output.stdout).unwrap();
    assert!(!plan.contains("userspace") && plan.contains("scaling_max_freq"), "{plan}");
}

#[test]
fn status_begins_with_what_the_machine_wastes() {
    let root = machine();
    for policy in [0, 1] {
        let governor = GOVERNOR.replace('0', &policy.to_string());
        fs::write(root.path().join(governor), "performance\n").unwrap();
    }
    let before = snapshot(root.path());
    let mut command = Command::new(wattline_needs::program());
    let output = command.arg("status").arg("--root").arg(root.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let lines = String::from_utf8(output.stdout).unwrap();
    assert!(lines.starts_with("wasted: ") && lines.contains("`wattline govern`"), "{lines}");
    assert!(lines.contains("no router and no governor runs"), "{lines}");
    assert_eq!(snapshot(root.path()), before);
}

#[test]
fn a_plan_has_limits_and_preferences_where_the_processor_chooses_itself() {
    let from = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../crates/knobs/tests/fixtures/amd-pstate-epp");
    let root = tempfile::tempdir().unwrap();
    copy(&from, root.path());
    let write = |path: &str, value: &str| {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, value).unwrap();
    };
    write("ethtool/eth9/combined-channels", "2");
    for queue in 0..2 {
        write(&format!("sys/class/net/eth9/device/msi_irqs/{}", 50 + queue), "msix\n");
        write(&format!("proc/irq/{}/smp_affinity_list", 50 + queue), "0-1\n");
        write(&format!("proc/irq/{}/eth9-TxRx-{queue}/x", 50 + queue), "");
    }
    let output = plan(root.path(), RAISING, &["--json"]);
    let plan: Value = serde_json::from_slice(&output.stdout).unwrap();
    let writes = |list: &str, setting: &str| -> Vec<String> {
        let list = plan[list].as_array().unwrap().iter();
        let own = list.filter(|write| write["setting"].as_str().unwrap().ends_with(setting));
        let values = own.flat_map(|write| match write["values"].as_array() {
            Some(values) => values.clone(),
            None => vec![write["value"].clone()],
        });
        values.map(|value| value.as_str().unwrap().to_owned()).collect()
    };
    let last = |setting: &str| writes("at_start", setting).last().cloned().unwrap_or_default();
    // PowerSave begins at the minimum: both limits at the lowest frequency that the administrator's
    // limits allow. They are written so that they never cross: first up to the highest, then down
    // again.
    assert_eq!(last("policy0/scaling_min_freq"), "1500000");
    assert_eq!(writes("at_start", "policy0/scaling_max_freq"), ["1500000"], "{plan:#}");
    assert_eq!(
        writes("at_start", "policy0/energy_performance_preference"),
        ["performance", "power"]
    );
    let later = writes("later", "policy0/energy_performance_preference");
    assert!(later.contains(&"balance_power".to_owned()), "{later:?}");
    assert_eq!(last("/proc/irq/50/smp_affinity_list"), "0");
    assert_eq!(last("/proc/irq/51/smp_affinity_list"), "1");
    assert_eq!(plan["problems"], Value::Array(vec![]));
}

/// The files that `probe --record` copies are enough for the same plan elsewhere.
#[test]
fn a_recorded_machine_has_the_same_plan() {
    is_recorded_whole("sys/class/net/eth9/device/msi_irqs");
}

/// The interrupts of a virtio device are in the folder of its bus.
#[test]
fn a_recorded_virtual_machine_has_the_same_plan() {
    is_recorded_whole("sys/devices/bus/msi_irqs");
}

fn is_recorded_whole(interrupts: &str) {
    let root = machine();
    if !interrupts.contains("eth9") {
        let device = root.path().join("sys/class/net/eth9/device");
        fs::create_dir_all(root.path().join("sys/devices/bus")).unwrap();
        if device.exists() {
            fs::rename(&device, root.path().join("sys/devices/bus/virtio0")).unwrap();
        } else {
            fs::create_dir(root.path().join("sys/devices/bus/virtio0")).unwrap();
            fs::create_dir_all(device.parent().unwrap()).unwrap();
        }
        std::os::unix::fs::symlink("../../../devices/bus/virtio0", &device).unwrap();
    }
    for queue in 0..4 {
        let write = |path: String, value: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, value).unwrap();
        };
        let interrupt = 60 + queue;
        write(format!("sys/class/net/eth9/queues/rx-{queue}/rps_cpus"), "0\n");
        write(format!("{interrupts}/{interrupt}"), "msix\n");
        write(format!("proc/irq/{interrupt}/smp_affinity_list"), "0-1\n");
        write(format!("proc/irq/{interrupt}/eth9-TxRx-{queue}/x"), "");
        write("sys/class/net/eth9/device/uevent".to_owned(), "DRIVER=ice\nPCI_ID=0\n");
        write("sys/module/ice/version".to_owned(), "2.2.8\n");
    }
    let copy = root.path().join("copy");
    let mut probe = Command::new(wattline_needs::program());
    let recorded = probe.args(["probe", "--root"]).arg(root.path()).arg("--record").arg(&copy);
    assert!(recorded.output().unwrap().status.success());
    let of = |root: &Path| any_document(&plan(root, RAISING, &["--json"]));
    let first = of(root.path());
    assert!(first["at_start"].to_string().contains("/proc/irq/63/smp_affinity_list"), "{first:#}");
    assert_eq!(of(&copy), first);
    // An archive holds the same, and is not written over.
    let archive = root.path().join("sent.tar.gz");
    let archived = || {
        let mut probe = Command::new(wattline_needs::program());
        let probe =
            probe.args(["probe", "--json", "--root"]).arg(&copy).arg("--record").arg(&archive);
        probe.output().unwrap()
    };
    let report: Value = serde_json::from_slice(&archived().stdout).unwrap();
    assert_eq!(report["recorded"], archive.display().to_string());
    let mut tar = Command::new("tar");
    assert!(tar.arg("-xzf").arg(&archive).arg("-C").arg(root.path()).status().unwrap().success());
    assert_eq!(of(&root.path().join("sent")), first);
    let again = archived();
    assert_eq!(again.status.code(), Some(74));
    assert!(String::from_utf8_lossy(&again.stdout).contains("is there already"), "{again:?}");
}

#[test]
fn a_plan_says_when_there_is_nothing_to_do_and_what_is_wrong() {
    let root = machine();
    let none = plan(root.path(), "", &[]);
    assert!(String::from_utf8_lossy(&none.stdout).contains("no setting would be written"));
    let wrong = plan(root.path(), "[power]\nplatform = \"host\"\npolicy = \"powersafe\"", &[]);
    assert_eq!(wrong.status.code(), Some(78));
    let power = "[power]\nplatform = \"host\"\npolicy = \"queue-length:q_l=50,q_h=40\"";
    let impossible = plan(root.path(), power, &[]);
    ended_with(&impossible, 78, &["q_l = 50: must be below"]);
    fs::remove_dir_all(root.path().join("ethtool")).unwrap();
    let gone = plan(root.path(), RAISING, &[]);
    ended_with(&gone, 78, &["eth9\": there is no such interface"]);
}

/// Stands for the router: the test below runs it as a process of its own; otherwise it does
/// nothing.
#[test]
fn guarded_writer() {
    let Ok(root) = std::env::var(ROOT) else { return };
    let (root, on_exit) = root.split_once('=').unwrap();
    let on_exit: OnExit = on_exit.parse().unwrap();
    let tree = Tree::at(root);
    let state = tree.path("/var/lib/wattline");
    // The watchdog of the round before holds the lock for another moment.
    let begin = || Session::begin(Machine::new(&tree), &tree, &state);
    let mut begun = begin();
    while matches!(begun, Err(SessionError::Busy { .. })) {
        std::thread::sleep(Duration::from_millis(5));
        begun = begin();
    }
    let (mut session, _) = begun.unwrap();
    session.set_on_exit(on_exit);
    let _watchdog =
        Watchdog::start(Path::new(wattline_needs::program()), Path::new(root), on_exit).unwrap();
    let tables = ["0,0,0,0", "0,1,0,1", "1,1,1,1"];
    for turn in 0usize.. {
        for (setting, value) in [
            (format!("/{GOVERNOR}"), "userspace"),
            ("ethtool:eth9/redirect-table".to_owned(), tables[turn % 3]),
            ("ethtool:eth9/combined-channels".to_owned(), ["2", "3"][turn % 2]),
            ("ethtool:eth9/rx-usecs".to_owned(), ["10", "20", "30"][turn % 3]),
        ] {
            session.set(&setting.parse().unwrap(), value).unwrap();
        }
    }
}

/// Kills the writer with SIGKILL after a while; only its watchdog restores then.
fn killed(root: &Path, on_exit: OnExit, after: Duration) {
    let mut writer = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "governor::guarded_writer", "--nocapture"])
        .env(ROOT, format!("{}={}", root.display(), on_exit.name()))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // Not before there is something to restore, and a watchdog.
    let journal = root.join("var/lib/wattline/knobs.journal");
    wattline_needs::until("the writer does not write", || {
        fs::metadata(&journal).is_ok_and(|file| file.len() > 0)
    });
    std::thread::sleep(after);
    writer.kill().unwrap();
    writer.wait().unwrap();
}

#[test]
fn after_a_sigkill_the_watchdog_restores_everything() {
    let root = machine();
    let before = snapshot(root.path());
    for round in 0..10 {
        killed(root.path(), OnExit::Restore, Duration::from_micros(round * 7_919 % 40_000));
        wattline_needs::until("the watchdog did not restore", || {
            !root.path().join("var/lib/wattline/knobs.journal").exists()
        });
        assert_eq!(snapshot(root.path()), before, "round {round}");
    }
}

#[test]
fn after_a_sigkill_the_watchdog_leaves_the_cpus_fast_if_so_asked() {
    let root = machine();
    killed(root.path(), OnExit::Performance, Duration::from_millis(20));
    let value = |path: &str| fs::read_to_string(root.path().join(path)).unwrap_or_default();
    wattline_needs::until("the governor is not performance", || {
        value(GOVERNOR).trim() == "performance"
    });
    assert_eq!(value("ethtool/eth9/combined-channels").trim(), "4");
    let restored = || {
        let mut command = Command::new(wattline_needs::program());
        command.args(["restore", "--root"]).arg(root.path()).output().unwrap()
    };
    // The watchdog may hold the lock for another moment.
    wattline_needs::until("the lock is held", || restored().status.success());
    assert_eq!(value(GOVERNOR).trim(), "schedutil");
}
