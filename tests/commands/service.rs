//! The service manager: unit files, and the router's notifications.

use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Units of daemons.
const DAEMONS: [&str; 2] = ["wattline.service", "wattline-govern.service"];
/// All units.
const UNITS: [&str; 3] = ["wattline.service", "wattline-govern.service", "wattline-block.service"];

#[test]
fn the_unit_files_are_accepted_by_systemd() {
    for name in UNITS {
        verify(name);
    }
}

/// Returns systemd's exposure rating of a unit, 0 to 10; `None` if it cannot be asked.
fn exposure(text: &str) -> Option<f64> {
    let directory = tempfile::tempdir().unwrap();
    let unit = directory.path().join("rated.service");
    std::fs::write(&unit, text).unwrap();
    let rated = Command::new("systemd-analyze")
        .args(["security", "--offline=true", "--no-pager"])
        .arg(&unit)
        .output();
    let output = rated
        .map_err(|error| wattline_needs::machine(format_args!("systemd-analyze: {error}")))
        .ok()?;
    let printed = String::from_utf8_lossy(&output.stdout);
    let Some((_, rating)) = printed.split_once("Overall exposure level for rated.service: ") else {
        wattline_needs::machine("systemd-analyze has no offline rating (systemd 250 and later do)");
        return None;
    };
    Some(rating.split(' ').next().unwrap().parse().unwrap())
}

/// Values of a key in a unit, in their order.
fn values(name: &str, key: &str) -> Vec<String> {
    let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/systemd").join(name);
    let text = std::fs::read_to_string(unit).unwrap();
    let value = |line: &str| Some(line.strip_prefix(key)?.strip_prefix('=')?.to_owned());
    text.lines().filter_map(value).collect()
}

#[test]
fn units_never_give_up_but_on_what_no_retry_can_mend() {
    for name in DAEMONS {
        assert_eq!(values(name, "StartLimitIntervalSec"), ["0"], "{name}");
        assert_eq!(values(name, "StartLimitBurst"), [""; 0], "{name}");
        assert_eq!(values(name, "Restart"), ["on-failure"], "{name}");
        let prevented = values(name, "RestartPreventExitStatus").concat();
        assert_eq!(prevented.split(' ').collect::<Vec<_>>(), ["2", "77", "78"], "{name}");
        for key in ["After", "Wants"] {
            assert!(values(name, key).contains(&"network-online.target".to_owned()), "{name}");
        }
    }
}

/// systemd gives the runtime directory, with all in it, to the group of each unit that names it.
#[test]
fn units_share_the_group_of_their_runtime_directory() {
    for name in DAEMONS {
        assert_eq!(values(name, "RuntimeDirectory"), ["wattline"], "{name}");
        // The end of one must not take the other's socket away.
        assert_eq!(values(name, "RuntimeDirectoryPreserve"), ["yes"], "{name}");
        assert_eq!(values(name, "Group"), ["wattline"], "{name}");
        // A signal would succeed with a file that is refused.
        assert!(values(name, "ExecReload").concat().contains("wattline reload "), "{name}");
    }
}

/// Keys of tunnels are in memory.
#[test]
fn units_of_daemons_dump_no_memory() {
    for name in DAEMONS {
        assert_eq!(values(name, "LimitCORE"), ["0"], "{name}");
    }
}

#[test]
fn block_comes_before_any_interface_and_any_router() {
    let of = |key: &str| values("wattline-block.service", key).join(" ");
    for later in ["network-pre.target", "wattline.service"] {
        assert!(of("Before").split(' ').any(|it| it == later), "{later}");
    }
    // Nothing else might start that target.
    assert_eq!(of("Wants"), "network-pre.target");
    assert_eq!((of("DefaultDependencies"), of("WantedBy")), ("no".into(), "sysinit.target".into()));
    // The blocks that it installs stay when it is done.
    assert_eq!((of("Type"), of("RemainAfterExit")), ("oneshot".into(), "yes".into()));
    assert_eq!(of("ExecStop"), of("ExecStart"));
}

#[test]
fn units_are_hardly_exposed() {
    for name in UNITS {
        let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/systemd").join(name);
        let text = std::fs::read_to_string(unit).unwrap();
        let Some(rating) = exposure(&text) else { return };
        // A unit that writes no file of /sys or /proc says so by this line.
        let most = if text.contains("\nProtectKernelTunables=yes") { 2.5 } else { 3.0 };
        assert!(rating < most, "{name} is rated {rating}; allowed is less than {most}");
        // The check can fail.
        let weaker = text.replace("SystemCallFilter=", "#").replace("ProtectSystem=", "#");
        let rating = exposure(&weaker).unwrap();
        assert!(rating > most, "{name} with less protection is rated {rating}");
    }
}

fn verify(name: &str) {
    let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/systemd").join(name);
    let text = std::fs::read_to_string(unit).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let copy = directory.path().join(name);
    // The program is not installed where it is tested.
    std::fs::write(&copy, text.replace("/usr/bin/wattline", wattline_needs::program())).unwrap();
    let verify = Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&copy).output();
    let output = match verify {
        Ok(output) => output,
        Err(error) => return wattline_needs::machine(format_args!("systemd-analyze: {error}")),
    };
    let printed = String::from_utf8_lossy(&output.stderr);
    // Warnings about other units of the machine do not count, nor about keys that are new in
    // systemd 254.
    let is_newer = |line: &str| {
        let newer = ["RestartSteps", "RestartMaxDelaySec"].iter();
        newer.into_iter().any(|key| line.contains(&format!("'{key}' in section")))
    };
    let ours = printed.lines().filter(|line| line.contains("wattline") && !is_newer(line));
    let ours: Vec<&str> = ours.collect();
    assert!(ours.is_empty(), "{printed}");
    // The check can fail.
    std::fs::write(&copy, text.replace("/usr/bin/wattline", "/nowhere/wattline")).unwrap();
    let wrong = Command::new("systemd-analyze").arg("verify").arg(&copy).output().unwrap();
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("wattline"), "{wrong:?}");
}

#[test]
fn a_router_says_that_it_is_ready_and_that_it_stops() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    manager.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    // A capture without a packet: the run ends by itself.
    let capture = directory.path().join("empty.pcap");
    let header: [u8; 24] =
        [0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0];
    std::fs::write(&capture, header).unwrap();
    let config = directory.path().join("router.toml");
    let text = "[[port]]\nname = \"a\"\ncapture = { read = \"empty.pcap\" }\n";
    std::fs::write(&config, text).unwrap();
    let status = Command::new(wattline_needs::program())
        .args(["run"])
        .arg(&config)
        .env("NOTIFY_SOCKET", &path)
        .env("XDG_RUNTIME_DIR", directory.path())
        .output()
        .unwrap();
    assert!(status.status.success(), "{}", String::from_utf8_lossy(&status.stderr));
    let next = || {
        let mut buffer = [0; 64];
        let length = manager.recv(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    };
    assert_eq!((next(), next()), ("READY=1".into(), "STOPPING=1".into()));
}
