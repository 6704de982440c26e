//! Surroundings of the guest: a bridge outside, to which both of its cards are cabled, and a
//! network namespace inside that holds the second card.
//!
//! ```text
//!   guest: memcached on eth0 10.9.0.1      outside: bridge 10.9.0.3, `wattline load`
//!          `wattline profile`'s load on eth1 10.9.0.2, in the namespace `load`
//! ```

use super::super::INSIDE;
use super::super::ipsec::{ip, write};
use serde_json::Value;
use std::path::Path;
use std::time::Duration;
use wattline_testbed::namespace::Namespace;
use wattline_testbed::rig::Machine;
use wattline_testbed::{Error, command};

/// Address of memcached.
pub const SERVER: &str = "10.9.0.1";
/// The namespace inside that the profile sends from.
pub const LOAD: &str = "load";
/// Connections of every load: enough for both queues to get some.
pub const CONNECTIONS: &str = "16";
/// Time for a load, on a busy machine.
const LIMIT: Duration = Duration::from_secs(120);

/// Bridge and generator outside.
pub struct Site {
    /// Namespace of the taps and the bridge.
    pub outside: Namespace,
}

/// Results of the generator outside.
#[derive(Debug, Clone, Copy)]
pub struct Seen {
    /// 50th and 95th percentile in microseconds, from the intended time of each request.
    pub p50_us: f64,
    pub p95_us: f64,
    /// Failed requests, of all that were due.
    pub failed: u64,
}

impl Site {
    pub fn build() -> Result<Self, Error> {
        Ok(Self { outside: Namespace::create("outside")? })
    }

    /// Cables both cards, and starts the server.
    pub fn connect(&self, machine: &mut Machine) -> Result<(), Error> {
        self.outside.ip("link add br0 type bridge\nlink set tap0 master br0\n\
                         link set tap1 master br0\nlink set tap0 up\nlink set tap1 up\n\
                         link set br0 up\naddress add 10.9.0.3/24 dev br0")?;
        machine.run("mkdir -p /run/netns /etc; ln -sf ../run /var/run", INSIDE)?;
        ip(
            machine,
            None,
            "netns add load\nlink set eth1 netns load\n\
                           address add 10.9.0.1/24 dev eth0\nlink set eth0 up",
        )?;
        ip(
            machine,
            Some(LOAD),
            "address add 10.9.0.2/24 dev eth1\nlink set lo up\nlink set eth1 up",
        )?;
        // memcached looks up its user.
        write(machine, "/etc/passwd", "root:x:0:0:root:/:/bin/sh")?;
        serve(machine)?;
        let reached = "until ping -c 1 -W 1 -I eth1 10.9.0.1 > /dev/null 2>&1; do sleep 0.2; done";
        machine.run(&format!("/bin/ip netns exec {LOAD} sh -c '{reached}'"), INSIDE).map(drop)
    }

    /// A load from outside, as a process that is still running.
    pub fn start(&self, wattline: &Path, rate: f64, seconds: u64) -> Loading {
        let name = self.outside.name();
        let (wattline, rate) = (wattline.to_owned(), rate.to_string());
        let mut load = std::process::Command::new("ip");
        load.args(["netns", "exec", name]).arg(wattline);
        load.args(["--json", "load", "memcached", SERVER, "--rate", &rate, "--keys", "100"]);
        load.args(["--connections", CONNECTIONS, "--warmup", "1s"]);
        load.args(["--duration", &format!("{seconds}s")]);
        Loading(std::thread::spawn(move || command::run(&mut load, LIMIT)))
    }

    /// The same, to its end.
    pub fn load(&self, wattline: &Path, rate: f64, seconds: u64) -> Result<Seen, Error> {
        self.start(wattline, rate, seconds).end()
    }
}

/// A running load.
pub struct Loading(std::thread::JoinHandle<Result<String, Error>>);

impl Loading {
    /// Returns true if the load is still running.
    pub fn lasts(&self) -> bool {
        !self.0.is_finished()
    }

    /// Waits for its end.
    pub fn end(self) -> Result<Seen, Error> {
        let text = match self.0.join() {
            Ok(outcome) => outcome?,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        let report: Value = serde_json::from_str(&text).map_err(|error| Error::Rig {
            what: format!("`wattline load` printed no JSON ({error}): {text}"),
            console: String::new(),
        })?;
        let micros = |name: &str| report["latency"][name].as_f64().map_or(f64::NAN, |s| s * 1e6);
        Ok(Seen {
            p50_us: micros("p50_seconds"),
            p95_us: micros("p95_seconds"),
            failed: report["failed_requests"].as_u64().unwrap_or(u64::MAX),
        })
    }
}

/// Starts memcached inside, and waits until it listens.
pub fn serve(machine: &mut Machine) -> Result<(), Error> {
    let line = format!(
        "(sh -c 'echo $$ > /tmp/memcached.pid; exec memcached -u root -l {SERVER} -t 2 -m 64') \
         > /tmp/memcached.log 2>&1 & until echo quit | nc -w 5 {SERVER} 11211; do sleep 0.2; done"
    );
    machine.run(&line, INSIDE).map(drop)
}
