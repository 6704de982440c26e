//! Forwarder in the middle of a topology: the kernel, or Wattline above it.

use crate::namespace::Namespace;
use crate::topology::{LEFT, RIGHT, SINK, SOURCE, Station, Topology};
use crate::{Error, command};
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use wattline_linux::namespace::interface_index;
use wattline_xdp::PassAll;

/// Time that a router may take to come up or to go, on a busy machine.
const LIMIT: Duration = Duration::from_secs(30);
/// As much of a router's log as an error message quotes.
const LAST_WORDS: usize = 2_000;

/// Mode of Wattline's forwarding: by workers alone, by their behaviour when there is no work, or by
/// its XDP programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Workers ask again and again.
    Poll,
    /// Workers block.
    Interrupt,
    /// Workers poll for a while, then block.
    Adaptive,
    /// XDP programs forward what they can; adaptive workers do the rest.
    XdpForward,
}

impl Mode {
    /// Its keys in a configuration.
    fn settings(self) -> &'static str {
        match self {
            Self::Poll => "mode = \"poll\"\nxdp_forward = \"off\"",
            Self::Interrupt => "mode = \"interrupt\"\nxdp_forward = \"off\"",
            Self::Adaptive => "mode = \"adaptive\"\nxdp_forward = \"off\"",
            Self::XdpForward => "mode = \"adaptive\"\nxdp_forward = \"on\"",
        }
    }
}

/// Who forwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forwarder {
    /// The kernel of the router's namespace.
    Kernel,
    /// `wattline run` in the router's namespace.
    Wattline {
        /// Behaviour of its workers when there is no work.
        mode: Mode,
        /// Number of workers; the topology should have as many queues.
        workers: u16,
    },
}

impl Forwarder {
    /// Puts it to work and waits until it forwards. `binary` is the `wattline` program.
    ///
    /// # Errors
    /// When Wattline does not come up; the error has its last words.
    pub fn start(self, topology: &Topology, binary: &Path) -> Result<Running, Error> {
        self.start_with(topology, binary, "")
    }

    /// The same with more in Wattline's configuration.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn start_with(
        self,
        topology: &Topology,
        binary: &Path,
        more: &str,
    ) -> Result<Running, Error> {
        match self {
            // A topology's router forwards by itself.
            Self::Kernel => Ok(Running { wattline: None, _ends: Vec::new() }),
            Self::Wattline { mode, workers } => {
                // Before it looks whether they do.
                let ends = match mode {
                    Mode::XdpForward => take_xdp_frames(topology)?,
                    _ => Vec::new(),
                };
                let text = |socket: &Path| configuration(mode, workers, socket) + more;
                let wattline = Wattline::start_with(topology, binary, text)?;
                Ok(Running { wattline: Some(wattline), _ends: ends })
            }
        }
    }
}

/// A forwarder at work; stopped when dropped.
#[derive(Debug)]
pub struct Running {
    /// The process above the kernel, where there is one.
    pub wattline: Option<Wattline>,
    /// Programs by which source and sink take frames from XDP programs.
    _ends: Vec<PassAll>,
}

impl Running {
    /// Stops it in good order; what Wattline counted, when it was Wattline.
    ///
    /// # Errors
    /// As [`Wattline::stop`].
    pub fn stop(self) -> Result<Option<Totals>, Error> {
        self.wattline.map(Wattline::stop).transpose()
    }
}

/// Totals that `wattline run --json` prints at its end, as far as experiments need them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Totals {
    /// Frames taken from ports.
    pub received: u64,
    /// Frames sent on.
    pub forwarded: u64,
    /// Frames of both counts that XDP programs forwarded by themselves.
    #[serde(default)]
    pub xdp_forwarded: u64,
    /// Frames handed to the kernel.
    pub punted: u64,
    /// Frames that the router made itself: ICMP errors, fragments beyond the first.
    pub generated: u64,
    /// Frames dropped, by reason.
    pub dropped: BTreeMap<String, u64>,
}

