//! Wattline inside an emulated machine, on the real drivers of frequency, idle states, network
//! card and power meter. Skipped where `rig/fetch` (part of `make tools`) has fetched nothing.
//! Two machines are booted side by side, one for each processor of a small host.

mod checks;
mod copi;
mod ipsec;
mod lag;
mod nat;
mod tuned;
mod vlan;

use checks::Checks;
use std::path::{Path, PathBuf};
use wattline_needs::{Need, skip};
use wattline_testbed::Error;
use wattline_testbed::rig::{Machine, Options, Rig, agent, conformance};

/// The agent inside the machine is this test program: it sets knobs, serves a platform under test,
/// or sends and receives a flow of packets.
#[test]
fn agent() {
    agent::serve().unwrap();
    conformance::serve().unwrap();
    checks::end_of_flow();
}

/// The emulator and its guest; where they are missing, `test` is skipped.
fn found(test: &str) -> Option<Rig> {
    let rig = Rig::find();
    if rig.is_none() {
        skip(Some(test), Need::Tool, "emulator and guest in target/rig");
    }
    rig
}

/// The program under test.
fn wattline() -> &'static Path {
    Path::new(wattline_needs::program())
}

/// This program, which is also started inside the machine.
fn this_program() -> PathBuf {
    std::env::current_exe().unwrap()
}

/// Makes checks with a machine that they boot themselves, and fails if one does not hold.
fn hold_all(make: impl FnOnce(&mut Checks) -> Result<(), Error>) {
    let mut checks = Checks::reported_by(|check| println!("{check}"));
    make(&mut checks).unwrap_or_else(|error| panic!("{error}"));
    all_hold(&checks);
}

fn all_hold(checks: &Checks) {
    assert!(!checks.checks.is_empty());
    let failed: Vec<String> = checks.failed().map(|check| format!("{check:?}")).collect();
    assert!(failed.is_empty(), "{failed:#?}");
}

fn boot(test: &str) -> Option<Machine> {
    let rig = found(test)?;
    let programs = vec![("wattline", wattline().to_owned()), ("agent", this_program())];
    Some(
        Machine::boot(&rig, &Options { programs, cards: 2, ..Options::default() })
            .unwrap_or_else(|e| panic!("{e}")),
    )
}

/// Boots a machine for some checks, and fails if one does not hold.
fn hold(test: &str, check: fn(&mut Machine, &mut Checks) -> Result<(), Error>) {
    let Some(mut machine) = boot(test) else { return };
    let mut checks = Checks::reported_by(|check| println!("{check}"));
    let ended = check(&mut machine, &mut checks);
    let mut load = String::new();
    checks.write_load(&mut load).unwrap();
    println!("{load}");
    ended.unwrap_or_else(|error| panic!("{error}"));
    machine.power_off().unwrap_or_else(|error| panic!("{error}"));
    all_hold(&checks);
}

#[test]
fn server_without_a_router_is_governed_and_restored() {
    hold("server_without_a_router_is_governed_and_restored", checks::server);
}

#[test]
#[ignore = "takes minutes; `make rig` makes these checks, too"]
fn cores_follow_the_load_of_the_kernel_by_tables_and_by_interrupts() {
    let test = "cores_follow_the_load_of_the_kernel_by_tables_and_by_interrupts";
    hold(test, checks::kernel_cores);
}

#[test]
#[ignore = "takes minutes; `make rig` makes these checks, too"]
fn xdp_programs_forward_beside_a_governor() {
    hold("xdp_programs_forward_beside_a_governor", checks::xdp_governed);
}

#[test]
#[ignore = "takes two minutes; `make rig-copi` makes it, too"]
fn governor_continues_after_a_suspend_and_restores_settings() {
    hold("governor_continues_after_a_suspend_and_restores_settings", checks::suspend);
}

#[test]
#[ignore = "takes two minutes; `make rig` makes these checks, too"]
fn two_cards_are_measured_by_the_method_of_sohan() {
    let Some(rig) = found("two_cards_are_measured_by_the_method_of_sohan") else { return };
    hold_all(|checks| checks::nic(&rig, wattline(), checks));
}

#[test]
#[ignore = "takes ten minutes"]
fn trial_finds_the_saving_of_real_drivers() {
    let Some(rig) = found("trial_finds_the_saving_of_real_drivers") else { return };
    hold_all(|checks| checks::trial(&rig, wattline(), checks));
}

#[test]
fn platform_keeps_its_promises_on_real_drivers() {
    hold("platform_keeps_its_promises_on_real_drivers", checks::conformance);
}

#[test]
fn knobs_and_meters_work_on_real_drivers_and_leave_no_trace() {
    hold("knobs_and_meters_work_on_real_drivers_and_leave_no_trace", checks::all);
}
