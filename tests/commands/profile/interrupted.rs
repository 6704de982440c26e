//! `wattline profile` of a recorded machine, killed by SIGKILL at scattered moments.

use crate::govern::running::Machine;
use crate::program::{answering, runs};
use serde_json::Value;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use wattline_needs::until;

/// Least number of kills; more if this machine is slow.
const KILLS: u64 = 6;
const MOST_KILLS: u64 = 60;
/// The latest moment of a kill after the machine was changed; a point takes about 1.5 s.
const LATEST: Duration = Duration::from_secs(4);
/// Times that the last profile is restarted.
const MOST_ATTEMPTS: usize = 10;
/// Two loads by three states and the driver's own moderation.
const POINTS: usize = 2 * 3 + 2;
const JOURNAL: &str = "var/lib/wattline/knobs.journal";

fn profile(machine: &Machine, server: SocketAddr) -> Child {
    profile_by(machine, server, "--connections 2 --duration 100ms")
}

fn profile_by(machine: &Machine, server: SocketAddr, load: &str) -> Child {
    let log = fs::File::create(machine.path("log")).unwrap();
    let mut command = Command::new(wattline_needs::program());
    // Over the loopback one period alone is allowed; the card's is set all the same.
    let options = "--rate 400 --loads 0.5,1 --warmup 50ms --states 3 --periods 1 --repetitions 3 \
                   --within 1 --without-power";
    command.args(["--json", "profile", "http"]).arg(format!("http://{server}/"));
    command.args(options.split_whitespace()).args(load.split_whitespace());
    command.arg("--root").arg(machine.root.path());
    command.arg("--out").arg(machine.path("tables.csv"));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap()
}

/// Returns the points measured so far. Fails on an incomplete file.
fn points(machine: &Machine) -> Vec<Value> {
    let path = machine.path("tables.csv.points.json");
    let Ok(text) = fs::read_to_string(&path) else { return Vec::new() };
    let file: Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"));
    file["points"].as_array().cloned().unwrap()
}

/// Returns the process that restores this machine when its parent is gone.
fn watchdog(of: u32, root: &Path) -> Option<u32> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.into_iter().find(|process: &u32| {
        let read = |file: &str| fs::read(format!("/proc/{process}/{file}")).unwrap_or_default();
        let status = String::from_utf8_lossy(&read("status")).into_owned();
        let parent =
            status.lines().find_map(|line| line.strip_prefix("PPid:")?.trim().parse().ok());
        let command = String::from_utf8_lossy(&read("cmdline")).into_owned();
        parent == Some(of) && command.contains(&*root.to_string_lossy())
    })
}

/// At any moment: the file of points is complete and loses none, the machine is as before (restored
/// by the watchdog, or by the next start if that was killed as well), and the profile goes on.
#[test]
fn a_profile_that_is_killed_restores_the_machine_and_goes_on() {
    let machine = Machine::new();
    let server = answering();
    let mut known: Vec<Value> = Vec::new();
    let (mut restored, mut left) = (0, 0);
    for kill in 0..MOST_KILLS {
        let enough = kill >= KILLS && !known.is_empty() && restored > 0 && left > 0;
        if enough || known.len() == POINTS {
            break;
        }
        let mut child = profile(&machine, server);
        // Not before there is something to restore.
        until("the machine is changed", || {
            assert_eq!(child.try_wait().unwrap(), None, "round {kill}: {}", machine.log());
            machine.path(JOURNAL).exists()
        });
        let scattered = (kill + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        std::thread::sleep(LATEST.mul_f64(scattered as f64 / f64::from(u32::MAX)));
        let watchdog = watchdog(child.id(), machine.root.path());
        if kill % 2 == 1
            && let Some(watchdog) = watchdog
        {
            // It may have ended by itself just now.
            let _ = Command::new("kill").args(["-KILL", &watchdog.to_string()]).output();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        // Between two points the machine is given back for a moment: then there is no watchdog.
        until("the watchdog ends", || !watchdog.is_some_and(runs));
        if machine.path(JOURNAL).exists() {
            left += u32::from(!machine.is_as_before());
        } else {
            restored += 1;
            assert!(machine.is_as_before(), "round {kill}: {:?}", machine.differences());
        }
        let now = points(&machine);
        assert!(known.iter().all(|point| now.contains(point)), "round {kill}: {known:?} {now:?}");
        known = now;
    }
    println!(
        "{} points, {restored} times restored at once, {left} times at the start",
        known.len()
    );
    assert!(restored > 0 && left > 0 && !known.is_empty(), "{restored}, {left}, {known:?}");

    // On a starved machine no request of a run may be answered in time; the message says that the same
    // command goes on.
    let mut child = profile(&machine, server);
    let mut status = child.wait().unwrap();
    for _ in 0..MOST_ATTEMPTS {
        if status.code() != Some(66) {
            break;
        }
        assert!(machine.log().contains("run the same command again"), "{}", machine.log());
        assert!(machine.is_as_before(), "{:?}", machine.differences());
        status = profile(&machine, server).wait().unwrap();
    }
    assert!(status.success(), "{status}: {}", machine.log());
    let all = points(&machine);
    assert_eq!(all.len(), POINTS, "{all:?}");
    assert!(known.iter().all(|point| all.contains(point)), "{known:?} {all:?}");
    assert!(machine.is_as_before(), "{:?}", machine.differences());
    assert!(!machine.path(JOURNAL).exists() && machine.path("tables.csv").exists());

    // Nor is it continued under another load: one table would have points of both.
    let tables = fs::read_to_string(machine.path("tables.csv")).unwrap();
    assert!(tables.contains("over 2 connections of depth 1, from 1 threads, 100ms after 50ms"));
    for load in ["--connections 90 --duration 100ms", "--connections 2 --duration 400ms"] {
        let status = profile_by(&machine, server, load).wait().unwrap();
        assert_eq!(status.code(), Some(65), "{load}: {}", machine.log());
        assert!(
            machine.log().contains("points of another profile (workload:"),
            "{}",
            machine.log()
        );
        assert!(machine.is_as_before(), "{:?}", machine.differences());
    }
    assert_eq!(points(&machine), all);
}
