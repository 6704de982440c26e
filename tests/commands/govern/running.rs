//! `wattline govern` on a copy of a recorded machine, whose load a test sets.

use crate::copy::copy;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use wattline_daemon::socket::{Request, ask};
use wattline_needs::{KillOnDrop, until};

pub const CPUS: &str = "sys/devices/system/cpu";
/// A policy that sets the frequency itself, and follows the load within a tenth of a second.
pub const SAMPLED: &str = "policy = \"ondemand:sampling_rate=100ms,up_threshold=70\"\n";
const PATIENCE: Duration = Duration::from_secs(60);

/// A machine with two CPUs and a card of two queues, and the governor that runs on it.
pub struct Machine {
    pub root: TempDir,
    before: BTreeMap<PathBuf, Vec<u8>>,
    child: Option<KillOnDrop>,
    manager: UnixDatagram,
    pub metrics: u16,
    busy: Arc<AtomicBool>,
}

/// Writes the kernel's counters of two CPUs that are both busy or both idle, until the machine is
/// dropped.
fn tick(stat: PathBuf, busy: &AtomicBool) {
    let (mut idle, mut last) = (0.0, Instant::now());
    while stat.parent().is_some_and(Path::exists) {
        let now = Instant::now();
        if !busy.load(Ordering::Relaxed) {
            idle += now.duration_since(last).as_secs_f64() * 100.0;
        }
        last = now;
        let cpu = |cpu: u32| format!("cpu{cpu} 0 0 0 {idle:.0} 0 0 0 0 0 0\n");
        // In one step: a reader must not find half of it.
        let new = stat.with_extension("new");
        let text = format!("cpu 0 0 0 0\n{}{}intr 0\n", cpu(0), cpu(1));
        if fs::write(&new, text).and_then(|()| fs::rename(&new, &stat)).is_err() {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

impl Machine {
    pub fn new() -> Self {
        let fixtures =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/knobs/tests/fixtures");
        let root = tempfile::tempdir().unwrap();
        copy(&fixtures.join("acpi-cpufreq"), root.path());
        let manager = UnixDatagram::bind(root.path().join("notify")).unwrap();
        manager.set_read_timeout(Some(PATIENCE)).unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut machine = Self {
            root,
            before: BTreeMap::new(),
            child: None,
            manager,
            metrics: port,
            busy: Arc::default(),
        };
        machine.write("ethtool/eth9/combined-channels", "2");
        machine.write("ethtool/eth9/statistics", "rx_queue_0_packets 5\nrx_queue_1_packets 0");
        let (stat, busy) = (machine.path("proc/stat"), Arc::clone(&machine.busy));
        std::thread::spawn(move || tick(stat, &busy));
        machine.before = machine.snapshot();
        machine
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.root.path().join(path)
    }

    pub fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{text}\n")).unwrap();
    }

    pub fn value(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap_or_default().trim().to_owned()
    }

    /// The frequency that a CPU is held at, in kHz.
    pub fn speed(&self, cpu: u32) -> String {
        self.value(&format!("{CPUS}/cpufreq/policy{cpu}/scaling_setspeed"))
    }

    /// Keeps both CPUs busy until a condition holds.
    pub fn busy_until(&self, what: &str, so: impl FnMut() -> bool) {
        self.busy.store(true, Ordering::Relaxed);
        until(what, so);
        self.busy.store(false, Ordering::Relaxed);
    }

    /// All files except Wattline's own files and the files that the test changes.
    fn snapshot(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut files = BTreeMap::new();
        let mut directories = vec![self.path("sys"), self.path("ethtool")];
        while let Some(directory) = directories.pop() {
            for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
                let path = entry.path();
                if entry.file_type().unwrap().is_dir() {
                    directories.push(path);
                } else if !path.ends_with("statistics") && !path.to_string_lossy().ends_with(".new")
                {
                    let text = fs::read_to_string(&path).unwrap();
                    files.insert(path, text.trim().as_bytes().to_vec());
                }
            }
        }
        files
    }

    /// Returns true if all settings are as before the governor ran.
    pub fn is_as_before(&self) -> bool {
        self.snapshot() == self.before
    }

    /// Settings that are not as they were.
    pub fn differences(&self) -> Vec<PathBuf> {
        let now = self.snapshot();
        self.before
            .iter()
            .filter(|(path, old)| now.get(*path) != Some(old))
            .map(|(p, _)| p.clone())
            .collect()
    }

    pub fn socket(&self) -> PathBuf {
        self.path("control.sock")
    }

    /// Writes the configuration, with the keys that every test needs.
    pub fn configure(&self, text: &str) {
        let own = format!(
            "[metrics]\nlisten = \"127.0.0.1:{}\"\n[govern]\nmay_raise = true\nsocket = \"{}\"\n",
            self.metrics,
            self.socket().display()
        );
        self.write("govern.toml", &format!("{own}{text}"));
    }

    /// Begins, and waits until it is ready.
    pub fn start(&mut self, text: &str) {
        self.start_with(text, &[]);
    }

    /// The same, with further arguments.
    pub fn start_with(&mut self, text: &str, arguments: &[&str]) {
        self.configure(text);
        // Notifications of an earlier governor.
        self.manager.set_nonblocking(true).unwrap();
        while self.manager.recv(&mut [0; 64]).is_ok() {}
        self.manager.set_nonblocking(false).unwrap();
        let log = fs::File::create(self.path("log")).unwrap();
        let child = Command::new(wattline_needs::program())
            .arg("govern")
            .arg(self.path("govern.toml"))
            .arg("--root")
            .arg(self.root.path())
            .args(arguments)
            .env("NOTIFY_SOCKET", self.path("notify"))
            .env("WATCHDOG_USEC", "400000")
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        self.child = Some(KillOnDrop(child));
        assert_eq!(self.notification(), "READY=1", "{}", self.log());
    }

    /// Receives the next message to the service manager.
    pub fn notification(&mut self) -> String {
        let mut buffer = [0; 64];
        let length = self.manager.recv(&mut buffer).unwrap_or_else(|error| {
            panic!("{error}: {}", self.log());
        });
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    pub fn logs(&self, words: &str) {
        until(words, || self.log().contains(words));
    }

    pub fn stats(&self) -> Value {
        ask(&self.socket(), Request::Stats)
            .unwrap_or_else(|error| panic!("{error}\n{}", self.log()))
    }

    pub fn process(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    pub fn signal(&self, name: &str) {
        let done = Command::new("kill").arg(name).arg(self.process().to_string()).status();
        assert!(done.unwrap().success());
    }

    /// Waits for its end and returns its exit code.
    pub fn ended(&mut self) -> Option<i32> {
        let mut child = self.child.take().unwrap();
        until("the governor ends", || child.try_wait().unwrap()).code()
    }

    /// Its watchdog's process.
    pub fn guard(&self) -> u32 {
        let log = self.log();
        let line = log.lines().find(|line| line.contains("watchdog process")).unwrap();
        line.rsplit(' ').next().unwrap().parse().unwrap()
    }

    pub fn restore(&self) -> Output {
        let mut command = Command::new(wattline_needs::program());
        command.args(["restore", "--root"]).arg(self.root.path()).output().unwrap()
    }

    /// Reads the metrics as Prometheus would.
    pub fn metrics(&self) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.metrics)).unwrap();
        write!(stream, "GET /metrics HTTP/1.0\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }
}
