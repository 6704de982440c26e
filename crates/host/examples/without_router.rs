//! Governs CPUs of this machine for some seconds: no router, no daemon, no configuration file.
//!
//!     cargo run -p wattline-host --example without_router -- POLICY CPUS SECONDS [ROOT]
//!     cargo run -p wattline-host --example without_router -- ondemand 0,1 10
//!
//! `governor` and `host` need nothing but a layout: the CPUs, interfaces and queues that may be
//! changed. All settings are restored at the end. ROOT is the copy of a recorded machine
//! (`wattline probe --record`) instead of this one; without it, root privileges are needed.

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;
use wattline_governor::Governor;
use wattline_governor::machine::Machine as _;
use wattline_governor::runner::Runner;
use wattline_host::{Host, HostOptions, KernelStack, Layout, Scope};
use wattline_knobs::{Machine, STATE_DIRECTORY, Session};
use wattline_linux::privileges::Rights;
use wattline_linux::sysfs::Tree;
use wattline_policies::POLICIES;
use wattline_policy::{BuildContext, build};
use wattline_units::Span;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (words, root) = match words[..] {
        [policy, cpus, seconds] => ([policy, cpus, seconds], "/"),
        [policy, cpus, seconds, root] => ([policy, cpus, seconds], root),
        _ => {
            eprintln!("usage: without_router POLICY CPUS SECONDS [ROOT]");
            return ExitCode::from(2);
        }
    };
    match run(words, Path::new(root)) {
        Ok(lines) => {
            lines.iter().for_each(|line| println!("{line}"));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run([policy, cpus, seconds]: [&str; 3], root: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    let cpus = cpus.split(',').map(str::parse).collect::<Result<Vec<u32>, _>>()?;
    govern(policy, cpus, Duration::try_from_secs_f64(seconds.parse()?)?, root)
}

/// Lets a policy govern these CPUs for `time`; returns the final frequency of each core.
///
/// # Errors
/// When the policy or the machine does not allow it, or another governor runs.
pub fn govern(
    policy: &str,
    cpus: Vec<u32>,
    time: Duration,
    root: &Path,
) -> Result<Vec<String>, Box<dyn Error>> {
    let sample = Span::from_millis(1);
    let tree = Tree::at(root);
    // The kernel serves the packets: no ports, and no workers.
    let layout = Layout { workers: cpus.len(), cpus, ports: Vec::new() };
    let (kernel, _) = KernelStack::new(&tree, &layout);
    let options = HostOptions {
        tree: tree.clone(),
        layout,
        ring_size: None,
        busy_poll: false,
        sample,
        uncore: false,
        meters: false,
        rights: Rights::ALL,
        override_limits: false,
        may_raise: true,
        preferences: false,
        scope: Scope { cores: false, ..Scope::KERNEL },
    };
    // Every old value is on disk before its setting changes.
    let state = tree.path(STATE_DIRECTORY);
    let (session, _) = Session::begin(Machine::new(&tree), &tree, &state)?;
    let host = Host::new(options, session, Box::new(kernel))?;
    let platform = host.platform().clone();
    let context = BuildContext { platform: &platform, server: None, packet: None, seed: 1 };
    let policy = build(&POLICIES.parse(policy)?, &context)?;

    let runner = Runner::start(Governor::new(host, policy), sample.into())?;
    std::thread::sleep(time);
    let governor = runner.end().ok_or("the governor has panicked")?;
    let point = governor.point();
    let line = |(core, index): (usize, usize)| {
        let frequency = platform.frequencies.get(index).map_or(0.0, |f| f.gigahertz());
        format!("core {core}: {frequency:.2} GHz, active: {}", point.active.contains(core))
    };
    let lines = point.frequencies(&platform).enumerate().map(line).collect();
    governor.into_machine().into_knobs().finish();
    Ok(lines)
}
