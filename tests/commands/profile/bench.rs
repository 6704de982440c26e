//! A real server behind a veth pair whose end moderates by NAPI deferral, and `wattline` with it.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use wattline_linux::namespace::{Namespace, enter_thread};
use wattline_linux::napi::{self, Napi};
use wattline_needs::{KillOnDrop, until};
use wattline_testbed::command::{installed, program};
use wattline_testbed::leftovers::can_build_namespaces;

/// The server's end.
pub const INTERFACE: &str = "srv0";
const ADDRESS: &str = "10.98.0.1";
/// A page of nginx, in bytes.
const PAGE: usize = 1_000;

/// The profiled server program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Server {
    Memcached,
    Nginx,
}

impl Server {
    fn program(self) -> &'static str {
        match self {
            Self::Memcached => "memcached",
            Self::Nginx => "nginx",
        }
    }

    fn port(self) -> u16 {
        match self {
            Self::Memcached => 11_211,
            Self::Nginx => 80,
        }
    }

    /// Returns the arguments of `wattline load` and `wattline profile` for it.
    fn load(self) -> Vec<String> {
        let words = match self {
            Self::Memcached => {
                format!("memcached {ADDRESS} --keys 500 --connections 8")
            }
            Self::Nginx => format!("http http://{ADDRESS}/ --connections 16"),
        };
        words.split(' ').map(str::to_owned).collect()
    }
}

pub struct Bench {
    serves: Server,
    _server: KillOnDrop,
    pub server: Namespace,
    pub client: Namespace,
    pub folder: tempfile::TempDir,
    /// A machine's settings have one writer, and all benches turn this machine's.
    _alone: MutexGuard<'static, ()>,
}

impl Bench {
    pub fn build(test: &str, serves: Server) -> Option<Self> {
        let own = program(serves.program());
        let absent = own.is_none().then(|| serves.program());
        let missing: Vec<&str> = ["ethtool", "ip", "ss", "chrt"]
            .into_iter()
            .filter(|name| !installed(name))
            .chain(absent)
            .collect();
        if !missing.is_empty() || !can_build_namespaces(test) {
            wattline_needs::skip(
                Some(test),
                wattline_needs::Need::Tool,
                format_args!("root, and {missing:?}"),
            );
            return None;
        }
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        static BENCHES: AtomicU32 = AtomicU32::new(0);
        let number = BENCHES.fetch_add(1, Ordering::Relaxed);
        let name = |role| format!("wlp-{}-{number}-{role}", std::process::id());
        let server = Namespace::create(name("s")).unwrap();
        let client = Namespace::create(name("c")).unwrap();
        server
            .ip(&format!("link add {INTERFACE} type veth peer name cli0 netns {}", client.name()))
            .unwrap();
        for (end, interface, address) in
            [(&server, INTERFACE, ADDRESS), (&client, "cli0", "10.98.0.2")]
        {
            end.ip(&format!("addr add {address}/24 dev {interface}")).unwrap();
            end.ip(&format!("link set {interface} up")).unwrap();
        }
        // A veth runs NAPI with GRO on (or an XDP program), and takes TCP by it only where the other
        // end has no TSO: without that nothing can be deferred.
        server.run("ethtool", &["-K", INTERFACE, "gro", "on"]).unwrap();
        client.run("ethtool", &["-K", "cli0", "tso", "off"]).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let config = format!("[govern]\ninterfaces = [\"{INTERFACE}\"]\n");
        std::fs::write(folder.path().join("govern.toml"), config).unwrap();
        let mut command = within(&server, &own?);
        match serves {
            Server::Memcached => {
                command.args(["-u", "nobody", "-l", ADDRESS, "-t", "1", "-m", "64"]);
            }
            Server::Nginx => {
                command.arg("-c").arg(pages(folder.path())).arg("-p").arg(folder.path());
            }
        }
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let running = KillOnDrop(child.spawn().unwrap());
        // It listens a moment after it was started.
        let port = format!("sport = :{}", serves.port());
        until(&format!("{} listens", serves.program()), || {
            let sockets = server.run("ss", &["-Hltn", &port]).unwrap();
            !sockets.trim().is_empty()
        });
        Some(Self { serves, _server: running, server, client, folder, _alone: alone })
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// `wattline profile` of this server.
    pub fn profile(&self, more: &[&str]) -> Command {
        let mut command = self.profile_from(&["--netns", self.client.name()], "tables.csv");
        command.args(more);
        command
    }

    /// The same from elsewhere, into another file of the folder.
    pub fn profile_from(&self, from: &[&str], out: &str) -> Command {
        let mut command = within(&self.server, &Command::new(wattline_needs::program()));
        command.args(["--json", "profile"]).args(self.serves.load()).args(from);
        command.arg("--config").arg(self.path("govern.toml"));
        command.arg("--out").arg(self.path(out)).stdin(Stdio::null());
        command
    }

    /// Runs it.
    pub fn run(&self, more: &[&str]) -> Output {
        Self::patiently(|| self.profile(more).output().unwrap())
    }

    /// Repeats a run while another test governs this machine, which does not take long.
    pub fn patiently(run: impl Fn() -> Output) -> Output {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let output = run();
            let message = String::from_utf8_lossy(&output.stderr).into_owned();
            if !message.contains("is changing this machine's settings") || Instant::now() > deadline
            {
                return output;
            }
            std::thread::sleep(Duration::from_millis(500));
        }
    }

