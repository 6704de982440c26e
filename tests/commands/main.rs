//! The commands as users run them, in one program, so that tests that wait do so at the same time.

#[path = "../../crates/knobs/tests/common/fixture.rs"]
mod copy;

mod build_identity;
mod capture_faults;
mod captures;
mod config;
mod control;
mod dashboard;
mod demo;
mod documented;
mod flow_records;
mod full_disk;
mod govern;
mod governor;
mod ipsec_peers;
mod json_reference;
mod laboratory;
mod league;
mod load;
mod metrics;
mod metrics_page;
mod new_keys;
mod nics;
mod pages;
mod power;
mod profile;
mod program;
mod prometheus;
mod redundancy;
mod report;
mod server_commands;
mod service;
mod sim_commands;
mod top;
mod trial;
mod unwritten_log;

/// Copies the program under test. A process of its own does it: while this one has the copy open, programs that other
/// threads start would inherit it, and the copy could not be run ("text file busy").
fn copy_program(to: &std::path::Path) {
    let copied = std::process::Command::new("cp").arg(wattline_needs::program()).arg(to).status();
    assert!(copied.unwrap().success(), "{}", to.display());
}
