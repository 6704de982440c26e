//! `wattline top` at a socket that answers like a router with a governor: as text, and in a
//! pseudo-terminal where tmux is installed.

use crate::program::runs;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Instant;
use wattline_status::{
    Accuracy, PortCounters, PortStats, Power, RouterStats, Source, Stats, WorkerStats,
};

/// Answers `stats` like a router that forwards a thousand packets every second, and has a
/// governor.
fn router(path: &Path) -> std::thread::JoinHandle<()> {
    use std::io::{BufRead, BufReader, Write};
    let listener = std::os::unix::net::UnixListener::bind(path).unwrap();
    let start = Instant::now();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(stream) = stream else { return };
            let mut line = String::new();
            if BufReader::new(&stream).read_line(&mut line).is_err() || line.contains("stop") {
                return;
            }
            let seconds = start.elapsed().as_secs_f64();
            let packets = (seconds * 1_000.0) as u64;
            let stats = Stats::Router(Box::new(RouterStats {
                uptime_seconds: seconds,
                dropped: [("no-route".to_owned(), packets / 4)].into(),
                ports: vec![PortStats {
                    name: "left".to_owned(),
                    state: Some(wattline_status::PortState::Up),
                    counters: PortCounters {
                        received_packets: packets,
                        transmitted_packets: packets,
                        ..PortCounters::default()
                    },
                    ..PortStats::default()
                }],
                workers: vec![WorkerStats {
                    active: true,
                    received: packets,
                    useful_cycles: packets,
                    empty_cycles: packets,
                    sleeps: packets,
                    ..WorkerStats::default()
                }],
                power: Some(Power {
                    policy: "queue-length".to_owned(),
                    power_watts: Some(131.5),
                    source: Source::Emulated,
                    accuracy: Accuracy::Static,
                    frequency_hertz: vec![1.6e9],
                    ..Power::default()
                }),
                ..RouterStats::default()
            }));
            let stats = serde_json::json!({ "ok": stats });
            let _ = writeln!(&stream, "{stats}");
        }
    })
}

fn stop(path: &Path) {
    use std::io::Write;
    let stream = std::os::unix::net::UnixStream::connect(path).unwrap();
    let _ = writeln!(&stream, "stop");
}

fn top(socket: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(wattline_needs::program());
    command.arg("top").args(arguments).arg("--socket").arg(socket).stdin(Stdio::null());
    command.output().unwrap()
}

#[test]
fn one_look_as_json_and_as_text() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let router = router(&socket);
    let output = top(&socket, &["--json", "--interval", "300ms"]);
    let rates: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rate = rates["ports"][0]["offered_rate_pps"].as_f64().unwrap();
    assert!((990.0..1010.0).contains(&rate), "by the router's own clock: {rate}");
    assert_eq!(rates["workers"][0]["busy_ratio"], 0.5);
    assert_eq!(rates["power"]["source"], "emulated");
    let output = top(&socket, &["--once", "--interval", "100ms"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("131.5 W (emulated, static)") && text.contains("no-route"), "{text}");
    let output = top(&socket, &[]);
    assert_eq!(output.status.code(), Some(2), "without a terminal");
    stop(&socket);
    router.join().unwrap();
    assert_eq!(top(&socket, &["--once"]).status.code(), Some(66), "nobody answers");
}

/// A pseudo-terminal; closed when dropped.
struct Tmux {
    server: PathBuf,
}

impl Tmux {
    /// Each has its own tmux server and socket, since a server that ends takes a while. Its shell
    /// prints the command's exit code.
    fn new(server: PathBuf, command: &str) -> Self {
        let tmux = Self { server };
        let shell = format!("echo before; {command}; echo ended with $?; stty -a; sleep 60");
        tmux.ask(&["-f", "/dev/null", "new-session", "-d", "-x", "110", "-y", "30", &shell]);
        tmux
    }

    fn ask(&self, arguments: &[&str]) -> String {
        let output =
            Command::new("tmux").arg("-S").arg(&self.server).args(arguments).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn screen(&self) -> String {
        self.ask(&["capture-pane", "-p"])
    }

    #[track_caller]
    fn until(&self, words: &[&str]) -> String {
        let all = |screen: &String| words.iter().all(|word| screen.contains(word));
        let reason = || format!("never all of {words:?}; the screen:\n{}", self.screen());
        wattline_needs::until_or(|| Some(self.screen()).filter(all), reason)
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        self.ask(&["kill-server"]);
    }
}

/// The child of `parent` that runs `name`.
fn pid_of(parent: u32, name: &str) -> Option<u32> {
    let field = |status: &str, key: &str| {
        status.lines().find_map(|line| line.strip_prefix(key)).map(|value| value.trim().to_owned())
    };
    std::fs::read_dir("/proc").ok()?.flatten().find_map(|entry| {
        // One that has ended meanwhile, or is no process at all, has no status.
        let status = std::fs::read_to_string(entry.path().join("status")).ok()?;
        let is_it = field(&status, "PPid:")? == parent.to_string()
            && field(&status, "Name:")?.contains(name);
        is_it.then(|| field(&status, "Pid:")?.parse().ok()).flatten()
    })
}

#[test]
fn in_a_terminal_it_draws_and_gives_the_terminal_back() {
    let Ok(mut version) = Command::new("tmux").arg("-V").stdout(Stdio::null()).spawn() else {
        wattline_needs::tool("tmux");
        return;
    };
    let _ = Child::wait(&mut version);
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let router = router(&socket);
    let command =
        format!("{} top --interval 200ms --socket {}", wattline_needs::program(), socket.display());
    let seen = ["131.5 W (emulated, static)", "left", "1.60 GHz", "no-route", "q ends", "█"];
    {
        let tmux = Tmux::new(folder.path().join("first"), &command);
        let screen = tmux.until(&seen);
        assert!(!screen.contains("before"), "a screen of its own:\n{screen}");
        tmux.ask(&["send-keys", "q"]);
        // The old content is back, and keys are shown and lines edited as before.
        tmux.until(&["before", "ended with 0", " icanon", " echo "]);
    }
    {
        let tmux = Tmux::new(folder.path().join("second"), &command);
        tmux.until(&seen);
        let shell = tmux.ask(&["display-message", "-p", "#{pane_pid}"]).trim().parse().unwrap();
        let pid = pid_of(shell, "wattline").expect("it runs in the terminal");
        let pid = rustix::process::Pid::from_raw(pid as i32).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        tmux.until(&["before", "ended with 143", " icanon", " echo "]);
    }
    let orphan = {
        let tmux = Tmux::new(folder.path().join("third"), &command);
        tmux.until(&seen);
        let shell = tmux.ask(&["display-message", "-p", "#{pane_pid}"]).trim().parse().unwrap();
        pid_of(shell, "wattline").expect("it runs in the terminal")
    };
    wattline_needs::until_or(|| !runs(orphan), || format!("{orphan} outlives its terminal"));
    stop(&socket);
    router.join().unwrap();
}