impl Totals {
    /// Whether every frame is accounted for: received + generated = forwarded + punted + dropped.
    pub fn balance(&self) -> bool {
        let dropped: u64 = self.dropped.values().sum();
        self.received + self.generated == self.forwarded + self.punted + dropped
    }
}

/// A `wattline run` process in a topology's router.
#[derive(Debug)]
pub struct Wattline {
    child: Child,
    binary: PathBuf,
    folder: TempDir,
}

/// Declares the keys of all tunnels in a configuration new; those that were used stay known.
///
/// # Errors
/// When a key is refused.
pub fn declare_keys(binary: &Path, config: &Path, text: &str) -> Result<(), Error> {
    let tunnels = text.split("[[ipsec_tunnel]]").skip(1);
    let name = |tunnel: &str| Some(tunnel.split_once("name = \"")?.1.split_once('"')?.0.to_owned());
    let names: Vec<String> = tunnels.filter_map(name).collect();
    if names.is_empty() {
        return Ok(());
    }
    let mut command = Command::new(binary);
    command::run(command.arg("new-keys").arg(config).args(names), LIMIT).map(drop)
}

impl Wattline {
    /// Starts it with a configuration of one's own, made for a control socket.
    ///
    /// # Errors
    /// When it does not come up; the error has its last words.
    pub fn start_with(
        topology: &Topology,
        binary: &Path,
        configuration: impl FnOnce(&Path) -> String,
    ) -> Result<Self, Error> {
        Self::start_in(&topology.router, binary, configuration)
    }

    /// The same in any namespace.
    ///
    /// # Errors
    /// As [`Self::start_with`].
    pub fn start_in(
        namespace: &Namespace,
        binary: &Path,
        configuration: impl FnOnce(&Path) -> String,
    ) -> Result<Self, Error> {
        let folder = TempDir::with_prefix("wattline-testbed-")
            .map_err(|source| Error::io("making a folder for a configuration", source))?;
        let config = folder.path().join("router.toml");
        let text = configuration(&folder.path().join("socket"));
        std::fs::write(&config, &text)
            .map_err(|source| Error::io(format!("writing {}", config.display()), source))?;
        declare_keys(binary, &config, &text)?;
        let mut command = namespace.command(&binary.to_string_lossy());
        command.arg("run").arg(&config).arg("--json").stdin(Stdio::null());
        command.stdout(create(&folder, "stdout")?).stderr(create(&folder, "stderr")?);
        let child = command::spawn(&mut command)?;
        let mut wattline = Self { child, binary: binary.to_owned(), folder };
        wattline.wait_until_up()?;
        Ok(wattline)
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its control socket.
    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    /// Its configuration file.
    pub fn config(&self) -> PathBuf {
        self.folder.path().join("router.toml")
    }

    /// Returns the standard error so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("stderr")).unwrap_or_default()
    }

