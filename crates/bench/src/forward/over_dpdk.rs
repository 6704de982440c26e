//! Programs over DPDK, as processes of their own: its l3fwd, and a router with the feature `dpdk`.

use super::arrangement::INSIDE;
use super::setup::{LEFT_MAC, RIGHT_MAC, SINK_MAC, Setup};
use super::threads::{Level, Thread};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use wattline_testbed::Error;
use wattline_testbed::command::{self, LIMIT};
use wattline_testbed::topology::mac_text;

/// Memory of DPDK's environment, without huge pages.
const MEGABYTES: u32 = 512;

/// A driver of DPDK for an interface of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Driver {
    /// AF_XDP: frames are taken before the kernel's stack.
    AfXdp,
    /// AF_PACKET: the kernel receives and sends, and copies both ways.
    AfPacket,
}

impl Driver {
    /// The device of this number over an interface.
    fn device(self, number: u8, interface: &str) -> String {
        match self {
            // By default the driver receives within its own system calls (preferred busy polling)
            // and would take over the work of the generator's processor.
            Self::AfXdp => format!(
                "net_af_xdp{number},iface={interface},start_queue=0,queue_count=1,busy_budget=0"
            ),
            Self::AfPacket => format!("net_af_packet{number},iface={interface}"),
        }
    }
}

/// A running program with what it was started with; killed when dropped.
pub struct Process {
    child: Child,
    _files: tempfile::TempDir,
}

impl Process {
    /// DPDK's l3fwd.
    pub fn l3fwd(setup: &Setup, program: &Path, driver: Driver) -> Result<Self, Error> {
        let files = folder()?;
        let v4 = write(&files, "v4", "R10.9.0.0/24 1\n")?;
        let v6 = write(&files, "v6", "R2001:0db8:0000:0000:0000:0000:0000:0000/48 1\n")?;
        let mut start = setup.router.command(&program.to_string_lossy());
        start
            // libxdp's dispatcher needs a BPF file system, which some machines lack.
            .env("LIBXDP_SKIP_DISPATCHER", "1")
            .args([format!("-l{INSIDE}"), format!("-m{MEGABYTES}")])
            .args(["-n1", "--no-huge", "--no-pci", "--no-telemetry"])
            .arg(format!("--file-prefix=wl{}", std::process::id()))
            .arg(format!("--vdev={}", driver.device(0, &setup.left)))
            .arg(format!("--vdev={}", driver.device(1, &setup.right)))
            .args(["--", "-p3", "-P", "--parse-ptype", "--lookup=lpm"])
            .arg(format!("--config=(0,0,{INSIDE}),(1,0,{INSIDE})"))
            .arg(format!("--eth-dest=1,{}", mac_text(SINK_MAC)))
            .arg(format!("--rule_ipv4={}", v4.display()))
            .arg(format!("--rule_ipv6={}", v6.display()));
        Self::start(setup, start, files, driver)
    }

    /// A router with ports over DPDK's AF_PACKET driver, and no kernel behind them.
    pub fn wattline(setup: &Setup, program: &Path) -> Result<Self, Error> {
        let files = folder()?;
        let driver = Driver::AfPacket;
        let socket = files.path().join("socket");
        let text = format!(
            "[dpdk]\narguments = [\"--no-huge\", \"-m\", \"{MEGABYTES}\"]\n\
             [router]\nmode = \"poll\"\ncpus = [{INSIDE}]\nsocket = {socket:?}\n\
             [[port]]\nname = \"left\"\ndpdk = \"{left}\"\n\
             mac = \"{left_mac}\"\naddresses = [\"10.1.0.1/24\"]\n\
             [[port]]\nname = \"right\"\ndpdk = \"{right}\"\n\
             mac = \"{right_mac}\"\naddresses = [\"10.2.0.1/24\"]\n\
             [[route]]\nprefix = \"10.9.0.0/24\"\nvia = \"10.2.0.2\"\nport = \"right\"\n\
             [[neighbour]]\naddress = \"10.2.0.2\"\nmac = \"{sink_mac}\"\nport = \"right\"\n",
            left = driver.device(0, &setup.left),
            right = driver.device(1, &setup.right),
            left_mac = mac_text(LEFT_MAC),
            right_mac = mac_text(RIGHT_MAC),
            sink_mac = mac_text(SINK_MAC),
        );
        let configuration = write(&files, "router.toml", &text)?;
        let mut start = setup.router.command(&program.to_string_lossy());
        start.arg("run").arg(configuration);
        Self::start(setup, start, files, driver)
    }

    fn start(
        setup: &Setup,
        mut start: Command,
        files: tempfile::TempDir,
        driver: Driver,
    ) -> Result<Self, Error> {
        if driver == Driver::AfPacket {
            alone(setup)?;
        }
        start.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let started = Self { child: command::spawn(&mut start)?, _files: files };
        // This must precede the start of its other threads, which inherit the priority.
        Thread::main_of(&started.child).precede(Level::Drain)?;
        Ok(started)
    }

    /// Its threads, once it runs.
    pub fn threads(&self) -> Result<Vec<Thread>, Error> {
        Thread::process_threads(self.child.id())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Keeps the kernel from forwarding each frame a second time: after AF_PACKET has its copy, the frame
/// is dropped.
fn alone(setup: &Setup) -> Result<(), Error> {
    let rules = [&setup.left, &setup.right].map(|interface| {
        format!(
            "add chain netdev bench {interface} {{ type filter hook ingress device {interface} \
             priority 0; policy drop; }}"
        )
    });
    let rules = format!("add table netdev bench; {}", rules.join("; "));
    setup.router.run("nft", &[&rules], LIMIT).map(drop)
}

fn folder() -> Result<tempfile::TempDir, Error> {
    tempfile::tempdir().map_err(|e| Error::io("making a folder", e))
}

fn write(folder: &tempfile::TempDir, name: &str, text: &str) -> Result<PathBuf, Error> {
    let path = folder.path().join(name);
    std::fs::write(&path, text).map_err(|e| Error::io(path.display().to_string(), e))?;
    Ok(path)
}
