//! The service manager's side: the unit file, and what the router tells.

use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const BINARY: &str = env!("CARGO_BIN_EXE_wattline");

#[test]
fn the_unit_files_are_accepted_by_systemd() {
    for name in ["wattline.service", "wattline-govern.service"] {
        verify(name);
    }
}

fn verify(name: &str) {
    let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/systemd").join(name);
    let text = std::fs::read_to_string(unit).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let copy = directory.path().join(name);
    // The program is not installed where it is tested.
    std::fs::write(&copy, text.replace("/usr/bin/wattline", BINARY)).unwrap();
    let verify = Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&copy).output();
    let output = match verify {
        Ok(output) => output,
        Err(error) => return println!("skipped: systemd-analyze: {error}"),
    };
    let told = String::from_utf8_lossy(&output.stderr);
    // What it says of other units of the machine is none of ours.
    let ours: Vec<&str> = told.lines().filter(|line| line.contains("wattline")).collect();
    assert!(ours.is_empty(), "{told}");
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
    let status = Command::new(BINARY)
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