    /// A command of its program about it.
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.binary);
        command.args(words).arg("--socket").arg(self.socket());
        command
    }

    /// The output of a command about it.
    ///
    /// # Errors
    /// As [`command::run`].
    pub fn ask(&self, words: &[&str]) -> Result<String, Error> {
        command::run(&mut self.command(words), command::LIMIT)
    }

    /// Its counters now, as `wattline stats --json` prints them.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn stats(&self) -> Result<serde_json::Value, Error> {
        let text = self.ask(&["stats", "--json"])?;
        serde_json::from_str(&text)
            .map_err(|error| self.failed(format!("answered no JSON to `stats` ({error})")))
    }

    fn wait_until_up(&mut self) -> Result<(), Error> {
        let deadline = Instant::now() + LIMIT;
        loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(self.failed(format!("ended at its start ({status})")));
            }
            if self.stats().is_ok() {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(self.failed(format!("was not up after {} s", LIMIT.as_secs())));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// SIGTERM, and what it counted in its life.
    ///
    /// # Errors
    /// When it does not end, ends with an error, or prints no account.
    pub fn stop(mut self) -> Result<Totals, Error> {
        self.signal(Signal::TERM);
        let status = command::wait(&mut self.child, LIMIT)
            .map_err(|source| Error::io("waiting for the router", source))?;
        match status {
            Some(status) if status.success() => {}
            Some(status) => return Err(self.failed(format!("ended badly ({status})"))),
            None => return Err(self.failed("did not end after SIGTERM".to_owned())),
        }
        let text = std::fs::read_to_string(self.folder.path().join("stdout")).unwrap_or_default();
        serde_json::from_str(&text)
            .map_err(|error| self.failed(format!("printed no account ({error}): {text}")))
    }

    /// SIGKILL: no chance to tidy up.
    pub fn kill(&mut self) {
        self.signal(Signal::KILL);
        let _ = self.child.wait();
    }

    fn signal(&self, signal: Signal) {
        // A child that was not waited for keeps its number: no stranger can be hit.
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, signal);
        }
    }

    fn failed(&self, what: String) -> Error {
        let log = self.log();
        let tail = log.char_indices().rev().nth(LAST_WORDS).map_or(0, |(start, _)| start);
        Error::Router { what, log: log[tail..].to_owned() }
    }
}

impl Drop for Wattline {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.kill();
        }
    }
}

/// The configuration of a router between the two ports of a topology.
pub fn configuration(mode: Mode, workers: u16, socket: &Path) -> String {
    let mut text = format!(
        "[router]\nworkers = {workers}\n{}\nsocket = \"{}\"\n",
        mode.settings(),
        socket.display()
    );
    for port in [LEFT, RIGHT] {
        text += &format!("\n[[port]]\nname = \"{0}\"\ninterface = \"{0}\"\n", port.interface);
    }
    text
}

/// Makes source and sink take frames that the router's XDP programs send.
fn take_xdp_frames(topology: &Topology) -> Result<Vec<PassAll>, Error> {
    let attach = |(namespace, end): (&Namespace, Station)| {
        namespace.enter(|| {
            PassAll::attach(interface_index(end.interface)?).map_err(|error| {
                Error::io(
                    format!("making {} take XDP frames", end.interface),
                    io::Error::other(error),
                )
            })
        })?
    };
    [(&topology.source, SOURCE), (&topology.sink, SINK)].into_iter().map(attach).collect()
}

fn create(folder: &TempDir, name: &str) -> Result<File, Error> {
    let path = folder.path().join(name);
    File::create(&path).map_err(|source| Error::io(format!("creating {}", path.display()), source))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leftovers::can_build_namespaces;
    use crate::topology::Options;

    #[test]
    fn an_account_balances_or_does_not() {
        let text = r#"{"received": 10, "forwarded": 7, "punted": 1, "generated": 1,
                       "dropped": {"no-route": 2, "ttl": 1}, "ports": []}"#;
        let mut totals: Totals = serde_json::from_str(text).unwrap();
        assert!(totals.balance());
        totals.received += 1;
        assert!(!totals.balance());
    }

    #[test]
    fn the_configuration_is_toml_with_both_ports() {
        let text = configuration(Mode::Poll, 2, Path::new("/tmp/s"));
        assert!(text.contains("mode = \"poll\"") && text.contains("workers = 2"));
        assert_eq!(text.matches("[[port]]").count(), 2);
    }

    #[test]
    fn a_router_that_does_not_come_up_is_told_with_its_last_words() {
        let test = "a_router_that_does_not_come_up_is_told_with_its_last_words";
        if !can_build_namespaces(test) {
            return;
        }
        let topology = Topology::build(Options::default()).unwrap();
        let forwarder = Forwarder::Wattline { mode: Mode::Adaptive, workers: 1 };
        // `ls run … --json` fails and says why.
        let error = forwarder.start(&topology, Path::new("ls")).unwrap_err().to_string();
        assert!(error.contains("ended at its start") && error.contains("json"), "{error}");
    }
}
