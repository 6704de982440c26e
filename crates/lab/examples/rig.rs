//! The virtual hardware lab alone, as run by `make rig`, `make rig-copi` and `make rig-shell`:
//!
//!     cargo run --release -p wattline-lab --example rig -- PATH-OF-WATTLINE [check|copi|shell] [--json]
//!
//! Exits with 1 if a check fails, with 69 if emulator or kernel are unavailable.

#[path = "../../../tests/rig/checks/mod.rs"]
mod checks;

use checks::Checks;
use std::path::Path;
use std::process::ExitCode;
use wattline_testbed::Error;
use wattline_testbed::rig::{Machine, Options, Rig, agent, conformance, machine};

fn main() -> ExitCode {
    // The same program turns the knobs in the guest.
    let serve =
        || Ok::<_, String>(agent::serve()? || conformance::serve()? || checks::end_of_flow());
    match serve() {
        Ok(true) => return ExitCode::SUCCESS,
        Ok(false) => {}
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::FAILURE;
        }
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let json = arguments.iter().any(|argument| argument == "--json");
    let words: Vec<&str> =
        arguments.iter().map(String::as_str).filter(|word| *word != "--json").collect();
    let (wattline, action) = match words[..] {
        [wattline] | [wattline, "check"] => (wattline, Action::All),
        [wattline, "copi"] => (wattline, Action::Copi),
        [wattline, "shell"] => (wattline, Action::Shell),
        _ => {
            eprintln!("usage: rig PATH-OF-WATTLINE [check|copi|shell] [--json]");
            return ExitCode::from(2);
        }
    };
    eprintln!("The virtual hardware lab: all that follows is emulated, and no figure is measured.");
    let rig = match Rig::fetch() {
        Ok(rig) => rig,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(69);
        }
    };
    match run(&rig, wattline, action, json) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(74)
        }
    }
}

/// Use of the machine.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Action {
    /// All checks.
    All,
    /// Only a suspend under a governor, and a memcached that is profiled and governed.
    Copi,
    /// A prompt.
    Shell,
}

/// Returns true if all checks hold.
fn run(rig: &Rig, wattline: &str, action: Action, json: bool) -> Result<bool, Error> {
    let agent = std::env::current_exe().map_err(|e| Error::io("finding this program", e))?;
    let options = Options {
        programs: vec![("wattline", wattline.into()), ("agent", agent.clone())],
        cards: 2,
        ..Options::default()
    };
    let mut checks =
        if json { Checks::default() } else { Checks::reported_by(|check| println!("{check}")) };
    match action {
        Action::All => {}
        Action::Copi => {
            let mut machine = Machine::boot(rig, &options)?;
            checks::suspend(&mut machine, &mut checks)?;
            machine.power_off()?;
            if let Some(why) = checks::copi(rig, Path::new(wattline), &mut checks)? {
                eprintln!("left out: {why}");
            }
            return Ok(checks.failed().next().is_none() && !checks.checks.is_empty());
        }
        Action::Shell => {
            machine::shell(rig, &options)?;
            return Ok(true);
        }
    }
    let mut machine = Machine::boot(rig, &options)?;
    checks::all(&mut machine, &mut checks)?;
    checks::server(&mut machine, &mut checks)?;
    checks::xdp_governed(&mut machine, &mut checks)?;
    let boot = machine.boot.as_secs();
    let card = machine.card;
    machine.power_off()?;
    // A separate machine: each guest has a quarter of an hour.
    let mut machine = Machine::boot(rig, &options)?;
    checks::conformance(&mut machine, &mut checks)?;
    machine.power_off()?;
    let mut machine = Machine::boot(rig, &options)?;
    checks::kernel_cores(&mut machine, &mut checks)?;
    machine.power_off()?;
    checks::nic(rig, Path::new(wattline), &mut checks)?;
    checks::trial(rig, Path::new(wattline), &mut checks)?;
    checks::ipsec(rig, Path::new(wattline), &mut checks)?;
    checks::lag(rig, Path::new(wattline), &agent, &mut checks)?;
    checks::vlan(rig, Path::new(wattline), &agent, &mut checks)?;
    checks::nat(rig, Path::new(wattline), &agent, 2, &mut checks)?;
    checks::flow_speed(rig, Path::new(wattline), &agent, ("live-frames", 1), &mut checks)?;
    if rig.tuned().is_some() {
        checks::tuned(rig, Path::new(wattline), &mut checks)?;
    }
    if json {
        println!(
            "{}",
            serde_json::json!({ "emulated": true, "card": card, "checks": checks.checks, "load": checks.load })
        );
    } else {
        let mut load = String::new();
        // Writing to a string cannot fail.
        let _ = checks.write_load(&mut load);
        println!("{load}");
        let failed = checks.failed().count();
        println!(
            "{} checks, {failed} failed; card {card}, booted in {boot} s",
            checks.checks.len()
        );
    }
    Ok(checks.failed().next().is_none())
}
