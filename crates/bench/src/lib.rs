//! Benchmarks of this machine. They are built so that a noisy machine shows: ratios within one run
//! are meaningful, absolute figures are not.
#![forbid(unsafe_code)]

pub mod app;
pub mod breakdown;
pub mod calibration;
pub mod control_loop;
mod device;
pub mod eer;
pub mod fib;
pub mod figure_page;
pub mod forward;
mod harness;
pub use wattline_report::machine;
pub mod memory_router;
pub mod nic;
pub mod pipeline;
pub mod prefixes;
#[cfg(test)]
mod redundancy;
pub mod rfc2544;
pub mod sample;

/// Checks a page in a browser, if there is one.
#[cfg(test)]
fn looked_at(name: &str, page: &str) {
    let Some(mut browser) = wattline_needs::browser::Browser::start(name) else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("page.html");
    std::fs::write(&path, page).unwrap();
    let url = wattline_needs::browser::url_of(&path);
    let wrong = wattline_needs::browser::look(&mut browser, name, &url, "true");
    assert!(wrong.is_empty() && page.len() < 1 << 20, "{}", wrong.join("\n"));
}