    /// A load from the client's end, as a process that is still running.
    pub fn load(&self, rate: f64, seconds: u64) -> Child {
        let mut command = within(&self.client, &Command::new(wattline_needs::program()));
        command.args(["--json", "load"]).args(self.serves.load());
        command.args(["--rate", &rate.to_string(), "--warmup", "2s"]);
        command.args(["--duration", &format!("{seconds}s")]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap()
    }

    /// Returns the profiled points.
    pub fn points(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.path("tables.csv.points.json")).unwrap();
        let points: Value = serde_json::from_str(&text).unwrap();
        points["points"].as_array().cloned().unwrap()
    }

    /// The deferral of the server's end in microseconds, as the kernel reports it.
    pub fn deferral_us(&self) -> u64 {
        let name = self.server.name().to_owned();
        let ask = move || {
            enter_thread(&name).unwrap();
            napi::get(INTERFACE, 0, Napi::GroFlushTimeout)
        };
        let nanos = match std::thread::spawn(ask).join().unwrap() {
            Ok(nanos) => nanos,
            // Kernels before 6.13 have it for the whole interface.
            Err(_) => {
                let file = format!("/sys/class/net/{INTERFACE}/gro_flush_timeout");
                self.server.run("cat", &[&file]).unwrap().trim().parse().unwrap()
            }
        };
        nanos / 1_000
    }
}

/// Real-time priority, so that other programs do not cause the tails.
pub fn within(namespace: &Namespace, program: &Command) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", namespace.name(), "chrt", "-r", "5"]).arg(program.get_program());
    command.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command
}

/// nginx with one process and a page.
fn pages(folder: &Path) -> PathBuf {
    std::fs::write(folder.join("index.html"), "x".repeat(PAGE)).unwrap();
    let root = folder.display();
    let config = format!(
        "daemon off; master_process off; worker_processes 1; user root; error_log stderr;\n\
         pid {root}/nginx.pid; events {{ worker_connections 256; }}\n\
         http {{ access_log off; keepalive_requests 1000000;\n\
         client_body_temp_path {root}/body; proxy_temp_path {root}/proxy;\n\
         fastcgi_temp_path {root}/fastcgi; uwsgi_temp_path {root}/uwsgi; scgi_temp_path {root}/scgi;\n\
         server {{ listen {ADDRESS}:80; root {root}; }} }}\n"
    );
    let path = folder.join("nginx.conf");
    std::fs::write(&path, config).unwrap();
    path
}
