//! DPDK's l3fwd as a child process.

use super::arrangement::INSIDE;
use super::setup::{SINK_MAC, Setup};
use super::threads::{Level, Thread};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use wattline_testbed::Error;
use wattline_testbed::command;
use wattline_testbed::topology::mac_text;

/// Memory of DPDK's environment, without huge pages.
const MEGABYTES: u32 = 512;

/// A running l3fwd with its files; killed when dropped.
pub struct L3fwd {
    child: Child,
    _files: tempfile::TempDir,
}

impl L3fwd {
    /// Starts the program over AF_XDP.
    pub fn start(setup: &Setup, program: &Path) -> Result<Self, Error> {
        let files = tempfile::tempdir().map_err(|e| Error::io("making a folder", e))?;
        let v4 = write(&files, "v4", "R10.9.0.0/24 1\n")?;
        let v6 = write(&files, "v6", "R2001:0db8:0000:0000:0000:0000:0000:0000/48 1\n")?;
        let mut start = setup.router.command(&program.to_string_lossy());
        start
            // libxdp's dispatcher needs a BPF file system, which some machines lack.
            .env("LIBXDP_SKIP_DISPATCHER", "1")
            .args([format!("-l{INSIDE}"), format!("-m{MEGABYTES}")])
            .args(["-n1", "--no-huge", "--no-pci", "--no-telemetry"])
            .arg(format!("--file-prefix=wl{}", std::process::id()))
            .arg(format!("--vdev={}", device(0, &setup.left)))
            .arg(format!("--vdev={}", device(1, &setup.right)))
            .args(["--", "-p3", "-P", "--parse-ptype", "--lookup=lpm"])
            .arg(format!("--config=(0,0,{INSIDE}),(1,0,{INSIDE})"))
            .arg(format!("--eth-dest=1,{}", mac_text(SINK_MAC)))
            .arg(format!("--rule_ipv4={}", v4.display()))
            .arg(format!("--rule_ipv6={}", v6.display()));
        start.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let started = Self { child: command::spawn(&mut start)?, _files: files };
        // This must precede the start of its other threads, which inherit the priority.
        Thread::main_of(&started.child).precede(Level::Drain)?;
        Ok(started)
    }

    /// Returns the threads once the program runs.
    pub fn threads(&self) -> Result<Vec<Thread>, Error> {
        Thread::process_threads(self.child.id())
    }
}

impl Drop for L3fwd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the AF_XDP device of this number over an interface. By default the driver receives within its
/// own system calls (preferred busy polling) and would take over the work of the generator's processor.
fn device(number: u8, interface: &str) -> String {
    format!("net_af_xdp{number},iface={interface},start_queue=0,queue_count=1,busy_budget=0")
}

fn write(folder: &tempfile::TempDir, name: &str, text: &str) -> Result<PathBuf, Error> {
    let path = folder.path().join(name);
    std::fs::write(&path, text).map_err(|e| Error::io(path.display().to_string(), e))?;
    Ok(path)
}
