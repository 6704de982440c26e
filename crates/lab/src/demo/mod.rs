//! The demonstration: the same real traffic through a router made of namespaces, first by the
//! kernel, then by Wattline's workers, then by its XDP programs; without root, through Wattline's graph between memory ports.

pub mod day;
mod live;
mod memory;
mod mix;
mod namespaces;
mod passage;
mod report;

pub use report::{Report, Row};

use std::path::PathBuf;
use std::time::Duration;
use wattline_testbed::Error;
use wattline_testbed::clock::monotonic_nanos;
use wattline_testbed::cpu::CpuTime;
use wattline_testbed::forwarder::Mode;
use wattline_testbed::probe::Load;

/// How long the machine is watched before a pass.
const BEFORE: Duration = Duration::from_millis(500);

/// What to demonstrate.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The mix of flows and sizes.
    pub load: Load,
    /// Captures to replay after it, each for as long and at the same rate.
    pub captures: Vec<PathBuf>,
    /// What Wattline's worker does when there is no work.
    pub mode: Mode,
    /// The `wattline` program.
    pub binary: PathBuf,
}

/// Forwards the traffic by every forwarder that this machine allows.
///
/// # Errors
/// When a capture cannot be read, or a forwarder does not come up.
pub fn run(settings: &Settings) -> Result<Report, Error> {
    if let Some(reason) = why_no_namespaces() {
        return memory::run(settings, reason);
    }
    namespaces::run(settings)
}

/// Why this process cannot build a router out of namespaces; `None` when it can.
fn why_no_namespaces() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("not root: no namespaces can be built and no AF_XDP socket opened".to_owned());
    }
    ["ip", "ethtool"].iter().find(|program| !wattline_testbed::command::installed(program)).map(|program| {
        format!(
            "`{program}` is not installed (`make tools` installs it): no namespaces can be built"
        )
    })
}

/// How much of one processor the machine uses without us.
fn background() -> Result<f64, Error> {
    let (start, before) = (monotonic_nanos(), CpuTime::of_machine()?);
    std::thread::sleep(BEFORE);
    let seconds = (monotonic_nanos() - start) as f64 * 1e-9;
    Ok((CpuTime::of_machine()? - before).busy_seconds() / seconds)
}

fn notes(rows: &[Row]) -> Vec<String> {
    let mut notes = vec![
        "CPU: time of all processors in programs, kernel and softirq (/proc/stat) divided by the \
         packets forwarded; generator and receiver are in it, the same for every forwarder. Some \
         kernels sample it at ticks only: where processors are mostly idle it is then too low."
            .to_owned(),
        "Virtual Ethernet in copy mode: this compares ways through one kernel, and says little \
         about a network card."
            .to_owned(),
    ];
    let busiest = rows.iter().map(|row| row.background_cpu_share).fold(0.0, f64::max);
    if busiest > 0.1 {
        notes.push(format!(
            "DISTURBED: something else used up to {busiest:.1} processors; do not trust the CPU and \
             latency figures."
        ));
    }
    notes
}
