//! Co-PI on real drivers, end to end: memcached in the guest is profiled, the resulting tables
//! govern it under a changing load, and the latency is measured outside.
//!
//! An emulated processor has no speed of its own: its latencies depend on the load of the host, but
//! the card's moderation delays packets in real time. Frequencies have no effect on speed here, so
//! every frequency has the latency of its moderation period.

mod governed;
mod profiled;
pub(super) mod site;

use super::{Checks, prepare};
use site::Site;
use std::path::Path;
use std::time::Duration;
use wattline_testbed::Error;
use wattline_testbed::leftovers::can_build_namespaces;
use wattline_testbed::rig::{Machine, Options, Rig};

/// Time for all of it, on a busy host.
const LIMIT: Duration = Duration::from_secs(2400);

/// Boots a machine and adds all checks to `checks`; returns the reason if that is not possible
/// here.
///
/// # Errors
/// When the machine fails; a check that does not hold is no error.
pub fn copi(
    rig: &Rig,
    wattline: &Path,
    checks: &mut Checks,
) -> Result<Option<&'static str>, Error> {
    if !can_build_namespaces("memcached in the guest, loaded from outside") {
        return Ok(Some("needs root, for the cable from outside to the guest"));
    }
    let site = Site::build()?;
    let mut machine = Machine::boot(
        rig,
        &Options {
            programs: vec![
                ("wattline", wattline.to_owned()),
                ("wattline-lab", wattline.with_file_name("wattline-lab")),
            ],
            cards: 2,
            namespaces: true,
            memcached: true,
            limit: Some(LIMIT),
            taps: Some(site.outside.name().to_owned()),
            ..Options::default()
        },
    )?;
    prepare(&mut machine)?;
    site.connect(&mut machine)?;
    let profile = profiled::check(&mut machine, checks)?;
    governed::check(&mut machine, &site, wattline, &profile, checks)?;
    machine.power_off()?;
    Ok(None)
}
